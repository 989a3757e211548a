//! The front door: requests in, blocks out.
//!
//! The fast path is a pop from the lists of this CPU, and a free is a push: no lock, no atomic
//! read-modify-write ([`token`]). Everything else is behind one cold door: refills
//! (`crate::pcp`), the zone directly for orders without lists, and the slow path, which asks the
//! embedder for relief, dips into reserves if the request may, drains all CPUs, retries within
//! bounds, and has the embedder judge in the end ([`slow`]).

mod access;
mod bulk;
mod bypass;
mod held_frames;
mod largest;
mod slow;
mod token;

pub(crate) use held_frames::Capture;
pub(crate) use slow::OomLock;
pub use token::CpuToken;
