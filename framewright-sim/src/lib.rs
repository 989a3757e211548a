//! Simulated machines of 1 to 512 CPUs that run Framewright, deterministically.
//!
//! Every CPU is a coroutine with its own clock. All CPUs of a machine share one thread of the host.
//! The library reports its operations to its platform: locks, touched cache lines, work, and
//! accesses to the words of the owner protocol. At these points a CPU is charged cycles, and
//! another CPU may run. The same machine, seed and programs give the same run on any host.
//!
//! | module     | job                                                                   |
//! |------------|-----------------------------------------------------------------------|
//! | `machine`  | the description of a machine: CPUs, memory and costs, as TOML         |
//! | `engine`   | CPUs, clocks, schedules, locks, interrupts, words, cache lines         |
//! | `platform` | the library's `Platform` on the engine                                 |
//! | `process`  | address spaces, page tables, TLBs, contents of frames                  |
//! | `file`     | file pages: a store, a page cache, mappings of it, reclaim             |
//! | `scenario` | small programs for finding concurrency bugs, and bugs to seed          |
//! | `check`    | checks of invariants, for the end of a run and during it               |
//! | `toml_file` | errors in TOML files, with their places                               |
//! | `host_memory` | prefetch hints for the memory of the host                          |
//! | `lent`     | slots for references that are filled during a call                     |
//! | `one_thread` | values that only one thread may use, although their type is `Sync`  |

// Users copy the examples, so these import no more than they use.
#![doc(test(attr(deny(unused_imports))))]

pub mod check;
pub mod engine;
pub mod file;
pub mod host_memory;
mod lent;
pub mod machine;
pub mod one_thread;
pub mod platform;
pub mod process;
pub mod scenario;
pub mod toml_file;
