//! The report of a request that is out of memory, and the embedder's verdict.

use core::fmt;

use super::{CompactPriority, Compacted, Need};
use crate::types::{AllocError, ZoneId};

/// A request that reclaim and compaction could not help: its needs, the state of memory, and the attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The request, with its CPU and node.
    pub need: Need,
    /// The zone that the request tries first.
    pub zone: ZoneId,
    /// Free frames in that zone.
    pub free: u64,
    /// Frames that the request must leave free there.
    pub must_leave: u64,
    /// The error that the request would return now.
    pub error: AllocError,
    /// Frames that reclaim has freed for the request. They did not suffice, or other requests have taken them.
    pub reclaimed: u64,
    /// Priority and result of the last round of compaction. `None` if the request needed none.
    pub compacted: Option<(CompactPriority, Compacted)>,
    /// The reason why Linux would not kill a task for this request; `None` if Linux would kill one.
    pub no_kill: Option<NoKillReason>,
}

/// The reason why no task is killed for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum NoKillReason {
    /// The order is costly (4 or more): killing a task is unlikely to free such a block.
    CostlyOrder,
    /// The request [may fail](crate::Request::retry_may_fail).
    MayFail,
    /// The request can use [one node](crate::Request::this_node) only; a killed task may have its memory
    /// elsewhere.
    OneNode,
    /// The request needs low addresses; a killed task may have no such memory.
    LowZone,
    /// The caller holds locks of a [file system](crate::Request::no_fs), so reclaim was limited. Other requests will
    /// reclaim without this limit: retry.
    NoFileSystem,
}

impl fmt::Display for NoKillReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoKillReason::CostlyOrder => "its order is costly",
            NoKillReason::MayFail => "it may fail",
            NoKillReason::OneNode => "it can use one node only",
            NoKillReason::LowZone => "it needs low addresses",
            NoKillReason::NoFileSystem => "reclaim could not call into file systems",
        })
    }
}

/// The decision about the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Verdict {
    /// The request tries again, because memory has been freed or will be. If this is returned for ever
    /// without such a reason, the request never ends.
    Retry,
    /// The request fails; or waits, if it [never fails](crate::Request::no_fail).
    GiveUp,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; in the first zone of node {}, {} frames are free and {} must stay free; {} were reclaimed in vain",
            self.error, self.need.node, self.free, self.must_leave, self.reclaimed
        )?;
        match self.no_kill {
            None => Ok(()),
            Some(why) => write!(f, "; no task should be killed for it: {why}"),
        }
    }
}
