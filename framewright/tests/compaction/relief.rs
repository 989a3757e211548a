//! Requests start compaction if they find no block.

use framewright::{
    CpuId, MigrateType, NodeId, Order, Pfn, Request, ZoneKind,
    compact::PageblockView,
    platform::{Captured, CompactPriority, Compacted, Need, Relief},
};

use framewright_fakes::{FakeMover, FakeRelief};

use crate::{
    leaked_owner, leaked_owner_with_relief,
    rules::{fill, thin_out},
    scatter, with_compactor,
};

/// Relief that calls a compactor.
struct CompactingRelief(&'static FakeMover<'static, 'static>);

// SAFETY: a test has one thread.
unsafe impl Sync for CompactingRelief {}

impl Relief for CompactingRelief {
    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        with_compactor(self.0, 512, |compactor| compactor.compact(need, priority, captured))
    }
}

/// Makes requests in the memory of this owner use its compaction.
pub(crate) fn install(owner: &'static FakeMover<'static, 'static>) {
    owner.memory.platform().set_relief(CompactingRelief(owner));
}

/// The pageblock of a frame.
fn pageblock_of(owner: &FakeMover<'_, '_>, frame: Pfn) -> PageblockView {
    let zone = owner.memory.zones().next().unwrap().id;
    let of_frame = |held: &PageblockView| held.first.get() == frame.get() & !511;
    owner.memory.pageblocks(zone).find(of_frame).unwrap()
}

const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

#[test]
fn a_request_for_a_huge_page_is_served_by_compaction() {
    for method in ["index", "scan"] {
        let owner = leaked_owner_with_relief(&[("compact.method", method)], 1);
        scatter(owner, 3);
        let mut blocks = Vec::new();
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        while let Ok(block) = token.alloc(HUGE.no_retry()) {
            blocks.push(block);
        }
        let used = owner.pages.borrow().len() as u64;
        let achievable = crate::PAGEBLOCKS - used.div_ceil(512);
        assert!(blocks.len() as u64 * 10 >= achievable * 8, "{method}: {}", blocks.len());
        let stats = owner.memory.stats();
        assert_eq!(stats.compact_stall, stats.compact_success + stats.compact_fail);
        assert!(stats.compact_success >= blocks.len() as u64 * 9 / 10, "{method}: {stats:?}");
        blocks.into_iter().for_each(|block| token.free(block).unwrap());
        drop(token);
        owner.memory.drain_all();
        owner.check();
    }
}

#[test]
fn background_compaction_forms_a_quarter_of_the_missed_huge_pages() {
    for method in ["index", "scan"] {
        let owner = leaked_owner(&[("compact.method", method), ("zone.huge_reserve", "5000")], 1);
        owner.memory.platform().set_relief(FakeRelief::new().in_background(|| true));
        scatter(owner, 3);
        owner.memory.drain_all();
        let zone = || owner.memory.zones().next().unwrap();
        let node = NodeId::default();
        assert!(
            !owner.memory.can_fill_huge_reserve(node),
            "the reserve can be filled although no request has missed a huge page"
        );
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        (0..5).for_each(|_| assert!(token.alloc(HUGE.no_retry()).is_err()));
        assert_eq!(zone().huge_reserve, 5 * 512);
        assert!(owner.memory.can_fill_huge_reserve(node));
        with_compactor(owner, 512, |c| c.background(node, Order::ZERO, ZoneKind::Movable));
        let blocks = owner.memory.block_counts(zone().id).by_order();
        assert_eq!(
            blocks[9] + 2 * blocks[10],
            2,
            "{method}: not a quarter of the reserve, rounded up"
        );
        assert!(!owner.memory.can_fill_huge_reserve(node));
        drop(token);
        owner.check();
    }
}

/// Background compaction itself counts the attempts during a deferral, so this test does not call
/// `can_fill_huge_reserve`.
#[test]
fn by_index_background_compaction_retries_after_a_deferral() {
    let owner = leaked_owner(&[("zone.huge_reserve", "5000")], 1);
    owner.memory.platform().set_relief(FakeRelief::new().in_background(|| true));
    let others: Vec<_> =
        (0..2048).filter_map(|_| owner.alloc(0, MigrateType::Unmovable, true)).collect();
    fill(owner);
    others.into_iter().step_by(2).for_each(|at| owner.free(at));
    owner.memory.drain_all();
    let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
    assert!(token.alloc(HUGE.no_retry()).is_err());
    drop(token);
    let (node, zone) = (NodeId::default(), owner.memory.zones().next().unwrap().id);
    let fill_huge_reserve = || {
        with_compactor(owner, 512, |c| c.background(node, Order::ZERO, ZoneKind::Movable));
        owner.memory.block_counts(zone).by_order()[9]
    };
    assert_eq!(
        (0..3).map(|_| fill_huge_reserve()).max(),
        Some(0),
        "a huge page formed although no page can move"
    );
    (20..24).for_each(|pageblock| thin_out(owner, pageblock, 100));
    owner.memory.drain_all();
    assert_eq!(
        (0..3).map(|_| fill_huge_reserve()).max(),
        Some(0),
        "the compaction was not deferred"
    );
    assert_eq!(fill_huge_reserve(), 1, "the deferral did not end");
    owner.check();
}

#[test]
fn requests_of_all_types_and_orders_are_served_without_mixing_types() {
    for method in ["index", "scan"] {
        for of in [MigrateType::Unmovable, MigrateType::Reclaimable, MigrateType::Movable] {
            for order in [0, 1, 3, 4, 9] {
                let set = [("compact.method", method), ("alloc.defrag_mode", "on")];
                let owner = leaked_owner_with_relief(&set, 2);
                scatter(owner, 4);
                // Only single frames are left.
                while owner.alloc(1, MigrateType::Movable, false).is_some() {}
                let odd = |at: &u64| *at % 2 == 1;
                let pages: Vec<_> = owner.pages.borrow().keys().copied().filter(odd).collect();
                pages.into_iter().for_each(|at| owner.free(at));
                owner.memory.drain_all();
                let request = Request::new(Order::new(order).unwrap(), of);
                let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
                let steals = owner.memory.stats().steals;
                let block = token.alloc(request.retry_may_fail());
                let block = block.unwrap_or_else(|error| panic!("{method} {of} {order}: {error}"));
                let stolen = owner.memory.stats().steals - steals;
                assert_eq!(stolen, 0, "{method} {of} {order}");
                let held = pageblock_of(owner, block.pfn());
                let foreign =
                    if of == MigrateType::Movable { held.unmovable } else { held.movable };
                assert_eq!(foreign, 0, "{method} {of} {order}: {held:?}");
                token.free(block).unwrap();
                drop(token);
                owner.memory.drain_all();
                owner.check();
            }
        }
    }
}

#[test]
fn partly_used_pageblocks_of_other_types_do_not_serve_unmixed_requests() {
    for method in ["index", "scan"] {
        let owner =
            leaked_owner_with_relief(&[("compact.method", method), ("alloc.defrag_mode", "on")], 2);
        let others: Vec<_> =
            (0..512).map(|_| owner.alloc(0, MigrateType::Unmovable, true).unwrap()).collect();
        scatter(owner, 2);
        let left = |at: &u64| owner.pages.borrow().contains_key(at);
        let left: Vec<_> = others.into_iter().filter(left).collect();
        left[1..].iter().for_each(|&at| owner.free(at));
        owner.memory.drain_all();
        let held = pageblock_of(owner, Pfn::new(left[0]));
        assert_eq!(
            (held.free, held.unmovable),
            (511, 1),
            "not a pageblock that would be worth claiming if types might be mixed"
        );
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        let request = Request::new(Order::new(6).unwrap(), MigrateType::Movable);
        let block = token.alloc(request.retry_may_fail()).unwrap();
        assert_eq!(pageblock_of(owner, block.pfn()).unmovable, 0, "{method}");
        token.free(block).unwrap();
    }
}

#[test]
fn no_block_forms_for_a_type_that_cannot_be_requested() {
    for of in [MigrateType::Isolate, MigrateType::HighAtomic] {
        for method in ["index", "scan"] {
            let owner = leaked_owner_with_relief(&[("compact.method", method)], 1);
            scatter(owner, 3);
            let request = Request::new(Order::PAGEBLOCK, of);
            let form = |priority| with_compactor(owner, 512, |c| c.form(request, priority));
            for priority in [CompactPriority::Async, CompactPriority::Sync] {
                assert_eq!(form(priority), (Compacted::Unavailable, None), "{of}, {method}");
            }
            owner.memory.drain_all();
            owner.check();
        }
    }
}
