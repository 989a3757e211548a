//! `mmap-read`: a mapped file that is larger than memory is read twice, as in vm-scalability's
//! lru-file-mmap-read.
//!
//! CPUs share the file. Each reads its own pages of it, through an address space of its own
//! (`readers=processes`) or one that all have loaded (`readers=threads`). It stores to every N-th
//! page (`store-every=N`, 0: none). The second time it verifies the stored words; by then the pages
//! were unmapped, flushed, written to the disk and read again. Reclaim selects pages by the
//! accessed bits that the CPU sets in page tables.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::observe::TlbStats;
use framewright_workloads::{Read, Reads, Sharing};

use super::{Options, verdict::Before};
use crate::{
    clock::Clock,
    cpu::{self, MAX_CPUS, Rendezvous},
    exit::refuse,
    file::{self, File},
    memory::memory,
    paging::{self, AddressSpace, Area, Space},
    report::{Better, Check, Fixed, Report, Unit},
    serial::println,
};

const PASSES: u64 = 2;

/// The initial contents of a page on the disk.
fn content(page: u64) -> u64 {
    page << 8 | 0x11
}

fn stored(page: u64) -> u64 {
    page << 8 | 0x22
}

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["readers", "store-every", "pages"]);
    let cpus = cpu::online() as u64;
    let pages = options.number("pages", memory().managed() * 3 / 2) / cpus * cpus;
    let threads = options.choice("readers", ["processes", "threads"]) == "threads";
    let store_every = options.number("store-every", 64);
    let before = Before::now();
    let (Some((cache_words, cache)), Some((disk_words, disk))) =
        (file::words(pages), file::words(pages))
    else {
        refuse(format_args!(
            "there is not enough memory for the page cache and disk tables of a file of {pages} pages"
        ))
    };
    let spaces = spaces(threads, pages);
    let of = |cpu: usize| spaces[if threads { 0 } else { cpu }].as_ref().map(Space::get);
    let mut file = File::new(cache, disk, content);
    file.map_in(spaces.iter().flatten().map(Space::get));
    // SAFETY: the file is not moved, and is closed below.
    unsafe { file.open() };

    let (wrong, together) = (AtomicU64::new(0), Rendezvous::new());
    let [reclaimed, written] =
        [&file::RECLAIMED, &file::WRITTEN].map(|of| of.load(Ordering::Relaxed));
    let tlb = memory().tlb().stats();
    let start = Clock::now();
    cpu::run_on_all(&|cpu| {
        // All CPUs read parts of one file, in one address space or in several.
        let reads = Reads::new(Sharing::Shared.part(cpu.id.index(), pages / cpus), PASSES);
        let total = reads.total();
        let space = of(cpu.id.index()).expect("there is one for every CPU");
        let stores = |page: u64| store_every > 0 && page.is_multiple_of(store_every);
        space.load();
        together.meet();
        let mut bad = 0;
        for Read { pass, page, progress } in reads {
            if cpu.id.index() == 0
                && let Some(done) = progress
            {
                println!("progress {done} {total}");
            }
            let address = paging::address_of(page) as *mut u64;
            // SAFETY: the page is in an area of the loaded address space: the access maps it.
            let found = unsafe { address.read_volatile() };
            let wanted = if pass > 0 && stores(page) { stored(page) } else { content(page) };
            bad += u64::from(found != wanted);
            if pass == 0 && stores(page) {
                // SAFETY: as above.
                unsafe { address.write_volatile(stored(page)) };
            }
        }
        wrong.fetch_add(bad, Ordering::Relaxed);
        together.meet();
        AddressSpace::unload();
    });
    let nanos = Clock::now() - start;
    let flushed = memory().tlb().stats();
    let reclaimed = file::RECLAIMED.load(Ordering::Relaxed) - reclaimed;
    let written = file::WRITTEN.load(Ordering::Relaxed) - written;
    let lists_hold = memory().lru().is_some_and(|lru| lru.check().is_ok());
    file.close();
    spaces.into_iter().flatten().for_each(Space::end);
    cache_words.give_back();
    disk_words.give_back();

    let all = PASSES * pages;
    if !options.counts_instructions() {
        let speed = Fixed::ratio(all * 1_000_000_000, nanos);
        report.add("pages_per_s", speed, Unit::PerSecond, Better::Higher);
    }
    report_flushes(&tlb, &flushed, reclaimed, report);
    let mut count =
        |name, value| report.add(name, Fixed::whole(value), Unit::Count, Better::Neither);
    count("pages", all);
    count("reclaimed", reclaimed);
    count("written", written);
    let wrong = wrong.into_inner();
    let checks = [
        Check {
            name: "contents",
            passed: wrong == 0,
            detail: format_args!("{wrong} of {all} reads did not find the stored word"),
        },
        Check {
            name: "reclaim",
            passed: reclaimed > 0 && (store_every == 0 || written > 0) && lists_hold,
            detail: format_args!(
                "{reclaimed} pages were reclaimed, {written} written; the lists are consistent: {lists_hold}"
            ),
        },
    ];
    before.conclude("mmap-read", report, &checks)
}

fn spaces(threads: bool, pages: u64) -> [Option<Space>; MAX_CPUS] {
    let mut spaces = [const { None }; MAX_CPUS];
    for slot in &mut spaces[..if threads { 1 } else { cpu::online() }] {
        *slot = AddressSpace::create(&[Area::file(pages)]);
        if slot.is_none() {
            refuse(format_args!("there is not enough memory for address spaces"));
        }
    }
    spaces
}

fn report_flushes(before: &TlbStats, after: &TlbStats, reclaimed: u64, report: &mut Report) {
    let interrupts = after.interrupts - before.interrupts;
    let each = Fixed::ratio(interrupts, reclaimed);
    report.add("interrupts_per_reclaimed_page", each, Unit::Ratio, Better::Lower);
    let mut count =
        |name, value| report.add(name, Fixed::whole(value), Unit::Count, Better::Neither);
    count("interrupts", interrupts);
    count("nr_tlb_remote_flush", after.nr_tlb_remote_flush - before.nr_tlb_remote_flush);
    count("deferred", after.deferred - before.deferred);
}
