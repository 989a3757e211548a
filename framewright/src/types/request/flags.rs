//! The flags of a request, as bits of [`Request`](super::Request).

pub(crate) const ZEROED: u32 = 1 << 17;
/// The request may use half of the reserve (Linux: `__GFP_HIGH`).
pub(crate) const URGENT: u32 = 1 << 18;
pub(crate) const NO_WAIT: u32 = 1 << 19;
pub(crate) const NO_RETRY: u32 = 1 << 20;
pub(crate) const RETRY_MAYFAIL: u32 = 1 << 21;
pub(crate) const NO_FAIL: u32 = 1 << 22;
pub(crate) const THIS_NODE: u32 = 1 << 23;
pub(crate) const SOME_NODES: u32 = 1 << 24;
pub(crate) const IGNORING_WATERMARKS: u32 = 1 << 25;
/// The request comes from reclaim or compaction (Linux: `PF_MEMALLOC`).
pub(crate) const INSIDE_RELIEF: u32 = 1 << 26;
pub(crate) const WITHOUT_RESERVES: u32 = 1 << 27;
/// The OOM killer has chosen the task of the request.
pub(crate) const VICTIM: u32 = 1 << 28;
pub(crate) const NO_IO: u32 = 1 << 29;
pub(crate) const NO_FS: u32 = 1 << 30;
pub(crate) const NO_WAKE: u32 = 1 << 31;
