//! The init of the Linux guest, and its only program. The guest is compared with this project's
//! kernel. The program runs the same workloads by system calls, and prints the same kind of result,
//! a line of JSON on the console.
//!
//! # Theory of operation
//!
//! QEMU boots a distribution's kernel with this program as `/init`. The kernel command line has the
//! same workload options as that of this project's kernel. Tasks, one on each CPU, are threads or
//! processes. They wait for each other at barriers. All tasks read the clock, and the values of the
//! first are used. The clock counts instructions under `-icount`. At the end, a write to QEMU's exit
//! I/O port stops the machine.
//!
//! | module | job |
//! |---|---|
//! | `words` | the command line |
//! | `machine` | mounts, modules, counters of the kernel, the exit of the virtual machine |
//! | `team` | a task on each CPU |
//! | `page_fault`, `mmap_read` | the workloads |
//! | `report` | the result |

mod machine;
mod mmap_read;
mod page_fault;
mod report;
mod team;
mod words;

use words::Words;

/// The reason why there is no result.
type Failure = Box<dyn std::error::Error>;

fn main() {
    // The other tasks would wait forever for a failed one, so a failure ends the machine.
    std::panic::set_hook(Box::new(|info| {
        println!("error: {info}");
        machine::end(false)
    }));
    let done = machine::set_up().and_then(|()| run());
    match done {
        Ok(()) => machine::end(true),
        Err(failure) => {
            println!("error: {failure}");
            machine::end(false)
        }
    }
}

fn run() -> Result<(), Failure> {
    let words = Words::of_this_machine()?;
    let report = match words.value("workload") {
        Some("page-fault") => page_fault::run(&words)?,
        Some("mmap-read") => mmap_read::run(&words)?,
        other => {
            return Err(
                format!("workload={} is not page-fault or mmap-read", other.unwrap_or("")).into()
            );
        }
    };
    if words.has("symbols") {
        machine::write_symbols()?;
    }
    println!("{report}");
    Ok(())
}
