//! `alloc-micro`: instructions of a pair of allocation and free, on the first CPU; the others are
//! halted.
//!
//! *Hot*: a frame is allocated and freed at once, from the CPU's list. *Amortised*: as many frames
//! as in a burst of `page-fault` are allocated, then freed in the same order. This includes
//! refills, drains and the work of the zone.
//!
//! The same run also measures the empty loop: the counter, and for bursts one write and one read of
//! a word per frame. Figures exclude the loop, except those called `.._with_loop`.

#![allow(unsafe_code)]

use core::arch::asm;

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
pub(super) const PAIRS: u64 = 4096;
const ROUNDS: u64 = 4;

/// Instructions of some pairs, and of the loop around them.
struct Counted {
    pairs: u64,
    with_loop: u64,
    empty_loop: u64,
}

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["pages"]);
    if !options.counts_instructions() {
        refuse(format_args!(
            "alloc-micro counts instructions: it needs QEMU's -icount, and the word icount"
        ))
    }
    let before = Before::now();
    let burst = options.number("pages", 32_768);
    let (hot, amortised) = with_token(|token| (hot(token), amortised(token, burst)));
    let mut add = |[pair, with_loop]: [&'static str; 2], counted: &Counted| {
        let own = counted.with_loop.saturating_sub(counted.empty_loop);
        report.add(pair, Fixed::ratio(own, counted.pairs), Unit::Ratio, Better::Lower);
        let all = Fixed::ratio(counted.with_loop, counted.pairs);
        report.add(with_loop, all, Unit::Ratio, Better::Lower);
    };
    add(["instructions_alloc_free_hot", "instructions_alloc_free_hot_with_loop"], &hot);
    add(
        ["instructions_alloc_free_amortised", "instructions_alloc_free_amortised_with_loop"],
        &amortised,
    );
    before.conclude("alloc-micro", report, &[])
}

/// The number of instructions of `work`; only the timer may interrupt it.
fn count(work: impl FnOnce()) -> u64 {
    let start = control::timestamp();
    work();
    control::timestamp() - start
}

/// Instructions of repeated pairs. The loop itself has two instructions, with any body.
#[inline(always)]
pub(super) fn repeated(mut pair: impl FnMut()) -> u64 {
    count(|| {
        let mut left = PAIRS;
        loop {
            pair();
            left -= 1;
            if left == 0 {
                break;
            }
        }
    })
}

fn hot(token: &mut Token) -> Counted {
    let pairs = |token: &mut Token| {
        repeated(|| {
            let freed = token.alloc(PAGE).map(|block| token.free(block).is_ok());
            assert!(freed == Ok(true));
        })
    };
    pairs(token);
    let empty_loop = repeated(|| {
        any_number();
    });
    Counted { pairs: PAIRS, with_loop: pairs(token), empty_loop }
}

/// Counts bursts. The table of the frames of a burst is allocated from the library, too.
fn amortised(token: &mut Token, burst: u64) -> Counted {
    let kept_in = burst.div_ceil(frames::WORDS as u64).checked_next_power_of_two();
    let order = kept_in.and_then(|frames| Order::new(frames.trailing_zeros() as u8));
    let block =
        order.and_then(|order| token.alloc(Request::new(order, MigrateType::Unmovable)).ok());
    let Some(kept) = block else {
        refuse(format_args!("there is not enough memory for bursts of {burst} frames"))
    };
    // SAFETY: this function owns the block, which is mapped and large enough; all bytes are valid
    // as `u64`.
    let slots = unsafe {
        let start = frames::address(kept.pfn()) as *mut u64;
        core::slice::from_raw_parts_mut(start, burst as usize)
    };
    let bursts = |token: &mut Token, slots: &mut [u64], rounds: u64| {
        for _ in 0..rounds {
            up_and_down(token, slots, allocate, free);
        }
    };
    // In the first rounds the lists grow to the size of the burst.
    bursts(token, slots, 2);
    let with_loop = count(|| bursts(token, slots, ROUNDS));
    let empty_loop = count(|| {
        for _ in 0..ROUNDS {
            up_and_down(token, slots, |_| any_number(), |_, pfn| use_up(pfn));
        }
    });
    assert!(token.free(kept).is_ok());
    Counted { pairs: ROUNDS * burst, with_loop, empty_loop }
}

/// Allocates a frame for each slot, then frees them in the same order.
#[inline(always)]
fn up_and_down(
    token: &mut Token,
    slots: &mut [u64],
    take: impl Fn(&mut Token) -> u64,
    give: impl Fn(&mut Token, u64),
) {
    for slot in &mut *slots {
        *slot = take(token);
    }
    for &mut pfn in slots {
        give(token, pfn);
    }
}

#[inline(always)]
fn allocate(token: &mut Token) -> u64 {
    let Ok(block) = token.alloc(PAGE) else { refuse(format_args!("there is not enough memory")) };
    block.into_raw().0.get()
}

#[inline(always)]
fn free(token: &mut Token, pfn: u64) {
    // SAFETY: allocated by `allocate` as a block of order 0, and not freed since.
    let block = unsafe { token.adopt_unchecked(Pfn::new(pfn), Order::ZERO) };
    assert!(token.free(block).is_ok());
}

/// A number that the compiler cannot know, without an instruction: the contents of a register.
#[inline(always)]
fn any_number() -> u64 {
    let number;
    // SAFETY: no instruction is executed, and every content of a register is a number.
    unsafe { asm!("/* {} */", out(reg) number, options(nomem, nostack, preserves_flags)) };
    number
}

/// Makes the compiler compute a number, without an instruction.
#[inline(always)]
pub(super) fn use_up(number: u64) {
    // SAFETY: no instruction is executed.
    unsafe { asm!("/* {} */", in(reg) number, options(nomem, nostack, preserves_flags)) };
}
