//! The allocator's interface: requests in, blocks out.
//!
//! The fast path of an allocation is a pop from a list of this CPU, and that of a free is a push:
//! no lock, no atomic read-modify-write ([`token`]). All other cases are behind one cold branch:
//! refills (`crate::pcp`), the zone directly for orders without lists, and the slow path
//! ([`slow`]). The slow path asks the embedder to reclaim and to compact
//! ([`Relief`](crate::platform::Relief)), uses reserves if the request permits, drains the lists of all
//! CPUs, retries within bounds, and finally reports to the embedder that memory is exhausted.

mod access;
mod bulk;
mod bypass;
mod held_frames;
mod largest;
mod ranges;
mod slow;
mod token;

pub(crate) use held_frames::Capture;
pub use token::CpuToken;
