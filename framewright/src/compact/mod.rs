//! Compaction: forms free blocks of a wanted order by moving the pages that are in the way.
//!
//! # Theory of operation
//!
//! Scattered free frames cannot serve a request for a huge page. Compaction moves movable pages together, so that the
//! frames between them become one free block. Two methods decide *which* pages move *where*
//! ([`CompactMethod`](crate::tuning::CompactMethod)); they share everything else.
//!
//! **By index** (the default): the header of every pageblock counts its free frames, and its
//! allocated frames by movability. Lists sort pageblocks by fullness; these lists are the index.
//! The emptiest movable pageblock is isolated, its pages move into the fullest pageblocks, and the
//! formed block is captured for the request before any other request can take the block. Pages also
//! move into pageblocks with unmovable frames, even if these are nearly empty: most of them will
//! not become free anyway. The method reads a few headers, and the map of the one pageblock that is
//! emptied. It empties movable pageblocks only. A request for memory that is not movable claims a
//! whole emptied pageblock.
//!
//! **By two scanners**, as Linux does, for comparison (feature `compare`): a migrate scanner moves
//! up through the zone and claims pages, and a free scanner moves down and takes free frames as
//! targets, until the scanners meet. Their positions are cached, and pageblocks that were scanned
//! without success get a skip hint. Four of the scanners' rules were wrong in Linux until 2013; the
//! repair of each rule can be switched off (`CompactRepairs`).
//!
//! **Modes** ([`MigrateMode`]): compaction waits for nothing, for locks only, or for anything.
//! After failures, up to 63 attempts in a row are deferred.
//!
//! **Callers**: the embedder makes a [`Compactor`] from its [`Mover`](crate::migrate::Mover), which
//! moves its pages, and its [`Shootdown`](crate::tlb::Shootdown), which flushes TLBs. It calls the
//! compactor from its [`Relief`](crate::platform::Relief) for a request ([`Compactor::compact`]),
//! from its background thread ([`Compactor::background`], [`Compactor::proactive`]), on demand
//! ([`Compactor::compact_node`]), and to empty given ranges ([`Compactor::alloc_range`],
//! [`Compactor::alloc_contiguous`], [`Compactor::remove_memory`]).
//!
//! **Invariants**: after a call, no pageblock is isolated, no page is claimed or locked, and every page is in its old
//! frame, in a new frame, or freed. The state between calls consists of hints: single words without a lock.
//!
//! | module | job |
//! |---|---|
//! | `compactor` | the type that the embedder calls |
//! | `direct`, `daemon` | compaction for a request, and in the background |
//! | `ranges`, `runs` | emptying given ranges, and forming contiguous runs |
//! | `suitable` | whether compaction should start in a zone |
//! | `target_frames` | frames to move pages to, and frames that pages have left |
//! | `any_zone` | target frames for given ranges, whose pages may also move to other zones |
//! | `retries` | bounded waits for other callers while a given range is emptied |
//! | `evacuate` | emptying a range of frames |
//! | `index` | compaction by index |
//! | `search`, `cursor` | the search for the next pageblock to empty by index, and its position between calls |
//! | `scan` | compaction by two scanners |
//! | `zones`, `state`, `deferral`, `skip` | hints that are kept per zone |
//! | `trace`, `view` | events and counters, and inspection |

mod any_zone;
mod compactor;
mod daemon;

mod cursor;
mod deferral;
mod direct;
mod evacuate;
mod index;
mod ranges;
mod retries;
mod runs;
#[cfg(feature = "compare")]
mod scan;
mod search;
mod target_frames;

mod skip;
mod state;
mod suitable;
mod trace;
mod view;
mod zones;

pub use compactor::{Compactor, Workspace};
#[cfg(feature = "compare")]
pub use scan::ScannersView;
pub(crate) use skip::SkipHints;
pub(crate) use state::ZoneCompaction;
pub use view::PageblockView;
pub(crate) use zones::CompactZones;

use crate::{
    buddy::Buddy,
    migrate::{Effort, MigrateMode},
    platform::{Compacted, Need},
    types::{MigrateType, Order},
};

/// The goal of a run over a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Goal {
    /// The order of the block to form; `None`: as many pageblocks as possible.
    order: Option<Order>,
    /// The type of the request.
    migratetype: MigrateType,
    effort: Effort,
    caller: Caller,
    /// The block is for the huge-page reserve of the zone, so blocks that exist already do not
    /// count.
    fills_huge_reserve: bool,
    /// A free block in a partly used pageblock of another type does not count, because taking it
    /// would mix types.
    unmixed: bool,
}

/// The caller of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Caller {
    /// A request, which waits.
    Request {
        /// Whether the run also tries pageblocks with skip hints.
        thorough: bool,
    },
    /// Background compaction, after a request that could not wait, or for the huge-page reserve.
    Daemon,
    /// Background compaction, before any request.
    Proactive,
    /// A call to compact a whole node.
    Node,
}

impl Goal {
    /// For a request. If the request must not mix types and is not for movable memory, it needs a
    /// whole pageblock to claim.
    fn for_request(need: &Need, mode: MigrateMode, thorough: bool) -> Self {
        let Need { request, unmixed, .. } = *need;
        let (order, migratetype) = (request.order(), request.migratetype());
        let claims = unmixed && migratetype != MigrateType::Movable;
        Self {
            order: Some(if claims { order.max(Order::PAGEBLOCK) } else { order }),
            migratetype,
            effort: Effort { mode, may_io: request.may_io(), may_fs: request.may_fs() },
            caller: Caller::Request { thorough },
            fills_huge_reserve: false,
            unmixed,
        }
    }

    /// For movable memory, without a particular request.
    fn for_movable(order: Option<Order>, mode: MigrateMode, caller: Caller) -> Self {
        let effort = Effort::new(mode);
        let migratetype = MigrateType::Movable;
        Self { order, migratetype, effort, caller, fills_huge_reserve: false, unmixed: false }
    }

    /// For the huge-page reserve of a zone.
    fn for_huge_reserve() -> Self {
        let order = Some(Order::PAGEBLOCK);
        let goal = Self::for_movable(order, MigrateMode::SyncLight, Caller::Daemon);
        Self { fills_huge_reserve: true, ..goal }
    }

    /// Whether the lists already contain a block for this goal.
    fn has_formed(&self, buddy: &Buddy<'_>) -> bool {
        self.order.is_some_and(|order| buddy.has_formed(order, self.migratetype, self.unmixed))
    }

    fn is_direct(&self) -> bool {
        matches!(self.caller, Caller::Request { .. })
    }

    fn is_async(&self) -> bool {
        self.effort.mode == MigrateMode::Async
    }

    /// Whether everything is searched, even if recent searches found nothing.
    fn is_exhaustive(&self) -> bool {
        matches!(self.caller, Caller::Request { thorough: true } | Caller::Node)
    }

    /// Number of consecutive pageblocks that the block needs.
    fn pageblocks(&self) -> u32 {
        self.order.map_or(1, |order| order.max(Order::PAGEBLOCK).pageblocks())
    }

    /// Whether the block is larger than a pageblock, and so needs a run of pageblocks.
    fn wants_run(&self) -> bool {
        self.pageblocks() > 1
    }

    /// Whether full pageblocks are emptied, too, if there is no cheaper source.
    fn empties_full(&self) -> bool {
        !self.wants_run() && matches!(self.caller, Caller::Request { .. } | Caller::Node)
    }

    /// Whether the search is cut short if the last round found nothing.
    fn limits_search(&self) -> bool {
        self.is_direct() && !self.is_exhaustive() && !self.wants_run()
    }
}

/// Result of a run over a zone. Of the results in several zones, the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// Memory is short, but not fragmented.
    NotSuitable,
    /// Too few frames are free.
    Skipped,
    /// Deferred because of recent failures.
    Deferred,
    /// The whole zone was searched.
    Complete,
    /// The zone was searched from the position where the last run had ended. Compaction by index
    /// uses this value for a pageblock whose pages have no free frames to move to.
    PartialSkipped,
    /// The run ended early: because of contention, with its budget spent, or because the rest of the
    /// search is left to a later call.
    Contended,
    /// A block has formed.
    Success,
}

impl Outcome {
    /// Linux's name of the outcome.
    const fn name(self) -> &'static str {
        match self {
            Outcome::NotSuitable => "not_suitable_zone",
            Outcome::Skipped => "skipped",
            Outcome::Deferred => "deferred",
            Outcome::Complete => "complete",
            Outcome::PartialSkipped => "partial_skipped",
            Outcome::Contended => "contended",
            Outcome::Success => "success",
        }
    }
}

impl From<Outcome> for Compacted {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::NotSuitable | Outcome::Skipped => Compacted::Skipped,
            Outcome::Deferred => Compacted::Deferred,
            Outcome::Complete | Outcome::PartialSkipped => Compacted::Complete,
            Outcome::Contended => Compacted::Contended,
            Outcome::Success => Compacted::Success,
        }
    }
}
