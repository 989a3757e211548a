//! Cache heat: whether an allocated frame is still in a CPU's cache.
//!
//! The model: a frame stays in a cache until the number of other frames brought in since its last
//! touch reaches the size of the cache. Each core and each socket counts *fills*: frames that one
//! of its CPUs touched and that were not in its cache. A touch of a frame in the cache is not a
//! fill and evicts nothing. A frame records the core of its last touch and the two counts at that
//! time. It is *hot* for a core if it is in that core's cache, and *warm* for a socket if it is hot
//! or in the socket's cache. A touch of a hot frame is not a fill of the socket.
//!
//! The model overestimates hits a little: in a least-recently-used cache, a hit also ages the
//! frames touched since the last touch of the hit frame; here only a fill does.
//! An exact model needs a list per cache, which threads
//! cannot share cheaply. The model also ignores copies that remain in the caches of CPUs that
//! touched the frame earlier, associativity, and data of programs outside the workload's frames.
//! Its figures are only for comparing allocators.
//!
//! The same observer is used for every allocator and every machine. On real threads its words are
//! read and written without ordering: a frame has one owner at a time, and counts may be slightly
//! stale.

use bytemuck::allocation::try_zeroed_vec;
use framewright_sim::host_memory::{in_huge_pages, prefetch};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Error;

/// The caches of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caches {
    /// Per CPU, its core.
    pub(crate) core_of: Vec<u16>,
    /// Per CPU, its socket.
    pub(crate) socket_of: Vec<u16>,
    /// Size of the cache of a core, in frames.
    pub(crate) of_core: u32,
    /// Size of the cache of a socket, in frames.
    pub(crate) of_socket: u32,
}

/// Number of bits of a count. A count wraps around after 256 GiB, far more than any cache.
const CLOCK_BITS: u32 = 26;
const CLOCK: u32 = (1 << CLOCK_BITS) - 1;

/// Words on a cache line of this host.
const NEIGHBOURS: u64 = 8;

/// The last touch of every frame.
pub(crate) struct Heat {
    /// Sizes of the caches of a core and of a socket, in frames.
    of_core: u32,
    of_socket: u32,
    /// Per frame: the core of its last touch, and the counts of fills of that core and its socket;
    /// 0 if it was never touched.
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

/// Numbers of frames of a block that are in caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hotness {
    /// In the cache of the core.
    pub(crate) hot: u32,
    /// In the cache of the core or of the socket.
    pub(crate) warm: u32,
}

impl Hotness {
    /// Counts a frame, given whether it is hot and whether it is warm.
    #[inline(always)]
    fn add(&mut self, (hot, warm): (bool, bool)) {
        self.hot += u32::from(hot);
        self.warm += u32::from(warm);
    }
}

impl Heat {
    /// The heat of `frames` frames, all of them cold.
    ///
    /// # Errors
    ///
    /// The system refuses the memory.
    pub(crate) fn new(caches: &Caches, frames: u64) -> Result<Self, Error> {
        let clocks = |of: &[u16]| {
            let most = of.iter().max().map_or(0, |&most| usize::from(most) + 1);
            (0..most).map(|_| Clock::default()).collect()
        };
        let cores: Vec<Clock> = clocks(&caches.core_of);
        let mut socket_of_core = vec![0; cores.len()];
        for (core, socket) in caches.core_of.iter().zip(&caches.socket_of) {
            socket_of_core[usize::from(*core)] = *socket;
        }
        // Unused words take no memory.
        let words = try_zeroed_vec::<AtomicU64>(frames as usize).map_err(|()| {
            let mib = (frames * size_of::<AtomicU64>() as u64).div_ceil(1 << 20);
            Error::memory(format_args!(
                "the system refused {mib} MiB of memory for the model of caches; ask for less, or free some"
            ))
        })?;
        in_huge_pages(&words);
        Ok(Self {
            cores,
            socket_of_core,
            places: caches.core_of.iter().copied().zip(caches.socket_of.iter().copied()).collect(),
            sockets: clocks(&caches.socket_of),
            frames: words,
            of_core: caches.of_core,
            of_socket: caches.of_socket,
        })
    }

    /// The observer of a CPU.
    pub(crate) fn of_cpu(&self, cpu: u16) -> CpuHeat<'_> {
        let (core, socket) = self.places[usize::from(cpu)];
        let (own, shared) = (&self.cores[usize::from(core)], &self.sockets[usize::from(socket)]);
        CpuHeat { heat: self, core, socket, own, shared }
    }

    fn words(&self, first: u64, count: u64) -> &[AtomicU64] {
        &self.frames[first as usize..(first + count) as usize]
    }
}

/// A CPU's access to the heat of frames.
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
    /// Counts the frames that are in caches of this CPU, among the `count` frames from `first`.
    pub(crate) fn of(&self, first: u64, count: u64) -> Hotness {
        let (mut hotness, now) = (Hotness::default(), self.now());
        for word in self.heat.words(first, count) {
            hotness.add(self.holds(word.load(Relaxed), now));
        }
        hotness
    }

    /// Touches `count` frames from `first` on this CPU. Counts the frames that were in
    /// its caches when they were touched. A touch may evict frames that are touched after it.
    #[inline]
    pub(crate) fn touch(&self, first: u64, count: u64) -> Hotness {
        let mut hotness = Hotness::default();
        for word in self.heat.words(first, count) {
            hotness.add(self.touch_word(word));
        }
        self.prefetch_ahead(first + count);
        hotness
    }

    /// As [`CpuHeat::touch`], for a single frame, without a loop: the case of a page fault.
    #[inline(always)]
    pub(crate) fn touch_frame(&self, frame: u64) -> Hotness {
        let mut hotness = Hotness::default();
        hotness.add(self.touch_word(&self.heat.frames[frame as usize]));
        self.prefetch_ahead(frame + 1);
        hotness
    }

    /// Touches a frame. Returns whether it was hot, and whether it was warm.
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

    /// Prefetches the word of a later frame, which is likely to be touched soon. With many
    /// simulated CPUs, the words do not fit in the host's cache.
    #[inline(always)]
    fn prefetch_ahead(&self, frame: u64) {
        if let Some(soon) = self.heat.frames.get((frame + NEIGHBOURS) as usize) {
            prefetch(soon);
        }
    }

    #[inline(always)]
    fn now(&self) -> Now {
        Now { core: self.own.0.load(Relaxed), socket: self.shared.0.load(Relaxed) }
    }

    /// Whether a frame is hot, and whether it is warm.
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

/// Number of fills between two counts.
fn since(then: u32, now: u32) -> u32 {
    now.wrapping_sub(then) & CLOCK
}

impl Clock {
    /// The count after a touch, given the count `now` before it and whether it was a fill. CPUs of
    /// one core or socket may lose each other's counts.
    #[inline(always)]
    fn tick(&self, now: u32, fill: bool) -> u32 {
        let now = now.wrapping_add(u32::from(fill));
        if fill {
            self.0.store(now, Relaxed);
        }
        now & CLOCK
    }
}

/// The last touch of a frame: core and counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Touch {
    core: u16,
    core_time: u32,
    socket_time: u32,
}

impl Touch {
    /// Core numbers are below 4095, so `core + 1` fits into the 12 highest bits and is not 0. The
    /// word 0 means that the frame was never touched.
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
        Heat::new(&caches, 64).unwrap()
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
    fn untouched_frames_are_cold() {
        assert_eq!(heat().of_cpu(0).of(0, 64), Hotness::default());
    }

    #[test]
    fn a_frame_stays_hot_until_its_cache_was_filled_with_others() {
        let heat = heat();
        heat.of_cpu(0).touch(10, 1);
        // The sibling shares the core; the other core shares the socket.
        assert_eq!(heat.of_cpu(1).of(10, 1), Hotness { hot: 1, warm: 1 });
        assert_eq!(heat.of_cpu(2).of(10, 1), Hotness { hot: 0, warm: 1 });
        heat.of_cpu(1).touch(20, 3);
        assert_eq!(heat.of_cpu(0).of(10, 1).hot, 1);
        heat.of_cpu(0).touch(23, 1);
        assert_eq!(heat.of_cpu(0).of(10, 1), Hotness { hot: 0, warm: 1 });
        // Frames that another core of the socket touches evict it from the larger cache, too.
        heat.of_cpu(3).touch(30, 2);
        assert_eq!(heat.of_cpu(0).of(10, 1), Hotness::default());
    }

    #[test]
    fn frames_in_the_cache_evict_nothing() {
        let heat = heat();
        heat.of_cpu(0).touch(10, 1);
        // Three more frames, which fit, touched repeatedly by both CPUs of the core.
        for cpu in [0, 1, 0, 1, 0] {
            heat.of_cpu(cpu).touch(20, 3);
        }
        assert_eq!(heat.of_cpu(0).of(10, 1), Hotness { hot: 1, warm: 1 });
        assert_eq!(heat.of_cpu(0).of(20, 3), Hotness { hot: 3, warm: 3 });
        // One more does not fit, and evicts the first.
        heat.of_cpu(0).touch(30, 1);
        assert_eq!(heat.of_cpu(0).of(10, 1).hot, 0);
        assert_eq!(heat.of_cpu(0).of(20, 3).hot, 3);
    }

    #[test]
    fn a_second_touch_extends_the_stay() {
        let heat = heat();
        heat.of_cpu(0).touch(10, 2);
        heat.of_cpu(0).touch(20, 2);
        heat.of_cpu(0).touch(10, 1);
        heat.of_cpu(0).touch(22, 2);
        assert_eq!(heat.of_cpu(0).of(10, 1).hot, 1);
        assert_eq!(heat.of_cpu(0).of(11, 1).hot, 0);
    }

    #[test]
    fn a_frame_that_moves_between_cores_is_one_fill_of_the_socket() {
        let heat = heat();
        heat.of_cpu(0).touch(0, 1);
        // Each touch is a fill of a core, but not of the socket.
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
    fn the_last_touch_counts() {
        let heat = heat();
        heat.of_cpu(0).touch(5, 1);
        heat.of_cpu(2).touch(5, 1);
        assert_eq!(heat.of_cpu(0).of(5, 1).hot, 0);
        assert_eq!(heat.of_cpu(3).of(4, 3), Hotness { hot: 1, warm: 1 });
    }
}
