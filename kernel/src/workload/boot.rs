//! `boot`: every CPU allocates, verifies and frees some frames.

use core::sync::atomic::{AtomicU64, Ordering};

use framewright::{MigrateType, Order, Request};

use super::{Options, verdict::Before};
use crate::{
    cpu::{self, Cpu},
    frames,
    memory::with_token,
    report::{Check, Report},
};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable).zeroed();
const BLOCKS: usize = 256;

/// Runs it; whether it passed.
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
        detail: format_args!("{bad} frames had other contents than they should"),
    };
    before.conclude("boot", report, &[contents])
}

/// What one CPU does; how many frames had other contents than they should.
fn allocate(cpu: &Cpu) -> u64 {
    let mut blocks = [const { None }; BLOCKS];
    with_token(|token| token.alloc_bulk(PAGE, &mut blocks));
    let mine = u64::from(cpu.id.get()) << 32;
    let mut bad = 0;
    for block in blocks.iter().flatten() {
        bad += u64::from(frames::words(block.pfn()).any(|word| word != 0));
        frames::write(block.pfn(), 0, mine | block.pfn().get());
    }
    for block in blocks.iter().flatten() {
        bad += u64::from(frames::read(block.pfn(), 0) != mine | block.pfn().get());
    }
    with_token(|token| token.free_bulk(&mut blocks));
    bad
}
