//! The parameters: their names, units, ranges and meanings.

use std::ops::RangeInclusive;

use super::costs::Costs;

/// The unit of a parameter. In a file, it stands before the number: `{ cycles = 5 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Cycles of the machine's clock.
    Cycles,
    /// Instructions.
    Instructions,
    /// Tenths of an instruction.
    Tenths,
    /// MHz.
    Megahertz,
    /// Microseconds.
    Micros,
    /// KiB.
    Kibibytes,
    /// MB (10^6 bytes) per second.
    MegabytesPerSecond,
    /// Percent.
    Percent,
    /// Misses in flight at once.
    Misses,
}

impl Unit {
    /// The name of the unit in a file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::Tenths => "tenths",
            Self::Megahertz => "mhz",
            Self::Micros => "us",
            Self::Kibibytes => "kib",
            Self::MegabytesPerSecond => "mb_per_s",
            Self::Percent => "percent",
            Self::Misses => "misses",
        }
    }

    /// The range of a parameter of this unit. The upper ends are far above any machine, and far
    /// below an overflow.
    #[must_use]
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Cycles => 0..=10_000_000,
            Self::Instructions | Self::Tenths => 0..=1_000_000,
            Self::Megahertz => 1..=100_000,
            Self::Micros => 1..=10_000_000,
            Self::Kibibytes => 1..=1_048_576,
            Self::MegabytesPerSecond => 1..=100_000_000,
            Self::Percent => 1..=10_000,
            Self::Misses => 1..=1_000,
        }
    }
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name: section and key in a file.
    pub key: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// The meaning, in one line.
    pub meaning: &'static str,
    field: fn(&mut Costs) -> &mut u64,
}

impl Parameter {
    /// Its section in a file.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its key within the section.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Its value.
    #[must_use]
    pub fn get(&self, costs: &Costs) -> u64 {
        *(self.field)(&mut { *costs })
    }

    /// Sets its value.
    pub(super) fn set(&self, costs: &mut Costs, value: u64) {
        *(self.field)(costs) = value;
    }
}

/// Each line of the list below: key, unit, field, meaning.
macro_rules! parameters {
    ($($key:literal $unit:ident $($field:ident).+ : $meaning:literal;)+) => {
        &[$(Parameter {
            key: $key,
            unit: Unit::$unit,
            meaning: $meaning,
            field: |costs| &mut costs.$($field).+,
        }),+]
    };
}

/// All parameters, by section.
pub const PARAMETERS: &[Parameter] = parameters! {
    "clock.frequency" Megahertz clock.frequency_mhz: "clock of every CPU";
    "latency.l1" Cycles latency.l1: "line in the first-level cache";
    "latency.l2" Cycles latency.l2: "line in the second-level cache of the core";
    "latency.llc" Cycles latency.llc: "unmodified line in the last-level cache of the socket";
    "latency.modified_same_socket" Cycles latency.modified_same_socket:
        "line that another core of the socket has modified";
    "latency.modified_remote" Cycles latency.modified_remote:
        "line that a core of another socket has modified";
    "latency.dram_local" Cycles latency.dram_local: "line in memory of the CPU's node";
    "latency.dram_remote" Cycles latency.dram_remote: "line in memory of another node";
    "latency.loaded" Percent latency.loaded_percent:
        "latency of lines from outside the core under load, of the idle latency";
    "latency.parallel_misses" Misses latency.parallel_misses:
        "independent misses in flight at once: each costs its share";
    "lock.atomic" Cycles lock.atomic: "atomic read-modify-write on a cached line";
    "lock.handoff_line" Percent lock.handoff_line_percent:
        "hand-off of a lock to the next waiter, of the transfer of its line";
    "lock.handoff_fixed" Cycles lock.handoff_fixed: "fixed part of a hand-off";
    "interrupt.send" Cycles interrupt.send: "sending an interrupt, on the sender, per target";
    "interrupt.latency_local" Cycles interrupt.latency_local: "arrival on the same socket";
    "interrupt.latency_remote" Cycles interrupt.latency_remote: "arrival on another socket";
    "interrupt.entry" Cycles interrupt.entry: "entering and leaving the handler";
    "interrupt.acknowledge" Cycles interrupt.acknowledge:
        "acknowledging, without the transfer of the line that the sender reads";
    "tlb.invalidate_page" Cycles tlb.invalidate_page: "invalidating one page";
    "tlb.flush_all" Cycles tlb.flush_all: "invalidating all translations";
    "fault.service" Cycles fault.service:
        "page fault without allocation and clearing: entry, mapping, page table, return";
    "fault.unmap" Cycles fault.unmap: "removing one page from the page table";
    "fault.clear" Cycles fault.clear: "clearing a frame";
    "fault.copy" Cycles fault.copy: "copying a frame that no cache holds";
    "fault.copy_hot" Cycles fault.copy_hot:
        "copying a frame that the second-level cache holds";
    "fault.lru_add" Cycles fault.lru_add: "adding a frame to an LRU list";
    "fault.look" Cycles fault.look:
        "examining a page: its accessed bit, or whether it can be migrated";
    "tick.period" Micros tick.period_us: "between two periodic ticks";
    "tick.cost" Cycles tick.cost: "one periodic tick";
    "cache.l2" Kibibytes cache.l2_kib:
        "second-level cache of a core: frames used that recently are hot";
    "memory.bandwidth" MegabytesPerSecond memory.bandwidth_mb_per_s: "memory of one node";
    "syscall.entry" Cycles syscall.entry: "a system call: entry and return";
    "code.cycles_per_100_instructions" Cycles code.cycles_per_100_instructions:
        "100 instructions, all lines in the first-level cache";
    "code.list_buddy_take" Instructions code.list_buddy_take:
        "list-buddy, under the zone lock, per frame allocated";
    "code.list_buddy_give" Instructions code.list_buddy_give:
        "list-buddy, under the zone lock, per frame freed";
    "code.list_buddy_select" Instructions code.list_buddy_select:
        "list-buddy, per block of a CPU's lists selected for freeing";
    "library.hot_alloc" Tenths library.hot_alloc: "an allocation from a ring";
    "library.hot_free" Tenths library.hot_free: "a free into a ring";
    "library.slow_alloc" Tenths library.slow_alloc: "an allocation that finds its ring empty";
    "library.slow_free" Tenths library.slow_free: "a free that finds its ring full";
    "library.ring_runs" Tenths library.ring_runs: "a run of neighbours copied to or from a ring";
    "library.ring_frames" Tenths library.ring_frames: "a single frame copied to or from a ring";
    "library.store_bundles" Tenths library.store_bundles: "a bundle added to the bundle store";
    "library.select_bundles" Tenths library.select_bundles: "a bundle selected for freeing";
    "library.select_singly" Tenths library.select_singly: "a frame selected for freeing under the zone lock";
    "library.loose_blocks" Tenths library.loose_blocks: "a block without neighbours, separated from a batch";
    "library.refill" Tenths library.refill: "a refill";
    "library.bulk_free" Tenths library.bulk_free: "a bulk free";
    "library.walk_zones" Tenths library.walk_zones: "a further zone that a request tries";
    "library.zone_hold" Tenths library.zone_hold: "one hold of the zone lock";
    "library.take_pageblocks" Tenths library.take_pageblocks: "a pageblock that a batch selects and takes frames from";
    "library.take_bundles" Tenths library.take_bundles: "a bundle taken";
    "library.take_frames" Tenths library.take_frames: "a frame taken";
    "library.give_pageblocks" Tenths library.give_pageblocks: "a pageblock that a batch frees frames into";
    "library.give_bundles" Tenths library.give_bundles: "a bundle freed";
    "library.give_frames" Tenths library.give_frames: "a frame freed";
    "library.depot_stacks" Tenths library.depot_stacks: "a stack of the depot that a batch uses";
    "library.depot_blocks" Tenths library.depot_blocks: "a block copied to or from the depot";
    "library.relist" Tenths library.relist: "a pageblock moved to another list";
    "library.whole_pageblocks" Tenths library.whole_pageblocks: "a pageblock allocated or freed as a whole";
    "library.fallback" Tenths library.fallback: "a search for a pageblock of another type";
    "library.search" Tenths library.search: "a pageblock that a search passes";
    "library.range_pageblocks" Tenths library.range_pageblocks: "a pageblock of a given range or block";
    "library.change_pageblocks" Tenths library.change_pageblocks: "a pageblock that is isolated, added or removed, or changes its type";
    "library.lru_hold" Tenths library.lru_hold: "one hold of an LRU lock";
    "library.lru_moves" Tenths library.lru_moves: "a page added to or removed from an LRU list";
    "library.lru_skips" Tenths library.lru_skips: "a page that a scan skips";
    "library.reclaim_pages" Tenths library.reclaim_pages: "a page that reclaim examines";
};

/// The index and parameter of a key.
pub(super) fn find(key: &str) -> Option<(usize, &'static Parameter)> {
    PARAMETERS.iter().enumerate().find(|(_, parameter)| parameter.key == key)
}

/// The names of the sections.
pub(super) fn sections() -> impl Iterator<Item = &'static str> + Clone {
    let firsts = PARAMETERS.iter().enumerate().filter(|&(index, parameter)| {
        index == 0 || PARAMETERS[index - 1].section() != parameter.section()
    });
    firsts.map(|(_, parameter)| parameter.section())
}
