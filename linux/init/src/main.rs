//! The first and only program of a Linux that runs beside the kernel of this project: the same workloads,
//! by system calls, and the same result, as a line of JSON on the console.
//!
//! # Theory of operation
//!
//! QEMU boots a distribution's kernel with this as `/init`, and the words of a workload on the kernel's
//! command line, as our own kernel has them. Tasks, one on each CPU, are threads or processes; they meet at
//! barriers, and the first takes the time, which under `-icount` counts instructions. At the end the machine
//! is ended through a port of QEMU's, as our own kernel does.
//!
//! | module | job |
//! |---|---|
//! | `words` | the command line |
//! | `machine` | modules, file systems, counters of the kernel, the end |
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

/// Why there is no result.
type Failure = Box<dyn std::error::Error>;

fn main() {
    // Others wait for whoever fails, for ever: so that ends the machine at once.
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
        other => return Err(format!("there is no workload '{}'", other.unwrap_or("")).into()),
    };
    if words.has("symbols") {
        machine::tell_symbols()?;
    }
    println!("{report}");
    Ok(())
}
