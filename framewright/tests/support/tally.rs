//! Expected NUMA counters: the zones that served requests, and the zones that the requests
//! preferred.

use framewright::observe::CpuStats;

/// The counters of a zone on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Numa {
    pub hit: u64,
    pub miss: u64,
    pub foreign: u64,
    pub local: u64,
    pub other: u64,
}

impl Numa {
    /// The counters that an allocator reports.
    pub fn of(stats: &CpuStats) -> Self {
        Self {
            hit: stats.numa_hit,
            miss: stats.numa_miss,
            foreign: stats.numa_foreign,
            local: stats.numa_local,
            other: stats.numa_other,
        }
    }

    /// Whether the counters that do not depend on the preferred zone are equal.
    pub fn is_like(&self, other: &Self) -> bool {
        let all = |numa: &Self| (numa.hit + numa.miss, numa.local, numa.other);
        all(self) == all(other)
    }
}

/// The counters of every zone, and those of every CPU.
pub struct Tally {
    pub zones: Vec<Numa>,
    pub cpus: Vec<Numa>,
    /// CPUs that may have cached their nearest zone before the last addition or removal of memory.
    pub stale: Vec<bool>,
    /// Whether a request on such a CPU was served, perhaps by the formerly nearest zone.
    pub unsure: bool,
}

impl Tally {
    pub fn new(zones: usize, cpus: usize) -> Self {
        let numa = |count| vec![Numa::default(); count];
        Self { zones: numa(zones), cpus: numa(cpus), stale: vec![false; cpus], unsure: false }
    }

    /// Updates the counters of a zone on a CPU.
    pub fn count(&mut self, zone: usize, cpu: usize, count: impl Fn(&mut Numa)) {
        count(&mut self.zones[zone]);
        count(&mut self.cpus[cpu]);
    }
}
