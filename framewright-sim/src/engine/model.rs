//! The costs of operations on the simulated machine, in cycles, in the form that the engine uses.

use crate::machine::{Costs, Spec};

/// First-level data caches had 32 KiB for two decades; some are larger.
const L1_LINES: u32 = 512;
/// A core's share of the last-level cache, in percent of its second-level cache: Skylake-SP has
/// 1.375 MiB compared with 1 MiB. The share was ten times the second-level cache on older machines;
/// on newer ones it is about as large as that cache.
const LLC_OF_L2_PERCENT: u32 = 137;
/// [`Model::slack`] of a machine with costs: about 16 µs, or eight page faults.
const SLACK: u64 = 40_000;

/// Cycles per kind of event, and the sockets and nodes of CPUs.
///
/// [`Model::free`] charges nothing. It is for programs in which only the order matters.
#[derive(Clone, Debug)]
pub struct Model {
    /// Socket of every CPU.
    pub sockets: Vec<u8>,
    /// Node of every CPU.
    pub nodes: Vec<u8>,
    /// Costs of cache lines and memory.
    pub lines: LineCosts,
    /// An atomic read-modify-write on a cached line.
    pub atomic: u64,
    /// A lock hand-off, in percent of transferring the lock's line.
    pub handoff_percent: u64,
    /// A fixed part of a lock hand-off.
    pub handoff_fixed: u64,
    /// Sending an interrupt, per target.
    pub send: u64,
    /// Arrival of an interrupt on the same socket.
    pub arrive_local: u64,
    /// Arrival of an interrupt on another socket.
    pub arrive_remote: u64,
    /// Entering and leaving a handler.
    pub entry: u64,
    /// Acknowledging an interrupt, without the transfer of the line that the sender reads.
    pub acknowledge: u64,
    /// Cycles between two periodic ticks; 0: no tick.
    pub tick_period: u64,
    /// One periodic tick.
    pub tick: u64,
    /// Clearing a frame.
    pub clear: u64,
    /// Copying a frame.
    pub copy: u64,
    /// 100 instructions with all lines in the first-level cache.
    pub hundred_instructions: u64,
    /// Nanoseconds in 1000 cycles.
    pub nanos_per_1000_cycles: u64,
    /// Cycles that a CPU may be ahead of others when it accesses a word of the owner protocol. Such
    /// accesses of different CPUs may be reordered by up to this time.
    pub slack: u64,
}

/// Cycles for a cache line beyond the instruction that accesses it, by the place of the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineCosts {
    /// In the second-level cache.
    pub l2: u64,
    /// In the last-level cache of the socket.
    pub llc: u64,
    /// In the cache of another core of the socket.
    pub same_socket: u64,
    /// In a cache of another socket.
    pub remote: u64,
    /// In memory of the CPU's own node.
    pub memory_local: u64,
    /// In memory of another node.
    pub memory_remote: u64,
    /// Independent misses in flight at once.
    pub parallel: u64,
    /// Lines of the first-level cache.
    pub l1_lines: u32,
    /// Lines of the second-level cache.
    pub l2_lines: u32,
    /// A core's share of the last-level cache, in lines.
    pub llc_lines: u32,
}

impl From<&Spec> for Model {
    fn from(spec: &Spec) -> Self {
        let costs = spec.costs();
        let cpus = 0..spec.cpus();
        Self {
            sockets: cpus.clone().map(|cpu| spec.socket_of(cpu)).collect(),
            nodes: cpus.map(|cpu| spec.node_of(cpu)).collect(),
            lines: LineCosts::from(costs),
            atomic: costs.lock.atomic,
            handoff_percent: costs.lock.handoff_line_percent,
            handoff_fixed: costs.lock.handoff_fixed,
            send: costs.interrupt.send,
            arrive_local: costs.interrupt.latency_local,
            arrive_remote: costs.interrupt.latency_remote,
            entry: costs.interrupt.entry,
            acknowledge: costs.interrupt.acknowledge,
            tick_period: costs.cycles_of_nanos(costs.tick.period_us * 1000),
            tick: costs.tick.cost,
            clear: costs.fault.clear,
            copy: costs.fault.copy,
            hundred_instructions: costs.code.cycles_per_100_instructions,
            nanos_per_1000_cycles: costs.nanos_of_cycles(1000),
            slack: SLACK,
        }
    }
}

impl From<&Costs> for LineCosts {
    fn from(costs: &Costs) -> Self {
        let latency = &costs.latency;
        let beyond_l1 = |cycles: u64| cycles.saturating_sub(latency.l1);
        let l2_lines = (costs.cache.l2_kib << 10 >> 6) as u32;
        Self {
            l2: beyond_l1(latency.l2),
            llc: beyond_l1(costs.loaded(latency.llc)),
            same_socket: beyond_l1(costs.loaded(latency.modified_same_socket)),
            remote: beyond_l1(costs.loaded(latency.modified_remote)),
            memory_local: beyond_l1(costs.loaded(latency.dram_local)),
            memory_remote: beyond_l1(costs.loaded(latency.dram_remote)),
            parallel: latency.parallel_misses.max(1),
            l1_lines: L1_LINES,
            l2_lines,
            llc_lines: l2_lines * LLC_OF_L2_PERCENT / 100,
        }
    }
}

impl Model {
    /// A machine of one socket on which all operations are free.
    #[must_use]
    pub fn free(cpus: u16) -> Self {
        Self {
            sockets: vec![0; usize::from(cpus)],
            nodes: vec![0; usize::from(cpus)],
            lines: LineCosts { parallel: 1, ..LineCosts::default() },
            atomic: 0,
            handoff_percent: 0,
            handoff_fixed: 0,
            send: 0,
            arrive_local: 0,
            arrive_remote: 0,
            entry: 0,
            acknowledge: 0,
            tick_period: 0,
            tick: 0,
            clear: 0,
            copy: 0,
            hundred_instructions: 0,
            nanos_per_1000_cycles: 1000,
            slack: 0,
        }
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.sockets.len() as u16
    }

    /// `nanos` in cycles.
    #[must_use]
    pub fn cycles_of_nanos(&self, nanos: u64) -> u64 {
        let nanos_per_1000 = u128::from(self.nanos_per_1000_cycles.max(1));
        (u128::from(nanos) * 1000 / nanos_per_1000) as u64
    }

    /// `cycles` in nanoseconds.
    #[must_use]
    pub fn nanos_of_cycles(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * u128::from(self.nanos_per_1000_cycles) / 1000) as u64
    }

    /// Cycles to transfer a line that `from` has modified to `to`.
    #[must_use]
    pub fn transfer(&self, from: u16, to: u16) -> u64 {
        match () {
            () if from == to => 0,
            () if self.same_socket(from, to) => self.lines.same_socket,
            () => self.lines.remote,
        }
    }

    /// Cycles to hand a lock over.
    #[must_use]
    pub fn handoff(&self, from: u16, to: u16) -> u64 {
        self.transfer(from, to) * self.handoff_percent / 100 + self.handoff_fixed
    }

    /// Cycles from sending an interrupt to its arrival.
    #[must_use]
    pub fn arrival(&self, from: u16, to: u16) -> u64 {
        if self.same_socket(from, to) { self.arrive_local } else { self.arrive_remote }
    }

    /// Cycles of `instructions` with all lines in the first-level cache.
    #[must_use]
    pub fn instructions(&self, instructions: u64) -> u64 {
        (instructions * self.hundred_instructions).div_ceil(100)
    }

    fn same_socket(&self, a: u16, b: u16) -> bool {
        self.sockets[usize::from(a)] == self.sockets[usize::from(b)]
    }
}
