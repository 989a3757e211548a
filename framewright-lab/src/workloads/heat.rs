//! Whether a frame that is handed out is still in somebody's cache.
//!
//! The model: a frame stays in a cache until as many others have been brought in since it was touched
//! last as the cache holds. Each core and each socket counts *fills*: frames that one of its CPUs
//! touched and that were not in its cache. A frame that is touched again while it is inside is no
//! fill and pushes nothing out, however often that happens. It remembers who touched it last and
//! what those two counts were then. It is *hot* for a core whose cache it is in, and *warm* for a
//! socket if it is hot or in the socket's cache; a frame that is hot brings nothing into the latter.
//!
//! Counts are a little generous: a least-recently-used cache would also push out, at its next fill,
//! what has not been touched while much else in it was. Finding that out takes a list per cache,
//! which threads cannot share for free. Where a frame was before it was touched last, copies that
//! are still there, associativity, and the data of programs that are no frames of the workload are
//! not known here either: the figures compare allocators, no more.
//!
//! The same observer watches every allocator and every machine. On real threads its words are
//! read and written without order: a frame has one owner at a time, and counts may be a little old.

use framewright_sim::engine::expect;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The caches of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caches {
    /// Per CPU, its core.
    pub(crate) core_of: Vec<u16>,
    /// Per CPU, its socket.
    pub(crate) socket_of: Vec<u16>,
    /// Frames that the cache of a core holds.
    pub(crate) of_core: u32,
    /// Frames that the cache of a socket holds.
    pub(crate) of_socket: u32,
}

/// Counts are kept in so many bits: they start over after 256 GiB, long after any cache has.
const CLOCK_BITS: u32 = 26;
const CLOCK: u32 = (1 << CLOCK_BITS) - 1;

/// Words on a cache line of this host.
const NEIGHBOURS: u64 = 8;

/// All frames of a memory, and when each was touched last.
pub(crate) struct Heat {
    /// Frames that the cache of a core holds, and that of a socket.
    of_core: u32,
    of_socket: u32,
    /// Per frame: the core that touched it last, its count of fills and that of its socket; 0 if it
    /// was never touched.
    frames: Vec<AtomicU64>,
    /// Per core, its socket.
    socket_of_core: Vec<u16>,
    /// Per CPU, its core and its socket.
    places: Vec<(u16, u16)>,
    cores: Vec<Clock>,
    sockets: Vec<Clock>,
}

#[repr(align(128))]
#[derive(Default)]
struct Clock(AtomicU32);

/// How many frames of a block are in which cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hotness {
    /// In that of the core.
    pub(crate) hot: u32,
    /// In that of the core or in that of the socket.
    pub(crate) warm: u32,
}

impl Hotness {
    /// One frame more, which is hot or not, and warm or not.
    #[inline(always)]
    fn add(&mut self, (hot, warm): (bool, bool)) {
        self.hot += u32::from(hot);
        self.warm += u32::from(warm);
    }
}

impl Heat {
    /// Cold frames.
    pub(crate) fn new(caches: &Caches, frames: u64) -> Self {
        let clocks = |of: &[u16]| {
            let most = of.iter().max().map_or(0, |&most| usize::from(most) + 1);
            (0..most).map(|_| Clock::default()).collect()
        };
        let cores: Vec<Clock> = clocks(&caches.core_of);
        let mut socket_of_core = vec![0; cores.len()];
        for (core, socket) in caches.core_of.iter().zip(&caches.socket_of) {
            socket_of_core[usize::from(*core)] = *socket;
        }
        Self {
            cores,
            socket_of_core,
            places: caches.core_of.iter().copied().zip(caches.socket_of.iter().copied()).collect(),
            sockets: clocks(&caches.socket_of),
            // Memory that is never looked at costs nothing.
            frames: bytemuck::allocation::zeroed_vec(frames as usize),
            of_core: caches.of_core,
            of_socket: caches.of_socket,
        }
    }

    /// How many of `count` frames from `first` are in a cache of `cpu`.
    pub(crate) fn of(&self, cpu: u16, first: u64, count: u64) -> Hotness {
        let here = self.here(cpu);
        let mut hotness = Hotness::default();
        for word in self.words(first, count) {
            hotness.add(self.holds(&here, word.load(Relaxed)));
        }
        hotness
    }

    /// A CPU touches all of `count` frames from `first`; how many were in a cache of it until then.
    /// What is touched first may have pushed out what comes later.
    #[inline]
    pub(crate) fn touch(&self, cpu: u16, first: u64, count: u64) -> Hotness {
        let here = self.here(cpu);
        let mut hotness = Hotness::default();
        for word in self.words(first, count) {
            let (hot, warm) = self.holds(&here, word.load(Relaxed));
            let touch = Touch {
                core: here.core,
                core_time: here.own.after(!hot),
                socket_time: here.shared.after(!warm),
            };
            word.store(touch.pack(), Relaxed);
            hotness.add((hot, warm));
        }
        // What is touched next is most often a neighbour, and words are far away when many CPUs take
        // turns.
        if let Some(soon) = self.frames.get((first + count + NEIGHBOURS) as usize) {
            expect(soon);
        }
        hotness
    }

    fn words(&self, first: u64, count: u64) -> &[AtomicU64] {
        &self.frames[first as usize..(first + count) as usize]
    }

    /// Where `cpu` is.
    #[inline]
    fn here(&self, cpu: u16) -> Here<'_> {
        let (core, socket) = self.places[usize::from(cpu)];
        let (own, shared) = (&self.cores[usize::from(core)], &self.sockets[usize::from(socket)]);
        Here { core, socket, own, shared }
    }

    /// Whether a frame is in the core's cache, and whether it is in that or in the socket's.
    #[inline]
    fn holds(&self, here: &Here<'_>, word: u64) -> (bool, bool) {
        let Some(touch) = Touch::unpack(word) else { return (false, false) };
        let hot = touch.core == here.core && here.own.since(touch.core_time) < self.of_core;
        let warm = hot
            || self.socket_of_core[usize::from(touch.core)] == here.socket
                && here.shared.since(touch.socket_time) < self.of_socket;
        (hot, warm)
    }
}

/// Where a CPU is, and the counts of its two caches.
struct Here<'h> {
    core: u16,
    socket: u16,
    own: &'h Clock,
    shared: &'h Clock,
}

impl Clock {
    /// Fills since the count was `then`.
    fn since(&self, then: u32) -> u32 {
        self.0.load(Relaxed).wrapping_sub(then) & CLOCK
    }

    /// The count after a touch, which was a fill or not. CPUs of one core or socket may lose a
    /// count to one another.
    fn after(&self, fill: bool) -> u32 {
        let now = self.0.load(Relaxed).wrapping_add(u32::from(fill));
        if fill {
            self.0.store(now, Relaxed);
        }
        now & CLOCK
    }
}

/// Who touched a frame last, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Touch {
    core: u16,
    core_time: u32,
    socket_time: u32,
}

impl Touch {
    /// Cores have numbers below 4095, so that no touch packs to 0.
    fn pack(self) -> u64 {
        (u64::from(self.core) + 1) << (2 * CLOCK_BITS)
            | (u64::from(self.socket_time) << CLOCK_BITS)
            | u64::from(self.core_time)
    }

    fn unpack(word: u64) -> Option<Self> {
        Some(Self {
            core: (word >> (2 * CLOCK_BITS)).checked_sub(1)? as u16,
            core_time: word as u32 & CLOCK,
            socket_time: (word >> CLOCK_BITS) as u32 & CLOCK,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cores of two CPUs each, one socket.
    fn heat() -> Heat {
        let caches =
            Caches { core_of: vec![0, 0, 1, 1], socket_of: vec![0; 4], of_core: 4, of_socket: 6 };
        Heat::new(&caches, 64)
    }

    #[test]
    fn touches_survive_packing() {
        for core in [0, 511, 4094] {
            let touch = Touch { core, core_time: CLOCK, socket_time: 1 };
            assert_eq!(Touch::unpack(touch.pack()), Some(touch));
        }
        assert_eq!(Touch::unpack(0), None);
    }

    #[test]
    fn what_nobody_touched_is_cold() {
        assert_eq!(heat().of(0, 0, 64), Hotness::default());
    }

    #[test]
    fn a_frame_stays_hot_for_its_core_until_the_cache_has_seen_as_many_others() {
        let heat = heat();
        heat.touch(0, 10, 1);
        // The sibling shares the core; the other core shares the socket.
        assert_eq!(heat.of(1, 10, 1), Hotness { hot: 1, warm: 1 });
        assert_eq!(heat.of(2, 10, 1), Hotness { hot: 0, warm: 1 });
        heat.touch(1, 20, 3);
        assert_eq!(heat.of(0, 10, 1).hot, 1);
        heat.touch(0, 23, 1);
        assert_eq!(heat.of(0, 10, 1), Hotness { hot: 0, warm: 1 });
        // Others of the socket push it out of the larger cache too.
        heat.touch(3, 30, 2);
        assert_eq!(heat.of(0, 10, 1), Hotness::default());
    }

    #[test]
    fn what_is_inside_already_pushes_nothing_out() {
        let heat = heat();
        heat.touch(0, 10, 1);
        // Three frames more, which fit, touched over and over by both CPUs of the core.
        for cpu in [0, 1, 0, 1, 0] {
            heat.touch(cpu, 20, 3);
        }
        assert_eq!(heat.of(0, 10, 1), Hotness { hot: 1, warm: 1 });
        assert_eq!(heat.of(0, 20, 3), Hotness { hot: 3, warm: 3 });
        // One more does not fit, and it is the first that goes.
        heat.touch(0, 30, 1);
        assert_eq!(heat.of(0, 10, 1).hot, 0);
        assert_eq!(heat.of(0, 20, 3).hot, 3);
    }

    #[test]
    fn a_frame_that_is_touched_again_stays_for_longer() {
        let heat = heat();
        heat.touch(0, 10, 2);
        heat.touch(0, 20, 2);
        heat.touch(0, 10, 1);
        heat.touch(0, 22, 2);
        assert_eq!(heat.of(0, 10, 1).hot, 1);
        assert_eq!(heat.of(0, 11, 1).hot, 0);
    }

    #[test]
    fn a_frame_that_goes_from_core_to_core_is_brought_into_the_socket_once() {
        let heat = heat();
        heat.touch(0, 0, 1);
        // Each time it is a fill of a core and none of the socket.
        for cpu in [2, 0].repeat(10) {
            heat.touch(cpu, 1, 1);
        }
        assert_eq!(heat.of(0, 0, 1), Hotness { hot: 0, warm: 1 });
    }

    #[test]
    fn a_loop_over_more_than_a_cache_holds_never_hits() {
        let heat = heat();
        for frame in (0..5).cycle().take(20) {
            assert_eq!(heat.of(0, frame, 1).hot, 0);
            heat.touch(0, frame, 1);
        }
        let warm: u32 = (0..5).map(|frame| heat.of(3, frame, 1).warm).sum();
        assert_eq!(warm, 5);
    }

    #[test]
    fn whoever_touched_last_counts() {
        let heat = heat();
        heat.touch(0, 5, 1);
        heat.touch(2, 5, 1);
        assert_eq!(heat.of(0, 5, 1).hot, 0);
        assert_eq!(heat.of(3, 4, 3), Hotness { hot: 1, warm: 1 });
    }
}
