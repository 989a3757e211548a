//! `boot`: every CPU allocates, verifies and frees some frames.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::{MigrateType, Order, Request};

use super::{Options, verdict::Before};
use crate::{
    cpu::{self, Cpu},
    frames, memory,
    report::{Check, Report},
};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
const BLOCKS: usize = 256;

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&[]);
    let before = Before::now();
    let bad = AtomicU64::new(0);
    cpu::run_on_all(&|cpu| {
        bad.fetch_add(allocate(cpu), Ordering::Relaxed);
    });
    let bad = bad.into_inner();
    let contents = Check {
        name: "contents",
        passed: bad == 0,
        detail: format_args!("{bad} frames had wrong contents"),
    };
    before.conclude("boot", report, &[contents])
}

/// The work of one CPU. Returns the number of frames with wrong contents.
fn allocate(cpu: &Cpu) -> u64 {
    let pages = [(); BLOCKS].map(|()| memory::alloc(PAGE));
    let mine = u64::from(cpu.id.get()) << 32;
    let mut bad = 0;
    for &page in pages.iter().flatten() {
        bad += u64::from(frames::words(page).any(|word| word != 0));
        frames::write(page, 0, mine | page.get());
    }
    for &page in pages.iter().flatten() {
        bad += u64::from(frames::read(page, 0) != mine | page.get());
        // SAFETY: a block of order 0 of this CPU, not used any more.
        unsafe { memory::free(page, Order::ZERO) };
    }
    bad
}
