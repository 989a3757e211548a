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

use framewright_sim::host_memory::{expect, in_large_pages};
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
        // Memory that is never looked at costs nothing.
        let words: Vec<AtomicU64> = bytemuck::allocation::zeroed_vec(frames as usize);
        in_large_pages(&words);
        Self {
            cores,
            socket_of_core,
            places: caches.core_of.iter().copied().zip(caches.socket_of.iter().copied()).collect(),
            sockets: clocks(&caches.socket_of),
            frames: words,
            of_core: caches.of_core,
            of_socket: caches.of_socket,
        }
    }

    /// The view of a CPU.
    pub(crate) fn of_cpu(&self, cpu: u16) -> CpuHeat<'_> {
        let (core, socket) = self.places[usize::from(cpu)];
        let (own, shared) = (&self.cores[usize::from(core)], &self.sockets[usize::from(socket)]);
        CpuHeat { heat: self, core, socket, own, shared }
    }

    fn words(&self, first: u64, count: u64) -> &[AtomicU64] {
        &self.frames[first as usize..(first + count) as usize]
    }
}

/// What a CPU knows of the heat of frames, and does to it.
#[derive(Clone, Copy)]
pub(crate) struct CpuHeat<'h> {
    heat: &'h Heat,
    core: u16,
    socket: u16,
    /// The counts of its two caches.
    own: &'h Clock,
    shared: &'h Clock,
}

impl CpuHeat<'_> {
    /// How many of `count` frames from `first` are in a cache of this CPU.
    pub(crate) fn of(&self, first: u64, count: u64) -> Hotness {
        let (mut hotness, now) = (Hotness::default(), self.now());
        for word in self.heat.words(first, count) {
            hotness.add(self.holds(word.load(Relaxed), now));
        }
        hotness
    }

    /// This CPU touches all of `count` frames from `first`; how many were in a cache of it until
    /// then. What is touched first may have pushed out what comes later.
    #[inline]
    pub(crate) fn touch(&self, first: u64, count: u64) -> Hotness {
        let mut hotness = Hotness::default();
        for word in self.heat.words(first, count) {
            hotness.add(self.touch_word(word));
        }
        self.expect_soon(first + count);
        hotness
    }

    /// As [`CpuHeat::touch`], of a single frame: what a page fault does, without a loop.
    #[inline(always)]
    pub(crate) fn touch_frame(&self, frame: u64) -> Hotness {
        let mut hotness = Hotness::default();
        hotness.add(self.touch_word(&self.heat.frames[frame as usize]));
        self.expect_soon(frame + 1);
        hotness
    }

    /// A frame is touched; whether it was in the core's cache, and whether it was in that or in the
    /// socket's.
    #[inline(always)]
    fn touch_word(&self, word: &AtomicU64) -> (bool, bool) {
        let now = self.now();
        let (hot, warm) = self.holds(word.load(Relaxed), now);
        let touch = Touch {
            core: self.core,
            core_time: self.own.tick(now.core, !hot),
            socket_time: self.shared.tick(now.socket, !warm),
        };
        word.store(touch.pack(), Relaxed);
        (hot, warm)
    }

    /// What is touched next is most often a neighbour, and words are far away when many CPUs take
    /// turns.
    #[inline(always)]
    fn expect_soon(&self, frame: u64) {
        if let Some(soon) = self.heat.frames.get((frame + NEIGHBOURS) as usize) {
            expect(soon);
        }
    }

    #[inline(always)]
    fn now(&self) -> Now {
        Now { core: self.own.0.load(Relaxed), socket: self.shared.0.load(Relaxed) }
    }

    /// Whether a frame is in the core's cache, and whether it is in that or in the socket's.
    #[inline(always)]
    fn holds(&self, word: u64, now: Now) -> (bool, bool) {
        let heat = self.heat;
        let Some(touch) = Touch::unpack(word) else { return (false, false) };
        let hot = touch.core == self.core && since(touch.core_time, now.core) < heat.of_core;
        let warm = hot
            || heat.socket_of_core[usize::from(touch.core)] == self.socket
                && since(touch.socket_time, now.socket) < heat.of_socket;
        (hot, warm)
    }
}

/// The counts of the two caches of a CPU.
#[derive(Clone, Copy)]
struct Now {
    core: u32,
    socket: u32,
}

/// Fills between two counts.
fn since(then: u32, now: u32) -> u32 {
    now.wrapping_sub(then) & CLOCK
}

impl Clock {
    /// The count after a touch, which was a fill or not, when it was `now` before. CPUs of one core or
    /// socket may lose a count to one another.
    #[inline(always)]
    fn tick(&self, now: u32, fill: bool) -> u32 {
        let now = now.wrapping_add(u32::from(fill));
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
        assert_eq!(heat().of_cpu(0).of(0, 64), Hotness::default());
    }

    #[test]
    fn a_frame_stays_hot_for_its_core_until_the_cache_has_seen_as_many_others() {
        let heat = heat();
        heat.of_cpu(0).touch(10, 1);
        // The sibling shares the core; the other core shares the socket.
        assert_eq!(heat.of_cpu(1).of(10, 1), Hotness { hot: 1, warm: 1 });
        assert_eq!(heat.of_cpu(2).of(10, 1), Hotness { hot: 0, warm: 1 });
        heat.of_cpu(1).touch(20, 3);
        assert_eq!(heat.of_cpu(0).of(10, 1).hot, 1);
        heat.of_cpu(0).touch(23, 1);
        assert_eq!(heat.of_cpu(0).of(10, 1), Hotness { hot: 0, warm: 1 });
        // Others of the socket push it out of the larger cache too.
        heat.of_cpu(3).touch(30, 2);
        assert_eq!(heat.of_cpu(0).of(10, 1), Hotness::default());
    }

    #[test]
    fn what_is_inside_already_pushes_nothing_out() {
        let heat = heat();
        heat.of_cpu(0).touch(10, 1);
        // Three frames more, which fit, touched over and over by both CPUs of the core.
        for cpu in [0, 1, 0, 1, 0] {
            heat.of_cpu(cpu).touch(20, 3);
        }
        assert_eq!(heat.of_cpu(0).of(10, 1), Hotness { hot: 1, warm: 1 });
        assert_eq!(heat.of_cpu(0).of(20, 3), Hotness { hot: 3, warm: 3 });
        // One more does not fit, and it is the first that goes.
        heat.of_cpu(0).touch(30, 1);
        assert_eq!(heat.of_cpu(0).of(10, 1).hot, 0);
        assert_eq!(heat.of_cpu(0).of(20, 3).hot, 3);
    }

    #[test]
    fn a_frame_that_is_touched_again_stays_for_longer() {
        let heat = heat();
        heat.of_cpu(0).touch(10, 2);
        heat.of_cpu(0).touch(20, 2);
        heat.of_cpu(0).touch(10, 1);
        heat.of_cpu(0).touch(22, 2);
        assert_eq!(heat.of_cpu(0).of(10, 1).hot, 1);
        assert_eq!(heat.of_cpu(0).of(11, 1).hot, 0);
    }

    #[test]
    fn a_frame_that_goes_from_core_to_core_is_brought_into_the_socket_once() {
        let heat = heat();
        heat.of_cpu(0).touch(0, 1);
        // Each time it is a fill of a core and none of the socket.
        for cpu in [2, 0].repeat(10) {
            heat.of_cpu(cpu).touch(1, 1);
        }
        assert_eq!(heat.of_cpu(0).of(0, 1), Hotness { hot: 0, warm: 1 });
    }

    #[test]
    fn a_loop_over_more_than_a_cache_holds_never_hits() {
        let heat = heat();
        for frame in (0..5).cycle().take(20) {
            assert_eq!(heat.of_cpu(0).of(frame, 1).hot, 0);
            heat.of_cpu(0).touch(frame, 1);
        }
        let warm: u32 = (0..5).map(|frame| heat.of_cpu(3).of(frame, 1).warm).sum();
        assert_eq!(warm, 5);
    }

    #[test]
    fn whoever_touched_last_counts() {
        let heat = heat();
        heat.of_cpu(0).touch(5, 1);
        heat.of_cpu(2).touch(5, 1);
        assert_eq!(heat.of_cpu(0).of(5, 1).hot, 0);
        assert_eq!(heat.of_cpu(3).of(4, 3), Hotness { hot: 1, warm: 1 });
    }
}
