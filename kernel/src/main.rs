//! A small kernel that manages all memory of a machine with Framewright, and runs workloads on it.
//!
//! # Theory of operation
//!
//! The first CPU starts in `boot.s`, copies the loader's data, starts the other CPUs, and adds all
//! remaining memory to the library. Then all CPUs run the workload that the command line names. The
//! kernel prints the result and ends the machine.
//!
//! The parts of a kernel around a memory manager are here in their simplest form, as an example of
//! the library's requirements: [`platform`] (locks, barriers on other CPUs, frames), [`shootdown`]
//! (TLB flushes), [`reclaim`] (relief when memory runs short).
//!
//! | module | job | unsafe |
//! |---|---|---|
//! | `boot` | entry, the loader's start info, memory that is used before the library has it | reading the loader's data |
//! | `acpi` | firmware tables: CPUs, nodes | reading them |
//! | `cpu` | data of each CPU, starting CPUs, jobs for all of them | instructions, descriptor tables |
//! | `interrupts` | the table of vectors, and their handlers | the table |
//! | `apic` | interrupts to other CPUs, the timer | its registers |
//! | `clock`, `serial`, `exit` | time, the console, the end of a run | their ports |
//! | `wait` | waiting without endless spinning | |
//! | `frames` | contents of frames | reading and writing them |
//! | `platform` | the library's `Platform` | its promises |
//! | `memory` | the memory, tokens of CPUs | exclusive use of tokens |
//! | `own` | frames of the kernel itself | raw frees |
//! | `paging`, `rmap` | page tables, address spaces, page faults | tables, raw frees |
//! | `shootdown` | the library's `Shootdown` | |
//! | `file` | pages of files, a RAM disk, the library's `PageOwner` | raw frees, words in frames |
//! | `mover`, `compaction` | the library's `Mover`, the compactor of each CPU | frees of frames, exclusive use of compactors |
//! | `reclaim`, `kthread` | the library's `Relief`, kswapd and kcompactd | switching stacks |
//! | `workload`, `report` | workloads, and their results | |

#![no_std]
#![no_main]
// The code that migrates pages is compiled even without the feature that uses it.
#![cfg_attr(not(feature = "compaction"), allow(dead_code, unused_imports))]

mod acpi;
mod apic;
mod boot;
mod clock;
#[cfg_attr(not(feature = "compaction"), path = "no_compaction.rs")]
mod compaction;
mod cpu;
mod exit;
mod file;
mod frames;
mod interrupts;
mod kthread;
mod memory;
#[cfg(feature = "compaction")]
mod mover;
mod own;
mod paging;
mod platform;
mod reclaim;
mod report;
mod rmap;
mod serial;
mod shootdown;
mod wait;
mod workload;

use framewright::{NodeId, Tuning};

use boot::{CommandLine, Region, StartInfo, early::EarlyMemory, pair};
use clock::Clock;
use exit::{Outcome, exit, refuse};
use serial::println;

unsafe extern "C" {
    static image_start: u8;
    static image_end: u8;
}

/// Memory that is not used: it holds the trampoline and data of the firmware.
const FIRST_MIB: Region = Region { start: 0, end: 1 << 20 };
/// Memory that `boot.s` has mapped.
const MAPPED: u64 = 4 << 30;

/// The entry of the first CPU into Rust, called by `boot.s` with the address of the loader's start info and
/// the magic word of Multiboot2 loaders.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn first_cpu(start_info: u64, loader: u32) -> ! {
    serial::init();
    Clock::start();
    apic::silence_pic();
    // SAFETY: `boot.s` got the address from the loader, and only the image was written to since.
    let Some(start) = (unsafe { StartInfo::read(loader, start_info) }) else {
        refuse(format_args!("the loader left no start info of PVH or Multiboot2"))
    };
    let image = Region { start: &raw const image_start as u64, end: &raw const image_end as u64 };
    let mut map = start.memory.clone();
    [FIRST_MIB, image].into_iter().for_each(|gone| map.remove(gone));
    paging::map_high_memory(&map);
    let Some(region) = map.largest_below(MAPPED) else {
        refuse(format_args!("there is no memory"))
    };
    // SAFETY: free by the loader's map, outside of the image, and mapped.
    let mut early = unsafe { EarlyMemory::new(region) };
    // SAFETY: the loader gave the address of the RSDP, and the map does not include the firmware's
    // tables.
    let tables = unsafe { acpi::Tables::at(start.rsdp) };
    let nodes = acpi::Topology::new(tables);
    start_cpus(&mut early, tables, &nodes);
    kthread::prepare(&mut early, nodes.count());
    compaction::prepare(&mut early);

    let plan = memory::Plan { map, nodes: &nodes, tuning: tuning(&start.command_line) };
    match memory::hand_over(&plan, early) {
        Ok(memory) => run(memory, &start.command_line),
        Err(error) => refuse(format_args!("the memory cannot be managed: {error}")),
    }
}

fn start_cpus(early: &mut EarlyMemory, tables: acpi::Tables, nodes: &acpi::Topology) {
    apic::enable();
    apic::measure_timer();
    let me = apic::own_number();
    cpu::start_first(early, nodes.of_cpu(me));
    let list = acpi::cpus(tables);
    let mut others = [(0, NodeId::default()); cpu::MAX_CPUS];
    let mut count = 0;
    for &apic in list.apics().iter().filter(|&&apic| apic != me) {
        others[count] = (apic, nodes.of_cpu(apic));
        count += 1;
    }
    let started = cpu::start_others(early, &others[..count]);
    if started < count {
        // Figures that were measured with fewer CPUs must not be reported for this machine.
        refuse(format_args!("{} of {} CPUs did not start", count - started, count + 1))
    }
}

/// The settings in the command line: `set=KEY=VALUE`.
fn tuning(command_line: &CommandLine) -> Tuning {
    let mut tuning = Tuning::default();
    for setting in command_line.values("set") {
        let Some((key, value)) = pair(setting) else {
            refuse(format_args!("set={setting}: a setting is set=KEY=VALUE"))
        };
        if let Err(error) = tuning.set(key, value) {
            refuse(format_args!("{error}"));
        }
    }
    tuning
}

fn run(memory: &'static memory::Memory, command_line: &CommandLine) -> ! {
    cpu::run_on_all(&|_| memory::claim_token());
    let boot_time = Clock::now();
    println!(
        "booted: {} CPUs, {} MiB managed, metadata of {} KiB",
        cpu::online(),
        memory.managed() >> 8,
        memory.layout().bytes() >> 10,
    );
    let outcome = workload::run(command_line, boot_time);
    exit(if outcome { Outcome::Passed } else { Outcome::Failed })
}
