//! Simulated machines of 1 to 512 CPUs that run Framewright, deterministically.
//!
//! Every CPU is a coroutine with a clock of its own; all of them share one thread of the host.
//! What the library tells its platform (locks, lines touched, work done, words of the owners'
//! protocol) is where a CPU is charged, and where another may go on. Same machine, same seed, same
//! programs: the same run, on any host, on any day.
//!
//! | module     | job                                                                   |
//! |------------|-----------------------------------------------------------------------|
//! | `machine`  | what is simulated: CPUs, memory, and what things cost, as TOML         |
//! | `engine`   | CPUs, clocks, schedules, locks, interrupts, words, cache lines         |
//! | `platform` | the library's `Platform` on the engine                                 |
//! | `process`  | address spaces, page tables, translation caches, frame contents        |
//! | `file`     | pages of files: a store, a page cache, mappings of it, reclaim         |
//! | `scenario` | small programs to hunt bugs with, and the bugs to put in               |
//! | `check`    | invariants, at the end of every run and in between                     |
//! | `host_memory` | hints about the memory of the host                                 |
//! | `one_thread` | what only one thread may use, although its type may be shared         |

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
