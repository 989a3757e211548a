//! Costs of operations: one field per parameter.
//!
//! Fields without a unit in their name are cycles of the machine's clock. The names, ranges and
//! meanings that users see are in [`PARAMETERS`](super::PARAMETERS), in the same order.

/// The costs of operations on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The clock of the CPUs.
    pub clock: Clock,
    /// Latencies of cache lines.
    pub latency: Latency,
    /// Locks and atomic operations.
    pub lock: Lock,
    /// Cross-CPU interrupts.
    pub interrupt: Interrupt,
    /// Translation caches.
    pub tlb: Tlb,
    /// Page faults and related work, per frame.
    pub fault: Fault,
    /// The periodic tick.
    pub tick: Tick,
    /// Caches.
    pub cache: Cache,
    /// Memory.
    pub memory: Memory,
    /// System calls.
    pub syscall: Syscall,
    /// Instructions, and those of list-buddy.
    pub code: Code,
    /// The instructions of the library.
    pub library: Library,
}

/// The clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Frequency in MHz, the same for every CPU.
    pub frequency_mhz: u64,
}

/// Latencies of a cache line, by its place.
///
/// The figures are those of an idle machine. On a busy one, those from outside the core are
/// multiplied by [`loaded_percent`](Self::loaded_percent) ([`Costs::loaded`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// In the first-level cache.
    pub l1: u64,
    /// In the second-level cache of the core.
    pub l2: u64,
    /// In the last-level cache of the socket, unmodified.
    pub llc: u64,
    /// Modified in the cache of another core of the socket.
    pub modified_same_socket: u64,
    /// Modified in a cache of another socket.
    pub modified_remote: u64,
    /// In memory of the CPU's own node.
    pub dram_local: u64,
    /// In memory of another node.
    pub dram_remote: u64,
    /// Latency of a line from outside the core under load, in percent of the idle latency.
    pub loaded_percent: u64,
    /// Independent misses in flight at once: each costs its share.
    pub parallel_misses: u64,
}

/// Locks and atomic operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// An atomic read-modify-write on a cached line.
    pub atomic: u64,
    /// Hand-off to the next waiter, in percent of transferring the lock's line.
    pub handoff_line_percent: u64,
    /// A fixed part of a hand-off.
    pub handoff_fixed: u64,
}

/// Inter-processor interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Sending an interrupt, on the sender, per target.
    pub send: u64,
    /// Arrival on the same socket.
    pub latency_local: u64,
    /// Arrival on another socket.
    pub latency_remote: u64,
    /// Entering and leaving the handler.
    pub entry: u64,
    /// Acknowledging, on the target, without the transfer of the line that the sender reads.
    pub acknowledge: u64,
}

/// TLBs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tlb {
    /// Invalidating one page.
    pub invalidate_page: u64,
    /// Invalidating all translations.
    pub flush_all: u64,
}

/// Page faults and related work, per frame, without the page allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Entry, search of the mapping, update of the page table, return.
    pub service: u64,
    /// Removing one page from the page table.
    pub unmap: u64,
    /// Clearing a frame.
    pub clear: u64,
    /// Copying a frame that no cache holds.
    pub copy: u64,
    /// Copying a frame that the second-level cache holds.
    pub copy_hot: u64,
    /// Adding a frame to an LRU list.
    pub lru_add: u64,
    /// Examining a page: reading its accessed bit, or checking whether it can be migrated.
    pub look: u64,
}

/// The periodic tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Microseconds between two ticks.
    pub period_us: u64,
    /// Cycles of one tick.
    pub cost: u64,
}

/// Caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Size of the second-level cache of a core, in KiB. A frame that was used that recently is
    /// *hot*.
    pub l2_kib: u64,
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bandwidth of the memory of one node, in MB (10^6 bytes) per second.
    pub bandwidth_mb_per_s: u64,
}

/// System calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syscall {
    /// Entry and return.
    pub entry: u64,
}

/// Cycles per instruction, and instructions of list-buddy, the classic design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Cycles of 100 instructions with all lines in the first-level cache.
    pub cycles_per_100_instructions: u64,
    /// list-buddy: instructions under the zone lock to take one frame.
    pub list_buddy_take: u64,
    /// list-buddy: instructions under the zone lock to free one frame.
    pub list_buddy_give: u64,
    /// list-buddy: instructions to select a block of a CPU's lists for freeing, under the zone lock
    /// or before it.
    pub list_buddy_select: u64,
}

/// Instructions of the library, in tenths, per unit of the work that it reports to its platform.
/// There is one field per kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// An allocation from a ring.
    pub hot_alloc: u64,
    /// A free into a ring.
    pub hot_free: u64,
    /// An allocation that finds its ring empty.
    pub slow_alloc: u64,
    /// A free that finds its ring full.
    pub slow_free: u64,
    /// A run of neighbours copied to or from a ring.
    pub ring_runs: u64,
    /// A single frame copied to or from a ring.
    pub ring_frames: u64,
    /// A bundle added to the bundle store.
    pub store_bundles: u64,
    /// A bundle selected for freeing.
    pub select_bundles: u64,
    /// A frame selected for freeing under the zone lock.
    pub select_singly: u64,
    /// A block without neighbours, separated from a batch or added to one.
    pub loose_blocks: u64,
    /// A refill.
    pub refill: u64,
    /// A bulk free.
    pub bulk_free: u64,
    /// A further zone that a request tries.
    pub walk_zones: u64,
    /// One hold of the zone lock.
    pub zone_hold: u64,
    /// A pageblock that a batch selects and takes frames from.
    pub take_pageblocks: u64,
    /// A bundle taken.
    pub take_bundles: u64,
    /// A frame taken.
    pub take_frames: u64,
    /// A pageblock that a batch frees frames into.
    pub give_pageblocks: u64,
    /// A bundle freed.
    pub give_bundles: u64,
    /// A frame freed.
    pub give_frames: u64,
    /// A stack of the depot that a batch uses or searches.
    pub depot_stacks: u64,
    /// A block copied to or from the depot.
    pub depot_blocks: u64,
    /// A pageblock moved to another list.
    pub relist: u64,
    /// A pageblock allocated or freed as a whole.
    pub whole_pageblocks: u64,
    /// A search for a pageblock of another type.
    pub fallback: u64,
    /// A pageblock that a search passes.
    pub search: u64,
    /// A pageblock of a given range or block.
    pub range_pageblocks: u64,
    /// A pageblock that is isolated, added or removed, or changes its type.
    pub change_pageblocks: u64,
    /// One hold of an LRU lock.
    pub lru_hold: u64,
    /// A page added to or removed from an LRU list.
    pub lru_moves: u64,
    /// A page that a scan skips.
    pub lru_skips: u64,
    /// A page that reclaim examines.
    pub reclaim_pages: u64,
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
