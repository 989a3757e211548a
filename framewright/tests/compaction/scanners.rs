//! Pages that the scanners do not move.

use framewright::platform::CompactPriority;

use framewright_fakes::FakeMover;

use crate::{
    BASE, PAGEBLOCKS,
    rules::{HUGE, fill, thin_out},
    with_compactor, with_owner,
};

const BY_SCANNERS: [(&str, &str); 1] = [("compact.method", "scan")];

/// Whether an asynchronous request forms a huge page. Frees the page.
fn forms(owner: &FakeMover<'_, '_>) -> bool {
    let (_, block) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::Async));
    let formed = block.is_some();
    block.into_iter().for_each(|block| owner.memory.free_bypassing_lists(block).unwrap());
    formed
}

/// Claims the first page of each pageblock, or ends these claims.
fn hold_first_pages(owner: &FakeMover<'_, '_>, hold: bool) {
    let mut pages = owner.pages.borrow_mut();
    for pageblock in 0..PAGEBLOCKS {
        let start = BASE + pageblock * 512;
        let (_, first) = pages.range_mut(start..start + 512).next().expect("a page");
        first.claimed = hold;
    }
}

/// A part of memory that has the size of the requested block cannot become free if one of its pages
/// cannot be claimed. An asynchronous request then leaves this part.
#[test]
fn async_scanning_abandons_a_part_at_its_first_unclaimable_page() {
    with_owner(&BY_SCANNERS, 1, |owner| {
        fill(owner);
        [27, 28, 29, 30].into_iter().for_each(|pageblock| thin_out(owner, pageblock, 200));
        owner.memory.drain_all();
        hold_first_pages(owner, true);
        assert!(!forms(owner));
        assert_eq!(owner.memory.compact_stats().pgmigrate_success, 0);
        hold_first_pages(owner, false);
        owner.check();
    });
}
