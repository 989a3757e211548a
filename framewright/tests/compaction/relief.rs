//! Requests that are short of a block turn to compaction by themselves.

use framewright::{
    CpuId, MigrateType, NodeId, Order, Pfn, Request, ZoneKind,
    compact::PageblockView,
    platform::{Captured, CompactPriority, Compacted, Need, Relief},
};

use crate::{
    house::House,
    house_that_stays, house_with_relief,
    rules::{fill, thin_out},
    scatter, with_compactor,
};

/// Forwards to a compactor.
struct Resident(&'static House<'static, 'static>);

// SAFETY: a test has one thread.
unsafe impl Sync for Resident {}

impl Relief for Resident {
    fn compact(&self, need: &Need, priority: CompactPriority, captured: Captured<'_>) -> Compacted {
        with_compactor(self.0, 512, |compactor| compactor.compact(need, priority, captured))
    }
}

/// Makes requests in the memory of a house turn to it.
pub(crate) fn install(house: &'static House<'static, 'static>) {
    let relief = Box::leak(Box::new(Resident(house)));
    assert!(house.memory.platform().relief.set(relief).is_ok());
}

/// Reclaims in the background, they say, and never compacts for a request.
struct Background;

impl Relief for Background {
    fn reclaims_in_background(&self) -> bool {
        true
    }
}

/// What the pageblock of a frame holds.
fn pageblock_of(house: &House<'_, '_>, frame: Pfn) -> PageblockView {
    let zone = house.memory.zones().next().unwrap().id;
    let of_frame = |held: &PageblockView| held.first.get() == frame.get() & !511;
    house.memory.pageblocks(zone).find(of_frame).unwrap()
}

const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

#[test]
fn a_request_for_a_huge_page_is_served_by_compaction() {
    for method in ["index", "scan"] {
        let house = house_with_relief(&[("compact.method", method)], 1);
        scatter(house, 3);
        let mut blocks = Vec::new();
        let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
        while let Ok(block) = token.alloc(HUGE.no_retry()) {
            blocks.push(block);
        }
        let used = house.pages.borrow().len() as u64;
        let achievable = crate::PAGEBLOCKS - used.div_ceil(512);
        assert!(blocks.len() as u64 * 10 >= achievable * 8, "{method}: {}", blocks.len());
        let stats = house.memory.stats();
        assert_eq!(stats.compact_stall, stats.compact_success + stats.compact_fail);
        assert!(stats.compact_success >= blocks.len() as u64 * 9 / 10, "{method}: {stats:?}");
        blocks.into_iter().for_each(|block| token.free(block).unwrap());
        drop(token);
        house.memory.drain_all();
        house.check();
    }
}

#[test]
fn the_background_forms_a_part_of_what_requests_missed_and_no_more() {
    for method in ["index", "scan"] {
        let house = house_that_stays(&[("compact.method", method), ("zone.huge_stock", "5000")], 1);
        assert!(house.memory.platform().relief.set(&Background).is_ok());
        scatter(house, 3);
        house.memory.drain_all();
        let zone = || house.memory.zones().next().unwrap();
        let node = NodeId::default();
        assert!(!house.memory.can_fill_huge_reserve(node), "nobody has asked");
        let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
        (0..5).for_each(|_| assert!(token.alloc(HUGE.no_retry()).is_err()));
        assert_eq!(zone().huge_reserve, 5 * 512);
        assert!(house.memory.can_fill_huge_reserve(node));
        with_compactor(house, 512, |c| c.background(node, Order::ZERO, ZoneKind::Movable));
        let blocks = house.memory.block_counts(zone().id).by_order();
        assert_eq!(blocks[9] + 2 * blocks[10], 2, "{method}: a quarter, rounded up");
        assert!(!house.memory.can_fill_huge_reserve(node));
        drop(token);
        house.check();
    }
}

/// Nobody asks whether it is worth while: the background is called, and notices by itself.
#[test]
fn by_index_the_background_tries_again_what_it_did_not_form() {
    let house = house_that_stays(&[("zone.huge_stock", "5000")], 1);
    assert!(house.memory.platform().relief.set(&Background).is_ok());
    let others: Vec<_> =
        (0..2048).filter_map(|_| house.alloc(0, MigrateType::Unmovable, true)).collect();
    fill(house);
    others.into_iter().step_by(2).for_each(|at| house.free(at));
    house.memory.drain_all();
    let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
    assert!(token.alloc(HUGE.no_retry()).is_err());
    drop(token);
    let (node, zone) = (NodeId::default(), house.memory.zones().next().unwrap().id);
    let restock = || {
        with_compactor(house, 512, |c| c.background(node, Order::ZERO, ZoneKind::Movable));
        house.memory.block_counts(zone).by_order()[9]
    };
    assert_eq!((0..3).map(|_| restock()).max(), Some(0), "nothing moves");
    (20..24).for_each(|pageblock| thin_out(house, pageblock, 100));
    house.memory.drain_all();
    assert_eq!((0..3).map(|_| restock()).max(), Some(0), "it rests");
    assert_eq!(restock(), 1, "not for ever");
    house.check();
}

#[test]
fn requests_of_every_type_and_order_are_served_and_nothing_is_mixed() {
    for method in ["index", "scan"] {
        for of in [MigrateType::Unmovable, MigrateType::Reclaimable, MigrateType::Movable] {
            for order in [0, 1, 3, 4, 9] {
                let set = [("compact.method", method), ("alloc.defrag_mode", "on")];
                let house = house_with_relief(&set, 2);
                scatter(house, 4);
                // Only single frames are left.
                while house.alloc(1, MigrateType::Movable, false).is_some() {}
                let odd = |at: &u64| *at % 2 == 1;
                let pages: Vec<_> = house.pages.borrow().keys().copied().filter(odd).collect();
                pages.into_iter().for_each(|at| house.free(at));
                house.memory.drain_all();
                let request = Request::new(Order::new(order).unwrap(), of);
                let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
                let steals = house.memory.stats().steals;
                let block = token.alloc(request.retry_may_fail());
                let block = block.unwrap_or_else(|error| panic!("{method} {of} {order}: {error}"));
                let stolen = house.memory.stats().steals - steals;
                assert_eq!(stolen, 0, "{method} {of} {order}");
                let held = pageblock_of(house, block.pfn());
                let alien = if of == MigrateType::Movable { held.pinned } else { held.movable };
                assert_eq!(alien, 0, "{method} {of} {order}: {held:?}");
                token.free(block).unwrap();
                drop(token);
                house.memory.drain_all();
                house.check();
            }
        }
    }
}

#[test]
fn half_used_pageblocks_of_others_are_no_blocks_where_nothing_is_to_be_mixed() {
    for method in ["index", "scan"] {
        let house =
            house_with_relief(&[("compact.method", method), ("alloc.defrag_mode", "on")], 2);
        let others: Vec<_> =
            (0..512).map(|_| house.alloc(0, MigrateType::Unmovable, true).unwrap()).collect();
        scatter(house, 2);
        let left = |at: &u64| house.pages.borrow().contains_key(at);
        let left: Vec<_> = others.into_iter().filter(left).collect();
        left[1..].iter().for_each(|&at| house.free(at));
        house.memory.drain_all();
        let held = pageblock_of(house, Pfn::new(left[0]));
        assert_eq!((held.free, held.pinned), (511, 1), "worth claiming, if that were all right");
        let mut token = house.memory.cpu(CpuId::new(0)).unwrap();
        let request = Request::new(Order::new(6).unwrap(), MigrateType::Movable);
        let block = token.alloc(request.retry_may_fail()).unwrap();
        assert_eq!(pageblock_of(house, block.pfn()).pinned, 0, "{method}");
        token.free(block).unwrap();
    }
}

#[test]
fn no_block_forms_of_a_type_that_requests_may_not_ask_for() {
    for of in [MigrateType::Isolate, MigrateType::HighAtomic] {
        for method in ["index", "scan"] {
            let house = house_with_relief(&[("compact.method", method)], 1);
            scatter(house, 3);
            let request = Request::new(Order::PAGEBLOCK, of);
            let form = |priority| with_compactor(house, 512, |c| c.form(request, priority));
            for priority in [CompactPriority::Async, CompactPriority::Sync] {
                assert_eq!(form(priority), (Compacted::Unavailable, None), "{of}, {method}");
            }
            house.memory.drain_all();
            house.check();
        }
    }
}
