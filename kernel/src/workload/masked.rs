//! `masked`: all operations of the library under a zone lock, in random order on the first CPU, to find the
//! longest section with interrupts masked (feature `masked`).
//!
//! First, ranges, contiguous runs and large blocks are allocated and freed in empty memory. Then three
//! quarters of memory are filled with blocks of orders 0 to 9, and the same operations continue while lists
//! are drained, pageblocks are isolated, and free blocks are counted.

#![allow(unsafe_code)]

use framewright::{Contiguous, FrameRange, MigrateType, Order, Pfn, Request};

use super::{Options, verdict::Before};
use crate::{
    exit::refuse,
    frames,
    memory::{Token, memory, with_token},
    report::Report,
};

/// The order of the block for the table of blocks, which has 65,536 entries.
const TABLE: u8 = 7;
/// The longest range that is requested, in frames.
const LONGEST: u64 = 128 << 9;

/// Runs the workload. Returns whether it passed.
pub(crate) fn run(options: &Options<'_>, report: &mut Report) -> bool {
    options.takes(&["steps"]);
    if !options.counts_instructions() {
        refuse(format_args!(
            "masked counts instructions: it needs QEMU's -icount, and the word icount"
        ))
    }
    let before = Before::now();
    let steps = options.number("steps", 20_000);
    let order = Order::new(TABLE).unwrap_or_default();
    let table = with_token(|token| token.alloc(Request::new(order, MigrateType::Unmovable)));
    let Ok(table) = table else { refuse(format_args!("there is no memory for a table of blocks")) };
    // SAFETY: this function owns the block, which is mapped and has that size; any bytes are valid
    // as `u64`.
    let slots = unsafe {
        let start = frames::address(table.pfn()) as *mut u64;
        core::slice::from_raw_parts_mut(start, order.frames() as usize * frames::WORDS)
    };
    slots.fill(EMPTY);
    let mut mix = Mix { random: 1, slots };
    // While all memory is free, runs reach their maximum length even in little memory.
    (0..steps / 100).for_each(|_| mix.runs());
    mix.fill();
    (0..steps).for_each(|_| mix.step());
    mix.empty();
    assert!(with_token(|token| token.free(table)).is_ok());
    before.conclude("masked", report, &[])
}

/// A slot without a block; blocks are a frame number and an order.
const EMPTY: u64 = u64::MAX;

struct Mix<'s> {
    random: u64,
    slots: &'s mut [u64],
}

impl Mix<'_> {
    /// A number below `below`.
    fn below(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn a_type(&mut self) -> MigrateType {
        let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
        types[self.below(3) as usize]
    }

    /// Allocates small blocks first, then larger ones.
    fn fill(&mut self) {
        let all = memory().free();
        for at in 0..self.slots.len() {
            if memory().free() < all / 4 {
                break;
            }
            let most = if at < self.slots.len() / 2 { 4 } else { 10 };
            self.exchange(at, most);
        }
    }

    /// Frees the block of a slot, or allocates one of an order below `orders` for it.
    fn exchange(&mut self, at: usize, orders: u64) {
        let order = Order::new(self.below(orders) as u8).unwrap_or_default();
        let request = Request::new(order, self.a_type()).no_wait();
        let slot = &mut self.slots[at];
        with_token(|token| match *slot {
            EMPTY => {
                if let Ok(block) = token.alloc(request) {
                    let (pfn, order) = block.into_raw();
                    *slot = pfn.get() << 8 | u64::from(order.get());
                }
            }
            _ => give(token, core::mem::replace(slot, EMPTY)),
        });
    }

    fn runs(&mut self) {
        self.range();
        self.contiguous();
        self.large();
    }

    fn step(&mut self) {
        let at = self.below(self.slots.len() as u64) as usize;
        match self.below(256) {
            0 => memory().drain_all(),
            1 => self.isolate(),
            2 => self.range(),
            3 => self.contiguous(),
            4 => self.large(),
            5 => memory().zones().for_each(|zone| _ = memory().block_counts(zone.id)),
            _ => self.exchange(at, 10),
        }
    }

    /// Requests a block of order 9 or above, for which the library compacts.
    fn large(&mut self) {
        let order = Order::new(9 + self.below(10) as u8).unwrap_or_default();
        let request = Request::new(order, self.a_type()).no_retry();
        if let Ok(block) = with_token(|token| token.alloc(request)) {
            assert!(with_token(|token| token.free(block)).is_ok());
        }
    }

    /// A random frame number within the span of the zones.
    fn frame(&mut self) -> u64 {
        let zones = memory().zones();
        let (start, end) = zones.fold((u64::MAX, 0), |(start, end), zone| {
            (start.min(zone.start.get()), end.max(zone.start.get() + zone.spanned))
        });
        start + self.below(end.saturating_sub(start).max(1))
    }

    fn isolate(&mut self) {
        let pfn = Pfn::new(self.frame());
        if let Ok(isolated) = memory().isolate(pfn) {
            assert!(memory().undo_isolate(isolated).is_ok());
        }
    }

    fn range(&mut self) {
        let start = self.frame();
        let end = start + 1 + self.below(LONGEST);
        let Some(range) = FrameRange::new(Pfn::new(start), Pfn::new(end)) else { return };
        if let Ok(extent) = memory().alloc_range(range, self.a_type(), &mut |_| ()) {
            assert!(memory().free_extent(extent).is_ok());
        }
    }

    fn contiguous(&mut self) {
        let wanted = Contiguous::new(1 + self.below(LONGEST), self.a_type());
        if let Ok(extent) = memory().alloc_contiguous(&wanted) {
            assert!(memory().free_extent(extent).is_ok());
        }
    }

    fn empty(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| **slot != EMPTY) {
            with_token(|token| give(token, core::mem::replace(slot, EMPTY)));
        }
    }
}

fn give(token: &mut Token, block: u64) {
    let order = Order::new(block as u8).unwrap_or_default();
    // SAFETY: allocated as a block of this order, and not freed since.
    let block = unsafe { token.adopt_unchecked(Pfn::new(block >> 8), order) };
    assert!(token.free(block).is_ok());
}
