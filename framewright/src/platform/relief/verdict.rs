//! The out-of-memory verdict, as a value.

use core::fmt;

use super::{CompactPriority, Compacted, Need};
use crate::types::{AllocError, ZoneId};

/// A request that nothing helped: what was wanted, how things are, what was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// What is wanted, where.
    pub need: Need,
    /// The zone it tries first.
    pub zone: ZoneId,
    /// Free frames in that zone.
    pub free: u64,
    /// Frames that the request must leave free there.
    pub must_leave: u64,
    /// Why it is not served: what it would get as an error now.
    pub error: AllocError,
    /// Frames that reclaim has freed for it, which others have taken.
    pub reclaimed: u64,
    /// The last round of compaction: how hard it tried and what came of it. `None` if the request
    /// needed none.
    pub compacted: Option<(CompactPriority, Compacted)>,
    /// Why the field would not kill for this request; `None` if it would.
    pub spare: Option<Spare>,
}

/// Why nobody is killed for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Spare {
    /// It wants more than killing is likely to give in one piece: order 4 or more.
    CostlyOrder,
    /// It [may fail](crate::Request::retry_may_fail).
    MayFail,
    /// It wants [one node](crate::Request::this_node); who is killed may have memory elsewhere.
    OneNode,
    /// It needs low addresses; who is killed may have none.
    LowZone,
    /// It holds locks of a [file system](crate::Request::no_fs), so reclaim could not do all it
    /// can. Others who can will come: retry.
    NoFileSystem,
}

impl fmt::Display for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spare::CostlyOrder => "its order is costly",
            Spare::MayFail => "it may fail",
            Spare::OneNode => "it can use one node only",
            Spare::LowZone => "it needs low addresses",
            Spare::NoFileSystem => "reclaim could not call into file systems",
        })
    }
}

/// What becomes of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Verdict {
    /// Memory has been freed, or will be: it tries again. Said without reason for ever, it keeps
    /// the request for ever.
    Retry,
    /// It fails; or waits, if it [never fails](crate::Request::no_fail).
    GiveUp,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; on node {}: {} frames are free and {} must stay, {} were reclaimed in vain",
            self.error, self.need.node, self.free, self.must_leave, self.reclaimed
        )?;
        match self.spare {
            None => Ok(()),
            Some(why) => write!(f, "; nobody should be killed for it: {why}"),
        }
    }
}
