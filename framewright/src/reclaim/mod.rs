//! Reclaim: which pages can go, and making them go.
//!
//! # Theory of operation
//!
//! Every page that could be taken away is on one of the **LRU lists** of its node ([`Lru`]): by
//! what is behind it ([`PageKind`]), and by whether it was used lately. New pages come to the head
//! of an inactive list; reclaim takes them from its tail. A page that is used meanwhile is kept
//! once, and becomes active if it is used again; active pages age back when there are too many of
//! them. So a list is not ordered by time of use, which would cost something on every access; it
//! gives every page one round to prove itself.
//!
//! A **pass** ([`Reclaim::direct`] by who needs memory, [`Kswapd::step`] in the background) looks
//! through a part of the lists, in clusters of pages that are isolated together. A cluster goes
//! through the phases of `shrink`: the owner of the pages ([`PageOwner`], the embedder) locks them,
//! says which were used, unmaps the rest into a flush batch, writes what is dirty, and forgets what
//! is clean and referred to by nobody. Then *one* flush, and the frames are free. What went wrong
//! with a page decides where it is put back.
//!
//! **Nothing here loops for ever.** A pass looks at each list at most once per priority, priorities
//! go from 12 (a 4096th of a list) down to 0 (all of it), and if that freed nothing, that is the
//! answer. A page that cannot be written becomes active and is out of the way.
//!
//! **Lost races are cheap.** Who isolates a page claims it (`flags`), who does not get it leaves it
//! alone. An owner that gives up a page which is isolated does not wait ([`Lru::abandon`]).
//!
//! # Who may do what
//!
//! | module | job | who changes it |
//! |---|---|---|
//! | `flags`, `lists`, `node`, `page` | the lists, and the claims on pages | holders of the LRU lock of the node |
//! | `batch`, `moves` | moves that wait for that lock | their CPU, and who drains it |
//! | `lru`, `info` | the lists as the embedder sees them | |
//! | `owner` | the questions to the embedder | never asked under a lock of the library |
//! | `scan`, `balance`, `sweep` | how far which list is looked through | the pass itself |
//! | `cluster`, `shrink`, `references`, `active` | what happens to pages | the pass itself |
//! | `retire` | frames on their way through the flush batch | the pass itself |
//! | `kept` | frames for the request that reclaims them | their CPU |
//! | `workingset` | pages that come back too soon | |
//! | `direct`, `kswapd`, `wakeup`, `throttle` | who reclaims when, and for how long | |
//!
//! The LRU lock is taken with interrupts masked, before the lists of a CPU and the zone lock in the
//! order of locks; neither is ever taken under it.

mod active;
mod balance;
mod batch;
mod cluster;
mod direct;
mod flags;
mod info;
mod kept;
mod kind;
mod kswapd;
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
    frame::Pfn,
    memory::Memory,
    observe::NodeStat,
    platform::{CpuId, Platform},
    tlb::Shootdown,
    zone::{NodeId, ZoneId},
};

pub(crate) use batch::CpuBatch as LruBatch;
pub(crate) use flags::Flags as LruFlags;
pub use kind::{LruList, PageKind};
pub use kswapd::{Kswapd, NextStep};
pub(crate) use lists::Link as LruLink;
pub use lru::{FreedBy, Lru};
pub(crate) use node::{LruZone, Node as LruNode};
pub use owner::{PageOwner, PageState, Reference, Released, Unmapped, WriteError, WriteOut};
pub(crate) use state::LruState;
pub use throttle::{Pause, Throttle};
pub use workingset::{Refault, Shadow};

use flags::Flags;

/// Reclaim of a memory: its lists, whoever owns the pages on them, and how CPUs are made to forget
/// translations. As cheap as a few references; everything it remembers is in the memory.
///
/// An embedder's [`Relief`](crate::platform::Relief) forwards to it:
///
/// | `Relief` | here |
/// |---|---|
/// | `reclaims_in_background` | `true`, if somebody runs [`Kswapd::step`] |
/// | `wake` | [`Reclaim::wake`]; if that says so, the thread or CPU that runs it |
/// | `reclaim` | [`Reclaim::direct`] |
/// | `reclaimable` | `Some(`[`Reclaim::reclaimable`]`)` |
/// | `pause`, `resume` | none: the embedder has the wait queue |
pub struct Reclaim<'a, 'm, P: Platform> {
    memory: &'a Memory<'m, P>,
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
    /// Reclaim of a memory; `None` if that was made without LRU lists
    /// ([`Planes::lru`](crate::Planes::lru)).
    ///
    /// # Safety
    ///
    /// `owner` keeps the promises of [`PageOwner`] for this memory: each frame that it releases is a block of
    /// this memory. `shootdown` is as [`Memory::flusher`] demands, for the translations that `owner` removes.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn new(
        memory: &'a Memory<'m, P>,
        owner: &'a dyn PageOwner<P>,
        shootdown: &'a dyn Shootdown,
    ) -> Option<Self> {
        Some(Self { memory, state: memory.lru_state()?, owner, shootdown })
    }

    /// Its lists.
    #[must_use]
    pub fn lru(&self) -> Lru<'a, 'm, P> {
        Lru { memory: self.memory, state: self.state }
    }

    /// Pages of a zone that could still be freed, at the most: those on its lists, and frames that
    /// are deferred until they are flushed.
    #[must_use]
    pub fn reclaimable(&self, zone: ZoneId) -> u64 {
        self.lru().reclaimable(zone).saturating_add(self.memory.tlb().deferred())
    }

    /// The writing of a page has ended, which [`PageOwner::write_out`] or anybody else had begun:
    /// the page is under write-back no more. If it could not be written the owner has marked it
    /// dirty again before it says so; it becomes active, so that others are tried first.
    ///
    /// Call it for every page that was under write-back, also if the page was abandoned or taken off the
    /// lists meanwhile: reclaim may pause until the call.
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
        let waiting = [Throttle::WriteBack, Throttle::Congested];
        page.node.resume(self.memory.platform(), &waiting);
    }

    /// To be called by CPUs that are in the kernel anyway, for a page fault: they need not be
    /// interrupted then for frames that are deferred. See [`Flusher::tick`](crate::tlb::Flusher::tick).
    pub fn tick(&self, cpu: CpuId) -> bool {
        self.memory.flusher_by(cpu, self.shootdown).tick()
    }

    /// Asks the owner whether anonymous pages have somewhere to go, and remembers it.
    fn ask_for_swap(&self) -> bool {
        let can = self.memory.tuning().reclaim.swappiness > 0 && self.owner.can_swap();
        self.state.set_can_swap(can);
        can
    }

    /// Whether there is such a node.
    fn has_node(&self, node: NodeId) -> bool {
        node.index() < self.state.nodes.len()
    }
}
