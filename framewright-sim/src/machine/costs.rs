//! Costs of operations: one field per parameter.
//!
//! Fields without a unit in their name are cycles of the machine's clock. Users see the names,
//! ranges and meanings of [`PARAMETERS`].

use super::parameter::{Parameter, Unit};

/// The key of a parameter: its section, and its field or another name.
macro_rules! key {
    ($section:ident $field:ident) => {
        concat!(stringify!($section), ".", stringify!($field))
    };
    ($section:ident $field:ident $name:literal) => {
        concat!(stringify!($section), ".", $name)
    };
}

/// Declares a struct for each section, with a field for each parameter, and the list of parameters.
/// A line has the field, its name in files if that is another one, the unit, and the meaning.
macro_rules! costs {
    ($($(#[$about:meta])+ $section:ident: $type:ident {
        $($field:ident $(as $name:literal)?: $unit:ident, $meaning:literal;)+
    })+) => {
        /// The costs of operations on a machine.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Costs {
            $($(#[$about])+ pub $section: $type,)+
        }

        $($(#[$about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $type {
            $(#[doc = $meaning] pub $field: u64,)+
        })+

        /// All parameters, by section.
        pub const PARAMETERS: &[Parameter] = &[$($(Parameter {
            key: key!($section $field $($name)?),
            unit: Unit::$unit,
            meaning: $meaning,
            field: |costs| &mut costs.$section.$field,
        },)+)+];
    };
}

costs! {
    /// The clock.
    clock: Clock {
        frequency_mhz as "frequency": Megahertz, "clock of every CPU";
    }
    /// Latencies of a cache line, by its place.
    ///
    /// The figures are those of an idle machine. On a busy one, those from outside the core are
    /// multiplied by the parameter `latency.loaded` ([`Costs::loaded`]).
    latency: Latency {
        l1: Cycles, "line in the first-level cache";
        l2: Cycles, "line in the second-level cache of the core";
        llc: Cycles, "unmodified line in the last-level cache of the socket";
        modified_same_socket: Cycles, "line that another core of the socket has modified";
        modified_remote: Cycles, "line that a core of another socket has modified";
        dram_local: Cycles, "line in memory of the CPU's node";
        dram_remote: Cycles, "line in memory of another node";
        loaded_percent as "loaded": Percent,
            "latency of lines from outside the core under load, relative to the idle latency";
        parallel_misses: Misses, "independent misses in flight at once: each costs its share";
    }
    /// Locks and atomic operations.
    lock: Lock {
        atomic: Cycles, "atomic read-modify-write on a cached line";
        handoff_line_percent as "handoff_line": Percent,
            "hand-off of a lock to the next waiter, relative to the transfer of its line";
        handoff_fixed: Cycles, "fixed part of a hand-off";
    }
    /// Inter-processor interrupts.
    interrupt: Interrupt {
        send: Cycles, "sending an interrupt, on the sender, per target";
        latency_local: Cycles, "arrival on the same socket";
        latency_remote: Cycles, "arrival on another socket";
        entry: Cycles, "entering and leaving the handler";
        acknowledge: Cycles,
            "acknowledging, without the transfer of the line that the sender reads";
    }
    /// TLBs.
    tlb: Tlb {
        invalidate_page: Cycles, "invalidating one page";
        flush_all: Cycles, "invalidating all translations";
    }
    /// Page faults and related work, per frame, without the page allocator.
    fault: Fault {
        service: Cycles,
            "page fault without allocation and clearing: entry, mapping, page table, return";
        unmap: Cycles, "removing one page from the page table";
        clear: Cycles, "clearing a frame";
        copy: Cycles, "copying a frame that no cache holds";
        copy_hot: Cycles, "copying a frame that the second-level cache holds";
        lru_add: Cycles, "adding a frame to an LRU list";
        look: Cycles, "examining a page: its accessed bit, or whether it can be migrated";
    }
    /// The periodic tick.
    tick: Tick {
        period_us as "period": Micros, "time between two periodic ticks";
        cost: Cycles, "one periodic tick";
    }
    /// Caches.
    cache: Cache {
        l2_kib as "l2": Kibibytes,
            "second-level cache of a core: frames in it are hot";
    }
    /// Memory.
    memory: Memory {
        bandwidth_mb_per_s as "bandwidth": MegabytesPerSecond, "memory of one node";
    }
    /// System calls.
    syscall: Syscall {
        entry: Cycles, "a system call: entry and return";
    }
    /// Cycles per instruction, and instructions of list-buddy, the classic design.
    code: Code {
        cycles_per_100_instructions: Cycles, "100 instructions, all lines in the first-level cache";
        list_buddy_take: Instructions, "list-buddy, under the zone lock, per frame allocated";
        list_buddy_give: Instructions, "list-buddy, under the zone lock, per frame freed";
        list_buddy_select: Instructions,
            "list-buddy, per block of a CPU's lists selected for freeing";
    }
    /// Instructions of the library, in tenths, per unit of the work that it reports to its
    /// platform. There is one field per kind of work.
    library: Library {
        hot_alloc: Tenths, "an allocation from a ring";
        hot_free: Tenths, "a free into a ring";
        other_list: Tenths, "the choice of a list that is not that of single movable frames";
        slow_alloc: Tenths, "an allocation that finds its ring empty";
        slow_free: Tenths, "a free that finds its ring full";
        ring_runs: Tenths, "a run of neighbours copied to or from a ring";
        ring_frames: Tenths, "a single frame copied to or from a ring";
        store_bundles: Tenths, "a bundle added to the bundle store";
        select_bundles: Tenths, "a bundle selected for freeing";
        select_singly: Tenths, "a frame selected for freeing under the zone lock";
        loose_blocks: Tenths, "a block without neighbours, separated from a batch";
        refill: Tenths, "a refill";
        bulk_free: Tenths, "a bulk free";
        walk_zones: Tenths, "a further zone that a request tries";
        zone_hold: Tenths, "one hold of the zone lock";
        take_pageblocks: Tenths, "a pageblock that a batch selects and takes frames from";
        take_bundles: Tenths, "a bundle of single frames taken";
        take_high_order: Tenths, "a bundle of larger blocks taken";
        take_frames: Tenths, "a frame taken";
        give_pageblocks: Tenths, "a pageblock that a batch frees frames into";
        give_singles: Tenths, "a bundle of one frame freed";
        give_bundles: Tenths, "any other bundle freed";
        give_frames: Tenths, "a frame freed";
        depot_stacks: Tenths, "a stack of the depot that a batch uses";
        depot_blocks: Tenths, "a block copied to or from the depot";
        relist: Tenths, "a pageblock moved to another list";
        pageblock_words: Tenths, "a group of up to 64 neighbouring pageblocks, each allocated or freed as a whole";
        whole_pageblocks: Tenths, "a pageblock allocated or freed as a whole";
        fallback: Tenths, "a search for a pageblock of another type";
        search: Tenths, "a pageblock that a search passes";
        range_pageblocks: Tenths, "a pageblock of a given range or block";
        change_pageblocks: Tenths,
            "a pageblock that is isolated, added or removed, or changes its type";
        lru_hold: Tenths, "one hold of an LRU lock";
        lru_moves: Tenths, "a page added to or removed from an LRU list";
        lru_skips: Tenths, "a page that a scan skips";
        reclaim_pages: Tenths, "a page that reclaim examines";
    }
}

impl Costs {
    /// `cycles` of a line from outside the core, under load.
    #[must_use]
    pub const fn loaded(&self, cycles: u64) -> u64 {
        cycles * self.latency.loaded_percent / 100
    }

    /// Cycles of a lock hand-off if the transfer of its line takes `line` cycles.
    #[must_use]
    pub const fn handoff(&self, line: u64) -> u64 {
        line * self.lock.handoff_line_percent / 100 + self.lock.handoff_fixed
    }

    /// Cycles of `instructions` with all lines in the first-level cache, rounded up.
    #[must_use]
    pub const fn instructions(&self, instructions: u64) -> u64 {
        (instructions * self.code.cycles_per_100_instructions).div_ceil(100)
    }

    /// `nanos` in cycles of the machine's clock.
    #[must_use]
    pub const fn cycles_of_nanos(&self, nanos: u64) -> u64 {
        (nanos as u128 * self.clock.frequency_mhz as u128 / 1000) as u64
    }

    /// `cycles` of the machine's clock in nanoseconds.
    #[must_use]
    pub const fn nanos_of_cycles(&self, cycles: u64) -> u64 {
        (cycles as u128 * 1000 / self.clock.frequency_mhz as u128) as u64
    }

    /// The second-level cache of a core in bytes.
    #[must_use]
    pub const fn l2_bytes(&self) -> u64 {
        self.cache.l2_kib << 10
    }
}
