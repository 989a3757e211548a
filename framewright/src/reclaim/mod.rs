//! Reclaim: chooses pages that are unlikely to be used soon, and frees their frames.
//!
//! # Theory of operation
//!
//! Every reclaimable page is on one of the **LRU lists** of its node ([`Lru`]). Its list depends on
//! its kind ([`PageKind`]) and on whether it was used recently. New pages are added at the head of
//! an inactive list, and reclaim takes pages from the tail. A page that was used once since it
//! became inactive is kept for one more round, and a page that is used again becomes active. If
//! there are too many active pages, the oldest become inactive. A list is not sorted by time of
//! use, because that would cost time on every access. Instead, every page has one round in which it
//! can be used again.
//!
//! A **pass** scans a part of the lists, in clusters of pages that are isolated together.
//! [`Reclaim::direct`] makes a pass for a request, [`Kswapd::step`] in the background. The module
//! `shrink` has the phases for a cluster. The owner of the pages ([`PageOwner`], the embedder)
//! locks pages and reports their uses. It unmaps unused pages into a flush batch, writes dirty
//! pages, and releases clean pages without references. After *one* flush the frames are free. A
//! page that fails a phase is put back on a list. The phase determines the list.
//!
//! **Reclaim is bounded.** A sweep scans at most the length of each list >> priority. It is
//! repeated at the same priority only while it reaches its target. Priorities go from 12 (a 4096th
//! of a list) down to 0 (the whole list), or to 1 in the background. If even that frees nothing,
//! reclaim has failed. A page that cannot be written becomes active, so that it is not scanned again
//! at once.
//!
//! **Lost races are cheap.** Isolating a page claims it (`flags`), and other code does not touch a
//! claimed page. An owner that no longer needs a page while it is isolated does not wait: it
//! abandons the page ([`Lru::abandon`]).
//!
//! # Modules and locks
//!
//! | module | job | changed by |
//! |---|---|---|
//! | `flags`, `lists`, `node`, `page` | the lists, and the claims on pages | holders of the LRU lock of the node |
//! | `batch`, `moves` | moves that wait for that lock | their CPU, and any CPU that drains it |
//! | `lru`, `info` | the lists as the embedder sees them | |
//! | `owner` | the calls to the embedder | never called under a lock of the library |
//! | `scan`, `balance`, `sweep` | the number of pages of each list to scan | the pass itself |
//! | `cluster`, `shrink`, `references`, `active` | the phases for pages | the pass itself |
//! | `retire` | frames that go through the flush batch | the pass itself |
//! | `workingset` | refaults of evicted pages | |
//! | `direct`, `kswapd`, `kswapd_state`, `wakeup`, `throttle` | reclaim for a request and in the background, wake-ups, pauses | |
//!
//! The LRU lock is taken with interrupts masked. The library takes no other lock under it.

mod active;
mod balance;
mod batch;
mod cluster;
mod direct;
mod flags;
mod info;
mod kswapd;
mod kswapd_state;
mod lists;
mod lru;
mod moves;
mod node;
mod owner;
mod page;
mod references;
mod retire;
mod scan;
mod shrink;
mod state;
mod sweep;
mod throttle;
mod trace;
mod wakeup;
mod workingset;

use crate::{
    core::MemoryCore,
    observe::NodeStat,
    platform::Platform,
    tlb::{Flusher, Shootdown, Tlb},
    types::{CpuId, NodeId, Pfn, ZoneId},
};

pub use crate::platform::{Pause, Throttle};
pub use crate::types::{LruList, PageKind};
pub(crate) use batch::CpuBatch as LruBatch;
pub(crate) use flags::Flags as LruFlags;
pub use kswapd::{Kswapd, NextStep};
pub(crate) use lists::Link as LruLink;
pub use lru::{Lru, Refault};
pub(crate) use node::{LruZone, Node as LruNode};
pub use owner::{
    PageOwner, PageState, Reference, Released, Shadow, Unmapped, WriteError, WriteOut,
};
pub use page::FreedBy;
pub(crate) use state::LruState;

use flags::Flags;

/// Reclaim of a memory: its LRU lists, the owner of the pages on them, and the TLB flushes of the
/// machine. A copy costs no more than a copy of references; all state is in the memory.
///
/// An embedder's [`Relief`](crate::platform::Relief) forwards to it:
///
/// | `Relief` | here |
/// |---|---|
/// | `reclaims_in_background` | `true`, if the embedder calls [`Kswapd::step`] |
/// | `wake` | [`Reclaim::wake`]; if it returns `true`, the embedder wakes the thread or CPU that calls [`Kswapd::step`] |
/// | `reclaim` | [`Reclaim::direct`] |
/// | `reclaimable` | `Some(`[`Reclaim::reclaimable`]`)` |
/// | `pause`, `resume` | nothing: the embedder has the wait queue |
pub struct Reclaim<'a, 'm, P: Platform> {
    memory: &'a MemoryCore<'m, P>,
    tlb: &'a Tlb<'m, P>,
    state: &'a LruState<'m, P>,
    owner: &'a dyn PageOwner<P>,
    shootdown: &'a dyn Shootdown,
}

impl<P: Platform> Clone for Reclaim<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Reclaim<'_, '_, P> {}

impl<'a, 'm, P: Platform> Reclaim<'a, 'm, P> {
    /// A view of the reclaim state of a memory.
    ///
    /// # Safety
    ///
    /// `tlb` and `state` belong to the memory. The rest is the contract of [`Reclaim::new`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn of(
        memory: &'a MemoryCore<'m, P>,
        tlb: &'a Tlb<'m, P>,
        state: &'a LruState<'m, P>,
        owner: &'a dyn PageOwner<P>,
        shootdown: &'a dyn Shootdown,
    ) -> Self {
        Self { memory, tlb, state, owner, shootdown }
    }

    /// The LRU lists.
    #[must_use]
    pub fn lru(&self) -> Lru<'a, 'm, P> {
        Lru::new(self.memory, self.state)
    }

    /// The maximum number of frames of a zone that could still be freed: the pages on its lists,
    /// plus all deferred frames of the memory, which are not counted by zone.
    #[must_use]
    pub fn reclaimable(&self, zone: ZoneId) -> u64 {
        self.lru().reclaimable(zone).saturating_add(self.tlb.deferred())
    }

    /// Reports that the writeback of a page has ended, whether [`PageOwner::write_out`] or the
    /// embedder started it. If the write failed, the owner has marked the page dirty again before
    /// this call. In this case the page becomes active, so that other pages are tried first.
    ///
    /// To be called for every page that was under writeback, even if the page was abandoned or
    /// removed from the lists meanwhile, because reclaim may pause until the call.
    pub fn written(&self, cpu: CpuId, pfn: Pfn, result: Result<(), WriteError>) {
        let Some(page) = self.state.page(self.memory, pfn) else { return };
        let awaited = page.flags.clear(Flags::RECLAIM);
        match result {
            Ok(()) => {
                page.node.count(NodeStat::NrWritten, 1);
                if awaited {
                    self.lru().rotate(&page);
                }
            }
            Err(_) => {
                page.node.count(NodeStat::WriteFailed, 1);
                self.lru().activate(cpu, pfn);
            }
        }
        let waiting = [Throttle::WriteBack, Throttle::Congested, Throttle::NoProgress];
        page.node.resume(self.memory.platform(), &waiting);
    }

    /// Flushes the TLB of this CPU if many deferred frames wait for that. A CPU that is in the
    /// kernel anyway, for example for a page fault, should call this, so that no other CPU has to
    /// interrupt it. Returns whether the CPU flushed. See
    /// [`Flusher::tick`](crate::tlb::Flusher::tick).
    pub fn tick(&self, cpu: CpuId) -> bool {
        self.flusher(cpu).tick()
    }

    fn flusher(&self, cpu: CpuId) -> Flusher<'a, 'm, P> {
        Flusher::new(self.memory, self.tlb, self.shootdown, cpu)
    }

    /// Asks the owner whether anonymous pages can be swapped out, and stores the answer.
    fn ask_for_swap(&self) -> bool {
        let can = self.memory.tuning().reclaim.swappiness > 0 && self.owner.can_swap();
        self.state.set_can_swap(can);
        can
    }

    /// Whether the memory has this node.
    fn has_node(&self, node: NodeId) -> bool {
        node.index() < self.state.nodes.len()
    }
}
