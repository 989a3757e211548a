//! With `compact.method=index`, compaction searches for target frames before it claims pages.

use framewright::{
    MigrateType, NodeId, Order,
    platform::{CompactPriority, Compacted},
};

use framewright_fakes::FakeMover;

use crate::{
    PAGEBLOCKS,
    rules::{HUGE, fill, pin_first, thin_out},
    with_compactor, with_owner, with_owner_sized,
};

/// Free frames on the list of a CPU may be targets, so lists are drained before pages are claimed.
#[test]
fn by_index_lists_are_drained_before_pages_are_claimed_in_vain() {
    for (drained, scanned) in [(1, 0), (200, 200)] {
        with_owner(&[], 1, |owner| {
            fill(owner);
            make_unmovable(owner, 3);
            thin_out(owner, 20, 200);
            owner.memory.drain_all();
            thin_out(owner, 9, 512 - drained);
            assert!(owner.memory.held_by_cpus() > 0, "the lists of CPUs hold no frames");
            let (result, block) =
                with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
            assert_eq!(result == Compacted::Success, scanned > 0, "{result:?}");
            assert_eq!(owner.scanned.get(), scanned, "{drained} more free frames for 200 pages");
            owner.check_but(Order::PAGEBLOCK, block.as_ref());
            if let Some(block) = block {
                owner.memory.free_bypassing_lists(block).unwrap();
            }
        });
    }
}

/// If pages of the emptiest pageblock have no targets, compaction does not search for fuller
/// pageblocks.
#[test]
fn by_index_a_lack_of_targets_for_the_emptiest_pageblock_ends_the_search() {
    with_owner(&[], 1, |owner| {
        fill(owner);
        make_unmovable(owner, 3);
        (0..PAGEBLOCKS).for_each(|pageblock| thin_out(owner, pageblock, 511));
        thin_out(owner, 20, 40);
        owner.memory.drain_all();
        let before = owner.memory.compact_stats().compact_headers_scanned;
        let (result, _) = with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
        assert_eq!(result, Compacted::Complete);
        let headers = owner.memory.compact_stats().compact_headers_scanned - before;
        assert!(
            headers < 3 * PAGEBLOCKS,
            "{headers} headers: more than one search and one look for targets"
        );
        owner.check();
    });
}

/// A pageblock that is nearly free, but is not a target for movable pages.
fn make_unmovable(owner: &FakeMover<'_, '_>, pageblock: u64) {
    thin_out(owner, pageblock, 0);
    owner.memory.drain_all();
    assert!(owner.alloc(0, MigrateType::Unmovable, true).is_some());
}

/// If pages of a fuller pageblock have no targets, compaction still finds untried emptier
/// pageblocks.
#[test]
fn by_index_a_lack_of_targets_for_a_fuller_pageblock_does_not_exclude_emptier_ones() {
    const PINNED: u64 = 16;
    const MOVABLE: u64 = 48;
    let set = [("compact.proactiveness", "100")];
    with_owner_sized(PINNED + MOVABLE + 16, &set, 1, |owner| {
        fill(owner);
        for pageblock in 0..PINNED + MOVABLE {
            thin_out(owner, pageblock, if pageblock < PINNED { 50 } else { 60 });
        }
        (PINNED + MOVABLE..PINNED + MOVABLE + 16).for_each(|at| thin_out(owner, at, 500));
        owner.memory.drain_all();
        (0..PINNED).for_each(|pageblock| pin_first(owner, pageblock));
        // Proactive compaction makes one round. An exhaustive run would start over.
        with_compactor(owner, 512, |c| c.proactive(NodeId::default()));
        let emptied = owner.memory.compact_stats().compact_pageblocks_emptied;
        assert!(emptied > MOVABLE / 2, "{emptied} of {MOVABLE}");
        owner.check();
    });
}
