//! Compaction: free blocks of a wanted order, made by moving what is in the way.
//!
//! # Theory of operation
//!
//! Free memory that lies scattered serves no request for a huge page. Movable pages can be put
//! together, so that what is between them becomes one block. Two methods decide *which* pages move
//! *where* ([`CompactMethod`](crate::tuning::CompactMethod)); everything else they share.
//!
//! **By index** (the default): the header of every pageblock says how much of it is free, and whether
//! what is not free was requested as movable; lists hold pageblocks by fullness. The emptiest
//! movable pageblock is withheld, what is in it moves into the fullest, and the block that this
//! forms is handed to the request before anybody else can take it. Pageblocks that hold something
//! which does not move take in what leaves others, however empty they are. What is looked at are some
//! headers, and the map of the one pageblock that is emptied. No pageblock of another type is
//! touched: a request for other than movable memory gets a whole pageblock to claim.
//!
//! **By two scanners**, as Linux does: a migrate scanner goes up through the zone and claims pages, a
//! free scanner comes down and takes free frames to move them to, until they meet. Where they have
//! got to is cached; pageblocks that were looked at in vain are marked to be skipped. Four rules
//! about that were wrong for years ([`CompactRepairs`](crate::tuning::CompactRepairs)); each can
//! be switched back.
//!
//! **How hard**: without waiting, waiting for locks, or whatever it takes
//! ([`MigrateMode`]). After failures compaction is given a rest, up to
//! 63 attempts long.
//!
//! **Who calls**: the embedder, with a [`Compactor`], which knows how the embedder moves pages
//! ([`Mover`](crate::migrate::Mover)) and flushes: from its
//! [`Relief`](crate::platform::Relief) on behalf of a request ([`Compactor::compact`]); from its
//! background thread ([`Compactor::background`], [`Compactor::proactive`]); on request
//! ([`Compactor::compact_node`]); and for given ranges, which it empties
//! ([`Compactor::alloc_range`], [`Compactor::alloc_contiguous`], [`Compactor::remove_memory`]).
//!
//! **Invariants**: when a call returns, nothing is withheld, claimed or locked on its behalf, and
//! every frame is where it was, moved, or free. What is remembered between calls are hints: a word
//! each, without a lock.
//!
//! | module | job |
//! |---|---|
//! | `compactor` | the value that the embedder calls; who does what on its behalf |
//! | `direct`, `daemon` | the callers: a request, the background |
//! | `ranges`, `runs` | those who want given ranges, and contiguous runs |
//! | `suitable` | whether to begin |
//! | `room` | frames to move to, and frames that were left |
//! | `anywhere` | the same where a given range is emptied: other zones have room, too |
//! | `patience` | waits for what others have for a moment, where a given range is emptied |
//! | `evacuate` | moves what is in a stretch of a zone elsewhere |
//! | `index` | by index |
//! | `search`, `quest` | what it empties next, and how far it has come with looking |
//! | `scan` | by two scanners |
//! | `state`, `deferral`, `skip` | what a zone remembers |
//! | `trace`, `view` | what is told of it, and what people see |

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
#[cfg(feature = "scanners")]
mod scan;
mod search;
mod target_frames;

mod skip;
mod state;
mod suitable;
mod trace;
mod view;

pub use compactor::{Compactor, Workspace};
pub(crate) use skip::SkipHints;
pub(crate) use state::ZoneCompaction;
pub use view::{PageblockView, ScannersView};

use crate::{
    buddy::Buddy,
    migrate::{Effort, MigrateMode},
    platform::{Compacted, Need},
    types::{MigrateType, Order},
};

/// What a run over a zone is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Goal {
    /// The order of the block to form; `None`: as many pageblocks as possible.
    order: Option<Order>,
    /// Whom it is for.
    migratetype: MigrateType,
    effort: Effort,
    caller: Caller,
    /// It is one more for the stock of the zone, whether there are others or not.
    fills_huge_reserve: bool,
    /// What could be claimed with a part of a pageblock in use does not count.
    unmixed: bool,
}

/// On whose behalf a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Caller {
    /// A request, which waits.
    Request {
        /// Nothing is left out: neither what was marked to be skipped nor any type.
        thorough: bool,
    },
    /// The background, because somebody could not wait.
    Daemon,
    /// The background, before anybody asks.
    Proactive,
    /// People.
    Node,
}

impl Goal {
    /// On behalf of a request. If types are not to be mixed for it, movable pages make room for others as whole
    /// pageblocks.
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

    /// In the background, for whoever may come.
    fn for_movable(order: Option<Order>, mode: MigrateMode, caller: Caller) -> Self {
        let effort = Effort::new(mode);
        let migratetype = MigrateType::Movable;
        Self { order, migratetype, effort, caller, fills_huge_reserve: false, unmixed: false }
    }

    /// In the background, for the stock of a zone.
    fn for_huge_reserve() -> Self {
        let order = Some(Order::PAGEBLOCK);
        let goal = Self::for_movable(order, MigrateMode::SyncLight, Caller::Daemon);
        Self { fills_huge_reserve: true, ..goal }
    }

    /// Whether a block is there already, as far as lists tell.
    fn has_formed(&self, buddy: &Buddy<'_>) -> bool {
        self.order.is_some_and(|order| buddy.has_formed(order, self.migratetype, self.unmixed))
    }

    fn is_direct(&self) -> bool {
        matches!(self.caller, Caller::Request { .. })
    }

    fn is_async(&self) -> bool {
        self.effort.mode == MigrateMode::Async
    }

    /// Whether everything is to be looked at, whatever came of it lately.
    fn is_exhaustive(&self) -> bool {
        matches!(self.caller, Caller::Request { thorough: true } | Caller::Node)
    }

    /// Pageblocks in a row that it takes.
    fn pageblocks(&self) -> u32 {
        self.order.map_or(1, |order| order.max(Order::PAGEBLOCK).pageblocks())
    }

    /// Whether that are several.
    fn wants_run(&self) -> bool {
        self.pageblocks() > 1
    }

    /// Whether full pageblocks are to be emptied too, if there is nothing cheaper.
    fn empties_full(&self) -> bool {
        !self.wants_run() && matches!(self.caller, Caller::Request { .. } | Caller::Node)
    }

    /// Whether little is to be looked at where nothing was found lately.
    fn limits_search(&self) -> bool {
        self.is_direct() && !self.is_exhaustive() && !self.wants_run()
    }

    /// Whether hints to skip pageblocks do not count, and the run is over the whole zone.
    fn is_thorough(&self) -> bool {
        match self.caller {
            Caller::Request { thorough } => thorough,
            Caller::Daemon => false,
            Caller::Proactive | Caller::Node => true,
        }
    }
}

/// What a run over a zone came to; what is worse for the others comes later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// Memory is short, and not fragmented.
    NotSuitable,
    /// Too little is free.
    Skipped,
    /// It failed lately.
    Deferred,
    /// Everything was looked at.
    Complete,
    /// Everything from where the last run had ended.
    PartialSkipped,
    /// Somebody was in the way, or it has done what it may do in one go.
    Contended,
    /// A block has formed.
    Success,
}

impl Outcome {
    /// The kernel's word for it.
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
