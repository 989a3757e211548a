//! The parameters: what users call them, in which unit, within which bounds, and what they mean.

use std::ops::RangeInclusive;

use super::costs::Costs;

/// What a parameter counts. In a file, the unit stands before the number: `{ cycles = 5 }`.
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
    /// Misses at once.
    Misses,
}

impl Unit {
    /// Its word in a file.
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

    /// What a parameter of this unit may be. The upper ends are far above any machine and far below
    /// what could overflow.
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
    /// Its name: section and key in a file.
    pub key: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// What it means.
    pub meaning: &'static str,
    field: fn(&mut Costs) -> &mut u64,
}

impl Parameter {
    /// The section of a file that it stands in.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its name within the section.
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

/// One line of the list below: key, unit, field, meaning.
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

/// Every parameter there is, by sections.
pub const PARAMETERS: &[Parameter] = parameters! {
    "clock.frequency" Megahertz clock.frequency_mhz: "clock of every CPU";
    "latency.l1" Cycles latency.l1: "line in the first-level cache";
    "latency.l2" Cycles latency.l2: "line in the second-level cache of the core";
    "latency.llc" Cycles latency.llc: "unmodified line in the last-level cache of the socket";
    "latency.modified_same_socket" Cycles latency.modified_same_socket:
        "line that another core of the socket has modified";
    "latency.modified_remote" Cycles latency.modified_remote:
        "line that a core of another socket has modified";
    "latency.dram_local" Cycles latency.dram_local: "line in memory of the own node";
    "latency.dram_remote" Cycles latency.dram_remote: "line in memory of another node";
    "latency.loaded" Percent latency.loaded_percent:
        "what lines from outside the core take on a busy machine, of the idle latency";
    "latency.parallel_misses" Misses latency.parallel_misses:
        "independent misses under way at once: each costs its share";
    "lock.atomic" Cycles lock.atomic: "atomic read-modify-write on a line at hand";
    "lock.handoff_line" Percent lock.handoff_line_percent:
        "hand-off of a lock to the next waiter, of moving its line there";
    "lock.handoff_fixed" Cycles lock.handoff_fixed: "what a hand-off costs besides";
    "interrupt.send" Cycles interrupt.send: "sending one, on the sender, per target";
    "interrupt.latency_local" Cycles interrupt.latency_local: "on its way within the socket";
    "interrupt.latency_remote" Cycles interrupt.latency_remote: "on its way to another socket";
    "interrupt.entry" Cycles interrupt.entry: "entering and leaving the handler";
    "interrupt.acknowledge" Cycles interrupt.acknowledge:
        "acknowledging, besides moving the line that the sender reads";
    "tlb.invalidate_page" Cycles tlb.invalidate_page: "invalidating one page";
    "tlb.flush_all" Cycles tlb.flush_all: "invalidating everything";
    "fault.service" Cycles fault.service:
        "page fault without allocating and clearing: entry, mapping, page table, return";
    "fault.unmap" Cycles fault.unmap: "taking one page out of the page table";
    "fault.clear" Cycles fault.clear: "clearing a frame";
    "fault.copy" Cycles fault.copy: "copying a frame that no cache holds";
    "fault.copy_hot" Cycles fault.copy_hot:
        "copying a frame that the second-level cache holds";
    "fault.lru_add" Cycles fault.lru_add: "putting a frame on the list of pages in use";
    "fault.look" Cycles fault.look:
        "examining a page: whether its entry was used, or whether it can be moved";
    "tick.period" Micros tick.period_us: "from one periodic interrupt to the next";
    "tick.cost" Cycles tick.cost: "one periodic interrupt";
    "cache.l2" Kibibytes cache.l2_kib:
        "second-level cache of a core: what it used so little ago is hot";
    "memory.bandwidth" MegabytesPerSecond memory.bandwidth_mb_per_s: "memory of one node";
    "syscall.entry" Cycles syscall.entry: "entering the kernel and leaving it, without a fault";
    "code.cycles_per_100_instructions" Cycles code.cycles_per_100_instructions:
        "100 instructions, every line at hand";
    "code.list_buddy_take" Instructions code.list_buddy_take:
        "list-buddy, under the zone lock, per frame taken";
    "code.list_buddy_give" Instructions code.list_buddy_give:
        "list-buddy, under the zone lock, per frame given back";
    "code.list_buddy_select" Instructions code.list_buddy_select:
        "list-buddy, per block chosen on a CPU's lists to be given back";
    "library.hot_alloc" Tenths library.hot_alloc: "an allocation that a ring serves";
    "library.hot_free" Tenths library.hot_free: "a free that a ring takes";
    "library.slow_alloc" Tenths library.slow_alloc: "an allocation that found its ring empty";
    "library.slow_free" Tenths library.slow_free: "a free that found its ring full";
    "library.ring_runs" Tenths library.ring_runs: "neighbours that go to or from a ring in one piece";
    "library.ring_frames" Tenths library.ring_frames: "a frame that goes to or from a ring alone";
    "library.store_bundles" Tenths library.store_bundles: "a bundle put into the store";
    "library.select_bundles" Tenths library.select_bundles: "a bundle chosen to leave the lists";
    "library.select_singly" Tenths library.select_singly: "a frame chosen to leave the lists under the zone lock";
    "library.loose_blocks" Tenths library.loose_blocks: "a block without neighbours picked out of a batch";
    "library.refill" Tenths library.refill: "a request to the zone";
    "library.bulk_free" Tenths library.bulk_free: "a batch on its way to the zone";
    "library.walk_zones" Tenths library.walk_zones: "a zone that a request looked at behind the first";
    "library.zone_hold" Tenths library.zone_hold: "one hold of the zone lock";
    "library.take_pageblocks" Tenths library.take_pageblocks: "a pageblock that a batch chose and took from";
    "library.take_bundles" Tenths library.take_bundles: "a bundle taken";
    "library.take_frames" Tenths library.take_frames: "a frame taken";
    "library.give_pageblocks" Tenths library.give_pageblocks: "a pageblock that a batch gave to";
    "library.give_bundles" Tenths library.give_bundles: "a bundle given";
    "library.give_frames" Tenths library.give_frames: "a frame given";
    "library.depot_stacks" Tenths library.depot_stacks: "a stack of the depot used by a batch";
    "library.depot_blocks" Tenths library.depot_blocks: "a block copied to or from the depot";
    "library.relist" Tenths library.relist: "a pageblock moved to another list";
    "library.whole_pageblocks" Tenths library.whole_pageblocks: "a pageblock that comes or goes as a whole";
    "library.fallback" Tenths library.fallback: "a search for a pageblock of another type";
    "library.search" Tenths library.search: "a pageblock that a search passed";
    "library.range_pageblocks" Tenths library.range_pageblocks: "a pageblock of a given range or specific block";
    "library.change_pageblocks" Tenths library.change_pageblocks: "a pageblock that was isolated, came, went, or changed its type";
    "library.lru_hold" Tenths library.lru_hold: "one hold of an LRU lock";
    "library.lru_moves" Tenths library.lru_moves: "a page put on an LRU list or taken off";
    "library.lru_skips" Tenths library.lru_skips: "a page that a scan passed over";
    "library.reclaim_pages" Tenths library.reclaim_pages: "a page that a pass of reclaim judged";
};

/// The parameter called `key`.
pub(super) fn find(key: &str) -> Option<(usize, &'static Parameter)> {
    PARAMETERS.iter().enumerate().find(|(_, parameter)| parameter.key == key)
}

/// The names of the sections, each once.
pub(super) fn sections() -> impl Iterator<Item = &'static str> + Clone {
    let firsts = PARAMETERS.iter().enumerate().filter(|&(index, parameter)| {
        index == 0 || PARAMETERS[index - 1].section() != parameter.section()
    });
    firsts.map(|(_, parameter)| parameter.section())
}
