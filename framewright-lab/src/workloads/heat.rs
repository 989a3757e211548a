//! Whether a frame that is handed out is still in somebody's cache.
//!
//! The model: a cache holds what was touched last, up to its size. Each core and each socket counts
//! the frames touched by its CPUs; a frame remembers who touched it last and what those two counts
//! were then. It is *hot* for a core that touched it, and then fewer frames than its own cache
//! holds; *warm* if it is hot, or for a socket, likewise. Neither associativity nor the data of programs that are
//! no frames of the workload are known here: the figures compare allocators, no more.
//!
//! The same observer watches every allocator and every machine. On real threads its words are
//! read and written without order: a frame has one owner at a time, and counts may be a little old.

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

/// All frames of a memory, and when each was touched last.
pub(crate) struct Heat {
    caches: Caches,
    /// Per frame: core, its count and that of its socket; 0 if it was never touched.
    frames: Vec<AtomicU64>,
    /// Per core, its socket.
    socket_of_core: Vec<u16>,
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

impl Heat {
    /// Cold frames.
    pub(crate) fn new(caches: Caches, frames: u64) -> Self {
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
            sockets: clocks(&caches.socket_of),
            // Memory that is never looked at costs nothing.
            frames: bytemuck::allocation::zeroed_vec(frames as usize),
            caches,
        }
    }

    /// How many of `count` frames from `first` are in a cache of `cpu`.
    pub(crate) fn of(&self, cpu: u16, first: u64, count: u64) -> Hotness {
        let (core, socket) = self.place(cpu);
        let (core_now, socket_now) = (self.cores[core].now(), self.sockets[socket].now());
        let mut hotness = Hotness::default();
        for word in &self.frames[first as usize..(first + count) as usize] {
            let Some(touch) = Touch::unpack(word.load(Relaxed)) else { continue };
            let since = |now: u32, then: u32| now.wrapping_sub(then) & CLOCK;
            let same_core = usize::from(touch.core) == core;
            let same_socket = usize::from(self.socket_of_core[usize::from(touch.core)]) == socket;
            let hot = same_core && since(core_now, touch.core_time) < self.caches.of_core;
            let warm =
                hot || same_socket && since(socket_now, touch.socket_time) < self.caches.of_socket;
            hotness.hot += u32::from(hot);
            hotness.warm += u32::from(warm);
        }
        hotness
    }

    /// A CPU touches all of `count` frames from `first`.
    pub(crate) fn touch(&self, cpu: u16, first: u64, count: u64) {
        let (core, socket) = self.place(cpu);
        for word in &self.frames[first as usize..(first + count) as usize] {
            let touch = Touch {
                core: core as u16,
                core_time: self.cores[core].tick(),
                socket_time: self.sockets[socket].tick(),
            };
            word.store(touch.pack(), Relaxed);
        }
    }

    fn place(&self, cpu: u16) -> (usize, usize) {
        let cpu = usize::from(cpu);
        (usize::from(self.caches.core_of[cpu]), usize::from(self.caches.socket_of[cpu]))
    }
}

impl Clock {
    fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Counts one frame; says how many there were before. CPUs of one core or socket may lose a
    /// count to one another.
    fn tick(&self) -> u32 {
        let now = self.now();
        self.0.store(now.wrapping_add(1), Relaxed);
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
        Heat::new(caches, 64)
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
        heat.touch(1, 20, 2);
        assert_eq!(heat.of(0, 10, 1).hot, 1);
        heat.touch(0, 22, 1);
        assert_eq!(heat.of(0, 10, 1), Hotness { hot: 0, warm: 1 });
        // Others of the socket push it out of the larger cache too.
        heat.touch(3, 30, 2);
        assert_eq!(heat.of(0, 10, 1), Hotness::default());
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
