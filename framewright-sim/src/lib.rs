//! A machine of N simulated CPUs, on which the library runs unchanged.
//!
//! Every CPU is a coroutine with a clock of its own; all of them share one thread of the host.
//! What the library tells its platform (locks, lines touched, work done, words of the owners'
//! protocol) is where a CPU is charged, and where another may go on. Same machine, same seed, same
//! programs: the same run, on any host, on any day.
//!
//! | module     | job                                                                   |
//! |------------|-----------------------------------------------------------------------|
//! | `engine`   | CPUs, clocks, schedules, locks, interrupts, words                      |
//! | `process`  | address spaces, page tables, translation caches, frame contents         |
//! | `scenario` | small programs to hunt bugs with, and the bugs to put in                 |

pub mod engine;
pub mod process;
pub mod scenario;
