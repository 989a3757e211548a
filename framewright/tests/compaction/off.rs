//! Given ranges are emptied although compaction is off (`compact.method=off`).

use framewright::{
    Contiguous, MigrateType, NodeId, Order, Request, ZoneKind,
    observe::CompactStats,
    platform::{CompactPriority, Compacted},
};

use crate::{with_compactor, with_owner};

const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

#[test]
fn with_compaction_off_given_ranges_are_still_emptied() {
    with_owner(&[("compact.method", "off")], 1, |owner| {
        while owner.alloc(0, MigrateType::Movable, false).is_some() {}
        let pages: Vec<u64> = owner.pages.borrow().keys().copied().collect();
        pages.into_iter().filter(|at| at % 2 == 0).for_each(|at| owner.free(at));
        owner.memory.drain_all();
        for priority in [CompactPriority::Async, CompactPriority::SyncLight, CompactPriority::Sync]
        {
            let (result, block) = with_compactor(owner, 512, |c| c.form(HUGE, priority));
            assert!(result == Compacted::Unavailable && block.is_none());
        }
        let node = NodeId::new(0).unwrap();
        with_compactor(owner, 512, |compactor| {
            assert!(!compactor.background(node, Order::PAGEBLOCK, ZoneKind::Normal));
            assert_eq!(compactor.proactive(node), None);
            assert_eq!(compactor.compact_node(node), 0);
        });
        assert_eq!(owner.memory.compact_stats(), CompactStats::default());
        let wanted = Contiguous::new(512, MigrateType::Movable);
        let extent = with_compactor(owner, 512, |c| c.alloc_contiguous(&wanted));
        owner.memory.free_extent(extent.expect("half of all is free")).unwrap();
        owner.check();
    });
}
