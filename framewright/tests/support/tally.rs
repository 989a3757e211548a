//! Where requests were served, and where they should have been.

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
    /// What a memory says.
    pub fn of(stats: &CpuStats) -> Self {
        Self {
            hit: stats.numa_hit,
            miss: stats.numa_miss,
            foreign: stats.numa_foreign,
            local: stats.numa_local,
            other: stats.numa_other,
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            hit: self.hit + other.hit,
            miss: self.miss + other.miss,
            foreign: self.foreign + other.foreign,
            local: self.local + other.local,
            other: self.other + other.other,
        }
    }
}

/// The counters of all zones on all CPUs.
pub struct Tally {
    cpus: usize,
    of: Vec<Numa>,
}

impl Tally {
    pub fn new(zones: usize, cpus: usize) -> Self {
        Self { cpus, of: vec![Numa::default(); zones * cpus] }
    }

    pub fn at(&mut self, zone: usize, cpu: usize) -> &mut Numa {
        &mut self.of[zone * self.cpus + cpu]
    }

    pub fn of_zone(&self, zone: usize) -> Numa {
        self.of[zone * self.cpus..][..self.cpus].iter().fold(Numa::default(), Numa::plus)
    }

    pub fn of_cpu(&self, cpu: usize) -> Numa {
        self.of.iter().skip(cpu).step_by(self.cpus).fold(Numa::default(), Numa::plus)
    }
}
