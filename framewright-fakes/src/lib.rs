//! Fakes for tests of [`framewright`] and of kernels that embed it.
//!
//! * [`FakePlatform`] is a [`Platform`](framewright::Platform) without hardware. The contents of a frame are a number.
//!   Hooks are closures that run when the library waits, traces, clears, reports corruption, or calls a
//!   [`Probe`](framewright::platform::Probe). So a test can act at the worst moment.
//! * [`FakeRelief`] is a [`Relief`](framewright::platform::Relief) (the hooks for reclaim and
//!   compaction) made of closures.
//! * [`FailNth`] makes the n-th call of a sequence fail.
//! * [`leaked`] creates an allocator that lives as long as the process, so that closures can refer to
//!   it.
//!
//! # Examples
//!
//! A trace hook drains the lists of all CPUs while a refill is in progress:
//!
//! ```
//! use framewright::{Config, CpuId, FrameRange, MigrateType, Order, Pfn, Request, observe::Event};
//! use framewright_fakes::{FakePlatform, leaked};
//!
//! let map = [FrameRange::new(Pfn::new(0), Pfn::new(4096)).unwrap().into()];
//! let memory = leaked(FakePlatform::default().traced(), &Config::new(&map, 2));
//! memory.platform().on_trace(|_, event| {
//!     if let Event::PageAllocZoneLocked { .. } = event {
//!         memory.drain_all();
//!     }
//! });
//! let page = Request::new(Order::ZERO, MigrateType::Movable);
//! let block = memory.cpu(CpuId::new(0)).unwrap().alloc(page).unwrap();
//! memory.free_bypassing_lists(block).unwrap();
//! memory.check().unwrap();
//! ```
//!
//! Clearing of frames fails at its third call, and no frame is lost:
//!
//! ```
//! use framewright::{Config, FrameRange, MigrateType, Order, Pfn, Request};
//! use framewright_fakes::{FailNth, FakePlatform, leaked};
//! use std::{panic::{AssertUnwindSafe, catch_unwind}, sync::Arc};
//!
//! let map = [FrameRange::new(Pfn::new(0), Pfn::new(4096)).unwrap().into()];
//! let fault = Arc::new(FailNth::new());
//! let platform = FakePlatform::default();
//! platform.on_clear({
//!     let fault = Arc::clone(&fault);
//!     move |_, _| fault.panic_at_nth()
//! });
//! let memory = leaked(platform, &Config::new(&map, 1));
//! let zeroed = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
//! fault.arm(3);
//! let blocks: Vec<_> = (0..5)
//!     .filter_map(|_| catch_unwind(AssertUnwindSafe(|| memory.alloc_bypassing_lists(zeroed).unwrap())).ok())
//!     .collect();
//! assert!(fault.has_fired() && blocks.len() == 4);
//! assert_eq!(memory.free(), memory.managed() - 4);
//! ```

// Users copy the examples, so these import no more than they use.
#![doc(test(attr(deny(unused_imports))))]

mod contention;
mod fail_nth;
mod hooks;
mod memory;
mod mover;
mod owner;
mod platform;
mod relief;
mod words;

pub use contention::Contention;
pub use fail_nth::FailNth;
pub use hooks::ProbeCall;
pub use memory::{Metadata, assert_apart, cpu, leaked, order, raw};
pub use mover::{FakeMover, FaultRates, FaultyMover, MoverCall, MoverFault, Page};
pub use owner::{
    FakeOwner, FaultyOwner, Others, OwnerFault, PageId, Pages, Resident, StoreBehavior,
};
pub use platform::{FakePlatform, ProbedPlatform, TracedPlatform};
pub use relief::FakeRelief;
pub use words::{Lock, Word};
