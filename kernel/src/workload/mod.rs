//! Workloads: the command line names one, and all CPUs run it.
//!
//! | workload | job |
//! |---|---|
//! | `boot` | every CPU allocates, verifies and frees some frames |
//! | `alloc-micro` | counts instructions of pairs of allocation and free |
//! | `page-fault` | every CPU touches pages, and unmaps them |
//! | `global` | one allocator in a static, also in interrupt handlers (feature `global`) |
//! | `high-alloc` | CPUs build while huge pages are requested |
//! | `kbuild` | every CPU runs compilers, one after the other |
//! | `masked` | all operations of the library that mask interrupts (feature `masked`) |
//! | `mmap-read` | every CPU reads a mapped file that is larger than memory, and stores to some of it |
//! | `tlb-proof` | stale translations are used before a flush, and never after it |

mod alloc_micro;
mod boot;
mod builder;
#[cfg(feature = "global")]
pub(crate) mod global;
mod high_alloc;
mod kbuild;
#[cfg(feature = "masked")]
mod masked;
mod mmap_read;
mod options;
mod page_fault;
mod pages;
mod sources;
mod tlb_proof;
mod verdict;

use crate::{
    boot::CommandLine,
    clock::MILLISECOND,
    compaction,
    exit::refuse,
    report::{Better, Fixed, Report, Unit},
};
use options::Options;

/// Runs the workload of the command line. Returns whether it passed.
pub(crate) fn run(command_line: &CommandLine, boot_nanos: u64) -> bool {
    let options = Options::new(command_line);
    let mut report = Report::new();
    if !options.counts_instructions() {
        let milliseconds = Fixed::ratio(boot_nanos, MILLISECOND);
        report.add("boot_ms", milliseconds, Unit::Milliseconds, Better::Lower);
    }
    match command_line.value("workload").unwrap_or("boot") {
        // Workloads with programs that start and exit are not built without compaction.
        name @ ("high-alloc" | "kbuild") if !compaction::BUILT_IN => {
            refuse(format_args!("this kernel was built without compaction, and without {name}"))
        }
        "boot" => boot::run(&options, &mut report),
        "alloc-micro" => alloc_micro::run(&options, &mut report),
        "page-fault" => page_fault::run(&options, &mut report),
        #[cfg(feature = "global")]
        "global" => global::run(&options, &mut report),
        "high-alloc" => high_alloc::run(&options, &mut report),
        "kbuild" => kbuild::run(&options, &mut report),
        #[cfg(feature = "masked")]
        "masked" => masked::run(&options, &mut report),
        "mmap-read" => mmap_read::run(&options, &mut report),
        "tlb-proof" => tlb_proof::run(&options, &mut report),
        other => refuse(format_args!("there is no workload '{other}'")),
    }
}
