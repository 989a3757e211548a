//! A model of store buffers, and an explorer of all executions that they allow.
//!
//! The biased owner of a CPU's lists writes `busy` and reads `request` with no fence between; the
//! drainer writes `request`, makes *the other CPU* run a barrier, and reads `busy`. Whether the two
//! exclude each other depends on the effect of a barrier on the pending stores of another
//! processor. The C11 model cannot express that effect, so this is a model of the machine. For
//! total-store-order processors (x86, SPARC) it is simple:
//!
//! * every thread has a first-in-first-out *store buffer*; a store goes into it;
//! * a load takes the youngest store to its address from its own buffer, else reads memory;
//! * the oldest buffered store of any thread may reach memory at any time;
//! * read-modify-writes, sequentially consistent stores and fences empty the buffer first;
//! * a [`remote_barrier`] empties the buffers of its target threads, and the caller's. Nothing else
//!   empties the buffer of another thread. A [`compiler_fence`] empties none.
//!
//! [`explore`] runs a closure until it has tried every order of steps, with every buffered store
//! reaching memory at every possible time. It panics with the failing sequence if an assertion
//! fails, and on a deadlock or livelock. Of orders that differ only in the order of independent
//! steps, mostly one is tried (sleep sets). No outcome is lost by this, so the exploration is
//! complete. Where a complete exploration takes too long, an [`Explorer`] bounds preemptions or
//! draws executions at random.
//!
//! | module     | job                                                                  |
//! |------------|----------------------------------------------------------------------|
//! | `atomics`  | the types that stand in for `core::sync::atomic`                     |
//! | `thread`   | spawn, join, yield: OS threads, of which one runs at a time          |
//! | `machine`  | memory, store buffers, the steps that are possible next              |
//! | `path`     | the sequence of choices: depth first without repetition, or drawn    |
//! | `explore`  | the loop over all executions, and the report of a failure            |
//!
//! Rules for an explored closure: it is deterministic apart from the model's choices; its threads
//! share nothing but these atomics; a loop that waits reads one of them and then calls
//! [`yield_now`]. Outside of an exploration the types behave as those of `core`, so code built with
//! them runs as usual.

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
pub use machine::Barrier;
pub use path::ThreadId;
pub use thread::{Inside, JoinHandle, Section, current, spawn, yield_now};

#[cfg(test)]
mod tests;
