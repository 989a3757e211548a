//! `alloc-micro`: instructions of a pair of allocation and free, on the first CPU, the others halted.
//!
//! *Hot*: a frame is allocated and freed at once, which the CPU's list serves. *Amortised*: as many as
//! a burst of `page-fault` takes are allocated, then freed in the order in which they came, so that
//! refills, spills and the zone have their share. The loop around it is counted too.

#![allow(unsafe_code)]

use framewright::{MigrateType, Order, Pfn, Request};

use super::{Options, verdict::Before};
use crate::{
    cpu::control,
    exit::refuse,
    frames,
    memory::{Token, with_token},
    report::{Better, Fixed, Report, Unit},
};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);
const PAIRS: u64 = 4096;
const ROUNDS: u64 = 4;

/// Runs it; whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    if !options.counts_instructions() {
        refuse(format_args!("alloc-micro counts instructions, which takes -icount and icount"))
    }
    let before = Before::now();
    let burst = options.number("pages", 32_768);
    let (hot, amortised) = with_token(|token| (hot(token), amortised(token, burst)));
    let mut add = |name, instructions, pairs| {
        let each = Fixed::ratio(instructions, pairs);
        report.add(name, each, Unit::Ratio, Better::Lower);
    };
    add("instructions_alloc_free_hot", hot, PAIRS);
    add("instructions_alloc_free_amortised", amortised, ROUNDS * burst);
    before.conclude("alloc-micro", report, &[])
}

/// Instructions since `start`; nothing else runs meanwhile but, now and then, the timer.
fn since(start: u64) -> u64 {
    control::timestamp() - start
}

fn hot(token: &mut Token) -> u64 {
    let pairs = |token: &mut Token| {
        let start = control::timestamp();
        for _ in 0..PAIRS {
            let freed = token.alloc(PAGE).map(|block| token.free(block).is_ok());
            assert!(freed == Ok(true));
        }
        since(start)
    };
    pairs(token);
    pairs(token)
}

/// Bursts; where the frames of one are kept is memory of the library's, too.
fn amortised(token: &mut Token, burst: u64) -> u64 {
    let bytes = burst * size_of::<u64>() as u64;
    let order = bytes.div_ceil(frames::BYTES).next_power_of_two().trailing_zeros() as u8;
    let order = Order::new(order).expect("a burst is not that large");
    let Ok(kept) = token.alloc(Request::new(order, MigrateType::Unmovable)) else {
        refuse(format_args!("there is not enough memory for bursts of {burst} frames"))
    };
    // SAFETY: the block is ours, mapped, and large enough; all bytes of it are numbers.
    let slots = unsafe {
        let start = frames::address(kept.pfn()) as *mut u64;
        core::slice::from_raw_parts_mut(start, burst as usize)
    };
    // The first rounds find the lists as they are at boot, and let them grow to the burst.
    up_and_down(token, slots);
    up_and_down(token, slots);
    let start = control::timestamp();
    for _ in 0..ROUNDS {
        up_and_down(token, slots);
    }
    let took = since(start);
    assert!(token.free(kept).is_ok());
    took
}

fn up_and_down(token: &mut Token, slots: &mut [u64]) {
    for slot in &mut *slots {
        let Ok(block) = token.alloc(PAGE) else { refuse(format_args!("memory ran short")) };
        *slot = block.into_raw().0.get();
    }
    for &mut pfn in slots {
        // SAFETY: allocated above as a block of order 0, and not freed since.
        let block = unsafe { token.adopt_unchecked(Pfn::new(pfn), Order::ZERO) };
        assert!(token.free(block).is_ok());
    }
}
