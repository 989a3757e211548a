//! A model of store buffers, and an explorer of everything they may do.
//!
//! The biased owner of a CPU's lists writes `busy` and reads `request` with no fence between;
//! the drainer writes `request`, makes *the other CPU* run a barrier, and reads `busy`. Whether
//! that excludes depends on one thing that the C11 model cannot say: what a barrier executed on
//! another processor does to this one's pending stores. So the model here is the machine's own.
//! On total-store-order processors (x86, SPARC) it is simple:
//!
//! * every thread has a first-in-first-out *store buffer*; a store goes into it;
//! * a load takes the youngest store to its address from its own buffer, else reads memory;
//! * the oldest buffered store of any thread may reach memory at any time;
//! * read-modify-writes, sequentially consistent stores and fences empty the buffer first;
//! * a [`remote_barrier`] empties the buffers of the threads it is aimed at. Nothing else does;
//!   [`compiler_fence`] in particular leaves them alone.
//!
//! [`explore`] runs a closure again and again until every order of steps and every moment of
//! every buffered store has been tried, and panics with the failing sequence if an assertion
//! fails, nobody can move, or nobody gets anywhere. Orders that differ only in steps that do
//! not touch each other are tried once (sleep sets), so "every" is exact and affordable. Where
//! it is not, an [`Explorer`] bounds preemptions or draws executions at random.
//!
//! | module     | job                                                                  |
//! |------------|----------------------------------------------------------------------|
//! | `atomics`  | the types that stand in for `core::sync::atomic`                     |
//! | `thread`   | spawn, join, yield: model threads are OS threads that pass a baton   |
//! | `machine`  | memory, store buffers, who may do what next                          |
//! | `path`     | the sequence of choices: depth first without repetition, or drawn    |
//! | `explore`  | the loop around all that, and how a failure is told                  |
//!
//! Rules for what is explored: it is deterministic but for the model's choices; whatever its
//! threads share is one of these atomics; loops that wait read one of them and then call
//! [`yield_now`]. Outside of an exploration the types behave as `core`'s do, so code built with
//! them runs as ever.

mod atomics;
mod explore;
mod machine;
mod path;
mod thread;

pub use atomics::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence,
    remote_barrier,
};
pub use explore::{Explored, Explorer, Failure, explore};
pub use machine::{Barrier, ThreadId};
pub use thread::{Inside, JoinHandle, Section, current, spawn, yield_now};

#[cfg(test)]
mod tests;
