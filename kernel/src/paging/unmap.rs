//! Unmapping: many entries, one flush, then the frames.

#![allow(unsafe_code)]

use framewright::{Order, Pfn, reclaim::FreedBy, tlb::Scope};

use super::{AddressSpace, Slot};
use crate::{
    memory::{memory, with_token},
    shootdown,
};

/// The greatest number of frames per flush: the capacity of one page of Linux's gather list (4.16).
const GATHER: usize = 506;

/// Unmaps pages of a program's own data, and frees their frames after the flush.
pub(crate) fn unmap(space: &AddressSpace, first: u64, pages: u64) {
    let mut frames = [Pfn::default(); GATHER];
    let end = first + pages;
    let mut page = first;
    while page < end {
        let start = page;
        let mut count = 0;
        while page < end && count < GATHER {
            let most = (GATHER - count).min((end - page) as usize);
            let slots = space.find_many(page);
            let slots = &slots[..slots.len().min(most)];
            if slots.is_empty() {
                // There is no table, so none of its pages is mapped.
                page = (page + 1).next_multiple_of(512);
            }
            page += slots.len() as u64;
            for entry in
                slots.iter().map(Slot::take_after_migration).filter(|entry| entry.is_present())
            {
                frames[count] = entry.pfn();
                count += 1;
            }
        }
        flush_and_free(space, start, page.min(end) - start, &frames[..count]);
    }
}

fn flush_and_free(space: &AddressSpace, first: u64, pages: u64, frames: &[Pfn]) {
    let cpus = space.advance();
    let flusher = shootdown::flusher();
    let most = flusher.tlb().tuning().single_page_flush_ceiling;
    if !frames.is_empty() {
        flusher.flush(&cpus, Scope::pages(space.number().into(), first, pages, most));
    }
    // Pages that reclaim unmapped meanwhile have no entries any more, but TLBs may have cached
    // their translations.
    flusher.flush_deferred(space.deferred_flush());
    let mut who = [FreedBy::Caller; GATHER];
    if let Some(lru) = memory().lru() {
        // SAFETY: no translation to the pages is left, so they have no users, and reclaim finds no
        // mapping of them.
        unsafe { lru.abandon_many(frames, &mut who) };
    }
    with_token(|token| {
        for (&pfn, _) in frames.iter().zip(&who).filter(|(_, who)| **who == FreedBy::Caller) {
            // SAFETY: a page of the program's own data is a block of order 0; no CPU can access it
            // any more, and no other code refers to it.
            let block = unsafe { token.adopt_unchecked(pfn, Order::ZERO) };
            let freed = token.free(block);
            debug_assert!(freed.is_ok());
        }
    });
}
