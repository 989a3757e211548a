//! What the scanners leave alone.

use framewright::platform::CompactPriority;

use crate::{
    BASE, PAGEBLOCKS,
    house::House,
    in_house,
    rules::{HUGE, fill, thin_out},
    with_compactor,
};

const BY_SCANNERS: [(&str, &str); 1] = [("compact.method", "scan")];

/// Whether a huge page forms for who waits for nothing; it is given back.
fn forms(house: &House<'_, '_>) -> bool {
    let (_, block) = with_compactor(house, 512, |c| c.form(HUGE, CompactPriority::Async));
    let formed = block.is_some();
    block.into_iter().for_each(|block| house.memory.free_bypassing_lists(block).unwrap());
    formed
}

/// Nobody can claim the first page of each pageblock, or everybody again.
fn hold_first_pages(house: &House<'_, '_>, hold: bool) {
    let mut pages = house.pages.borrow_mut();
    for pageblock in 0..PAGEBLOCKS {
        let start = BASE + pageblock * 512;
        let (_, first) = pages.range_mut(start..start + 512).next().expect("a page");
        first.claimed = hold;
    }
}

/// Who waits for nothing wants a block, and none forms where a page stays.
#[test]
fn a_part_is_left_at_the_first_page_that_stays() {
    in_house(&BY_SCANNERS, 1, |house| {
        fill(house);
        [27, 28, 29, 30].into_iter().for_each(|pageblock| thin_out(house, pageblock, 200));
        house.memory.drain_all();
        hold_first_pages(house, true);
        assert!(!forms(house));
        assert_eq!(house.memory.compact_stats().pgmigrate_success, 0);
        hold_first_pages(house, false);
        house.check();
    });
}
