//! What things cost: one plain field per parameter.
//!
//! Fields without a unit in their name are cycles of the machine's clock. The names, ranges and
//! meanings that users see are in [`PARAMETERS`](super::PARAMETERS), in the same order.

/// What things cost on a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The clock.
    pub clock: Clock,
    /// How long a cache line takes to arrive.
    pub latency: Latency,
    /// Locks and atomic operations.
    pub lock: Lock,
    /// Cross-CPU interrupts.
    pub interrupt: Interrupt,
    /// Translation caches.
    pub tlb: Tlb,
    /// Page faults and what belongs to them, per frame.
    pub fault: Fault,
    /// The periodic interrupt.
    pub tick: Tick,
    /// Caches.
    pub cache: Cache,
    /// Memory.
    pub memory: Memory,
    /// Entering the kernel other than by a fault.
    pub syscall: Syscall,
    /// Instructions, and what list-buddy takes of them.
    pub code: Code,
    /// What the library takes of them.
    pub library: Library,
}

/// The clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Frequency in MHz, the same for every CPU.
    pub frequency_mhz: u64,
}

/// How long a cache line takes to arrive, by where it is.
///
/// Times are those of an idle machine; what leaves the core is multiplied by
/// [`loaded_percent`](Self::loaded_percent) on a busy one ([`Costs::loaded`]).
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
    /// In memory of the own node.
    pub dram_local: u64,
    /// In memory of another node.
    pub dram_remote: u64,
    /// Percent of the idle latency that a line from outside the core takes under load.
    pub loaded_percent: u64,
    /// How many independent misses are under way at once: each costs its share.
    pub parallel_misses: u64,
}

/// Locks and atomic operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// An atomic read-modify-write on a line at hand.
    pub atomic: u64,
    /// Hand-off to the next waiter, in percent of moving the lock's line to it.
    pub handoff_line_percent: u64,
    /// What a hand-off costs besides.
    pub handoff_fixed: u64,
}

/// Cross-CPU interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Sending one, on the sender, per target.
    pub send: u64,
    /// On its way to a CPU of the same socket.
    pub latency_local: u64,
    /// On its way to a CPU of another socket.
    pub latency_remote: u64,
    /// Entering and leaving the handler.
    pub entry: u64,
    /// Acknowledging, on the target, besides moving the line that the sender reads.
    pub acknowledge: u64,
}

/// Translation caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tlb {
    /// Invalidating one page.
    pub invalidate_page: u64,
    /// Invalidating everything.
    pub flush_all: u64,
}

/// Page faults and what belongs to them, per frame, without the page allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Entering, finding the mapping, writing the page table, leaving.
    pub service: u64,
    /// Taking one page out of the page table again.
    pub unmap: u64,
    /// Clearing a frame.
    pub clear: u64,
    /// Copying a frame that no cache holds.
    pub copy: u64,
    /// Copying a frame that the second-level cache holds.
    pub copy_hot: u64,
    /// Putting a frame on the list of pages in use.
    pub lru_add: u64,
    /// Examining a page: whether its page-table entry was accessed, or whether the page can be
    /// moved.
    pub look: u64,
}

/// The periodic interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Microseconds from one to the next.
    pub period_us: u64,
    /// What one takes, in cycles.
    pub cost: u64,
}

/// Caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Size of the second-level cache of a core, in KiB: what was used so little ago is *hot*.
    pub l2_kib: u64,
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the memory of one node delivers, in MB (10^6 bytes) per second.
    pub bandwidth_mb_per_s: u64,
}

/// Entering the kernel other than by a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syscall {
    /// Entering and leaving.
    pub entry: u64,
}

/// What instructions cost, and what list-buddy, the classic design, takes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Cycles that 100 instructions take where every line is at hand.
    pub cycles_per_100_instructions: u64,
    /// list-buddy: instructions under the zone lock to take one frame.
    pub list_buddy_take: u64,
    /// list-buddy: instructions under the zone lock to give one frame back.
    pub list_buddy_give: u64,
    /// list-buddy: instructions to choose a block on a CPU's lists that is to be given back, under
    /// the zone lock or before it is taken.
    pub list_buddy_select: u64,
}

/// Instructions of the library, in tenths, per unit of the work that it reports to its platform: one
/// field per kind of work there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// An allocation that a ring serves.
    pub hot_alloc: u64,
    /// A free that a ring takes.
    pub hot_free: u64,
    /// An allocation that found its ring empty.
    pub slow_alloc: u64,
    /// A free that found its ring full.
    pub slow_free: u64,
    /// Neighbours that go to or from a ring in one piece.
    pub ring_runs: u64,
    /// A frame that goes to or from a ring alone.
    pub ring_frames: u64,
    /// A bundle put into the store.
    pub store_bundles: u64,
    /// A bundle chosen to leave the lists.
    pub select_bundles: u64,
    /// A frame chosen to leave the lists under the zone lock.
    pub select_singly: u64,
    /// A block without neighbours that was picked out of a batch, or put together to one.
    pub loose_blocks: u64,
    /// A request to the zone.
    pub refill: u64,
    /// A batch on its way to the zone.
    pub bulk_free: u64,
    /// A zone that a request looked at behind the first.
    pub walk_zones: u64,
    /// One hold of the zone lock.
    pub zone_hold: u64,
    /// A pageblock that a batch chose and took from.
    pub take_pageblocks: u64,
    /// A bundle taken.
    pub take_bundles: u64,
    /// A frame taken.
    pub take_frames: u64,
    /// A pageblock that a batch gave to.
    pub give_pageblocks: u64,
    /// A bundle given.
    pub give_bundles: u64,
    /// A frame given.
    pub give_frames: u64,
    /// A stack of the depot that a batch went to, came from, or was looked for on.
    pub depot_stacks: u64,
    /// A block copied to or from the depot.
    pub depot_blocks: u64,
    /// A pageblock moved to another list.
    pub relist: u64,
    /// A pageblock that comes or goes as a whole.
    pub whole_pageblocks: u64,
    /// A search for a pageblock of another type.
    pub fallback: u64,
    /// A pageblock that a search passed.
    pub search: u64,
    /// A pageblock of a given range or specific block.
    pub range_pageblocks: u64,
    /// A pageblock that was isolated, came, went, or changed its type.
    pub change_pageblocks: u64,
    /// One hold of an LRU lock.
    pub lru_hold: u64,
    /// A page put on an LRU list or taken off.
    pub lru_moves: u64,
    /// A page that a scan passed over.
    pub lru_skips: u64,
    /// A page that a pass of reclaim judged.
    pub reclaim_pages: u64,
}

impl Costs {
    /// `cycles` of a line from outside the core, on a busy machine.
    #[must_use]
    pub const fn loaded(&self, cycles: u64) -> u64 {
        cycles * self.latency.loaded_percent / 100
    }

    /// What handing a lock over costs if moving its line costs `line` cycles.
    #[must_use]
    pub const fn handoff(&self, line: u64) -> u64 {
        line * self.lock.handoff_line_percent / 100 + self.lock.handoff_fixed
    }

    /// What `instructions` cost where every line is at hand, in cycles, rounded up.
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
