//! The host machine: threads of this process as CPUs, a mapping of this process as memory.
//!
//! [`HostMachine`] implements [`framewright::Platform`], so that the library runs in any Linux
//! program, such as a database that manages its own frames, a test, or a benchmark. Nothing is
//! simulated. The threads run in parallel, waiters for a lock sleep in the kernel after a short spin, a
//! remote barrier is `membarrier(2)`, and the frames are real memory.
//!
//! | module       | job                                                              |
//! |--------------|------------------------------------------------------------------|
//! | `machine`    | [`HostMachine`]: the platform                                    |
//! | `builder`    | [`HostBuilder`]: checks and builds a machine                     |
//! | `cpu`        | [`RegisteredCpu`]: a thread as a CPU, optionally pinned          |
//! | `membarrier` | barriers on other CPUs, or the reason why there are none         |
//! | `lock`       | [`HostLock`]: spins briefly, then sleeps                         |
//! | `wait`       | waiting for another thread                                       |
//! | `frames`     | frames by frame number: words to read and write, clear, copy     |
//! | `metadata`   | [`Metadata`]: the buffer for the metadata of a memory            |
//! | `mapping`    | address space: the only module that maps and unmaps              |
//! | `relief`     | the slot for the `Relief` of a memory                            |
//! | [`paging`]   | pages of files in less memory than they take: the library's reclaim over real memory |
//! | `error`      | [`HostError`]: causes and remedies                               |
//!
//! A program builds the machine, gets the size of the metadata from [`framewright::Layout`], builds the
//! [`framewright::Memory`], and registers its threads:
//!
//! ```
//! use framewright::{Config, Layout, Memory, MigrateType, Order, Request};
//! use framewright_host::{HostMachine, Metadata};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let machine = HostMachine::builder().frames(8192).cpus(1).build()?;
//! let map = [machine.frames().into()];
//! let config = Config::new(&map, machine.cpus());
//! let mut metadata = Metadata::for_layout(&Layout::new::<HostMachine>(&config)?)?;
//! let memory = Memory::new(machine, &config, metadata.as_mut())?;
//!
//! let me = memory.platform().register()?;
//! let mut cpu = memory.cpu(me.id())?;
//! let block = cpu.alloc(Request::new(Order::ZERO, MigrateType::Movable).zeroed())?;
//! assert!(memory.platform().is_zero(&block));
//! cpu.free(block).map_err(|_| "a block of another memory")?;
//! # Ok(())
//! # }
//! ```
//!
//! Signal handlers must not use a memory: the host does not mask signals when the library masks
//! interrupts, because that would cost two system calls per operation.

// Users copy the examples, so these import no more than they use.
#![doc(test(attr(deny(unused_imports))))]
#![deny(unsafe_code)]
#![cfg_attr(doctest, doc = include_str!("../../README.md"))]
#![cfg_attr(doctest, doc = include_str!("../../docs/threads.md"))]

mod builder;
mod cpu;
mod error;
mod frames;
mod lock;
mod machine;
mod mapping;
mod membarrier;
mod metadata;
pub mod paging;
mod relief;
mod wait;

pub use builder::{Backing, HostBuilder, PageSize};
pub use cpu::RegisteredCpu;
pub use error::HostError;
pub use frames::Mismatch;
pub use lock::{Contention, HostLock};
pub use machine::HostMachine;
pub use mapping::available_memory;
pub use membarrier::NoBarrier;
pub use metadata::Metadata;
