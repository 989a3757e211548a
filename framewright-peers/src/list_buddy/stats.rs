//! Counters, updated under locks that are held anyway.

/// The reason why a CPU's lists returned frames to the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainReason {
    /// A free found the lists above their threshold.
    Threshold,
    /// Consecutive frees of orders 1 to 3.
    HighOrder,
    /// The lists were emptied on request: after a failed allocation, or by the embedder.
    Emptied,
    /// The regular trimming of lists.
    Decay,
}

impl DrainReason {
    /// Number of reasons.
    pub const COUNT: usize = 4;
}

/// Counts of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuStats {
    /// Blocks allocated through the lists.
    pub allocs: u64,
    /// Blocks freed to the lists.
    pub frees: u64,
    /// Times that a list was refilled.
    pub refills: u64,
    /// Frames obtained by refills.
    pub refilled_frames: u64,
    /// Bulk frees to the zone, by [`DrainReason`].
    pub drains: [u64; DrainReason::COUNT],
    /// Frames given back by them.
    pub drained_frames: u64,
    /// Bulk frees while lists of other types than movable held blocks.
    pub mixed_drains: u64,
}

impl CpuStats {
    /// Adds another CPU's counts.
    pub fn add(&mut self, other: &Self) {
        self.allocs += other.allocs;
        self.frees += other.frees;
        self.refills += other.refills;
        self.refilled_frames += other.refilled_frames;
        for (sum, count) in self.drains.iter_mut().zip(other.drains) {
            *sum += count;
        }
        self.drained_frames += other.drained_frames;
        self.mixed_drains += other.mixed_drains;
    }
}

/// Counts of the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneStats {
    /// Acquisitions of the zone lock.
    pub lock_acquisitions: u64,
    /// Frames taken from the lists of the zone or returned to them.
    pub lock_frames: u64,
    /// Allocations that bypassed the CPU lists: other orders, or the lists were busy or empty.
    pub direct_allocs: u64,
    /// Frees that bypassed the CPU lists.
    pub direct_frees: u64,
    /// Pageblocks claimed from another type.
    pub claims: u64,
    /// Blocks stolen from another type.
    pub steals: u64,
}

/// All counts, with the CPUs summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Sum over all CPUs.
    pub cpus: CpuStats,
    /// The zone's.
    pub zone: ZoneStats,
}

impl Stats {
    /// Mean frames moved per acquisition of the zone lock.
    #[must_use]
    pub fn frames_per_acquisition(&self) -> f64 {
        if self.zone.lock_acquisitions == 0 {
            return 0.0;
        }
        self.zone.lock_frames as f64 / self.zone.lock_acquisitions as f64
    }
}
