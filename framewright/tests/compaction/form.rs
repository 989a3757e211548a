//! Both methods of compaction (`compact.method`) form blocks, and lose no page and no frame.

use framewright::{
    Block, MigrateType, NodeId, Order, Request, SideTables, ZoneKind,
    observe::CompactStats,
    platform::{CompactPriority, Compacted},
};

use framewright_fakes::{Contention, FakeMover};

use crate::{PAGEBLOCKS, scatter, with_compactor, with_owner, with_owner_and_side_tables};

const METHODS: [&str; 2] = ["index", "scan"];
const HUGE: Request = Request::new(Order::PAGEBLOCK, MigrateType::Movable);

fn form<'m>(
    owner: &FakeMover<'_, 'm>,
    request: Request,
    priority: CompactPriority,
) -> (Compacted, Option<Block<'m>>) {
    let result = with_compactor(owner, 512, |compactor| compactor.form(request, priority));
    owner.check_but(request.order(), result.1.as_ref());
    result
}

/// Forms and keeps huge pages until that fails at every priority. Returns their number.
fn form_all(owner: &FakeMover<'_, '_>) -> u64 {
    let mut blocks = Vec::new();
    loop {
        let priorities =
            [CompactPriority::Async, CompactPriority::SyncLight, CompactPriority::Sync];
        let formed = priorities.into_iter().find_map(|priority| {
            let (_, block) = with_compactor(owner, 512, |c| c.form(HUGE, priority));
            block.or_else(|| {
                let mut token = owner.memory.cpu(framewright::CpuId::new(0)).unwrap();
                token.alloc(HUGE.no_wait()).ok()
            })
        });
        match formed {
            Some(block) => blocks.push(block),
            None => break,
        }
    }
    let count = blocks.len() as u64;
    for block in blocks {
        owner.memory.free_bypassing_lists(block).unwrap();
    }
    owner.memory.drain_all();
    owner.check();
    count
}

#[test]
fn huge_pages_form_from_scattered_memory() {
    for method in METHODS {
        with_owner(&[("compact.method", method)], 5, |owner| {
            scatter(owner, 3);
            owner.movable_only.set(true);
            let used = owner.pages.borrow().len() as u64;
            let achievable = crate::PAGEBLOCKS - used.div_ceil(512);
            let formed = form_all(owner);
            println!("{method}: {formed} of {achievable}: {:?}", owner.memory.compact_stats());
            assert!(formed * 10 >= achievable * 9, "{method}: {formed} of {achievable}");
        });
    }
}

#[test]
fn the_formed_block_goes_to_the_request() {
    let cases = METHODS.into_iter().flat_map(|method| [9, 10, 12].map(|order| (method, order)));
    for (method, order) in cases {
        with_owner(&[("compact.method", method)], 6, |owner| {
            scatter(owner, 4);
            let request = Request::new(Order::new(order).unwrap(), MigrateType::Movable);
            let (result, block) = form(owner, request, CompactPriority::SyncLight);
            assert_eq!(result, Compacted::Success, "{method}, order {order}");
            let block = block.expect("it was captured");
            owner.memory.free_bypassing_lists(block).unwrap();
            owner.check();
        });
    }
}

#[test]
fn smaller_and_larger_blocks_form() {
    for method in METHODS {
        for order in [2, 5, 8, 10] {
            with_owner(&[("compact.method", method)], 7, |owner| {
                scatter(owner, 3);
                // Uses wholly free pageblocks up, because they make compaction unnecessary.
                while let Some(at) = owner.alloc(0, MigrateType::Movable, false) {
                    if owner.memory.free() < 6000 {
                        owner.free(at);
                        break;
                    }
                }
                let request = Request::new(Order::new(order).unwrap(), MigrateType::Movable);
                let (result, block) = form(owner, request, CompactPriority::Sync);
                assert_eq!(result, Compacted::Success, "{method}, order {order}");
                if let Some(block) = block {
                    owner.memory.free_bypassing_lists(block).unwrap();
                }
                let mut token = owner.memory.cpu(framewright::CpuId::new(0)).unwrap();
                let block = token.alloc(request.no_wait()).expect("one has formed");
                token.free(block).unwrap();
            });
        }
    }
}

#[test]
fn pinned_pages_stay_and_target_frames_are_returned() {
    for method in METHODS {
        with_owner(&[("compact.method", method)], 8, |owner| {
            scatter(owner, 3);
            owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = true);
            let before: Vec<_> = owner.pages.borrow().keys().copied().collect();
            for priority in [CompactPriority::Async, CompactPriority::Sync] {
                let (result, block) = form(owner, HUGE, priority);
                assert!(block.is_none(), "{method}: {result:?}");
            }
            assert!(before.iter().eq(owner.pages.borrow().keys()), "{method}");
        });
    }
}

/// Runs of pageblocks have no skip hints. But a search that reaches the end of memory has tried all
/// runs.
#[test]
fn by_index_runs_that_cannot_be_emptied_are_tried_once() {
    let order = Order::new(10).unwrap();
    let request = Request::new(order, MigrateType::Movable);
    for priority in [CompactPriority::SyncLight, CompactPriority::Sync] {
        with_owner(&[], 8, |owner| {
            scatter(owner, 3);
            owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = true);
            let (result, block) = form(owner, request, priority);
            assert!(block.is_none() && result != Compacted::Contended, "{result:?}");
            assert!(owner.scanned.get() <= 2 * PAGEBLOCKS * 512, "{}", owner.scanned.get());
            with_compactor(owner, 512, |compactor| {
                assert!(!compactor.background(NodeId::default(), order, ZoneKind::Movable));
            });
        });
    }
}

#[test]
fn failures_defer_at_most_63_attempts() {
    for method in METHODS {
        with_owner(&[("compact.method", method)], 9, |owner| {
            scatter(owner, 3);
            owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = true);
            let (mut longest, mut row) = (0, 0);
            for _ in 0..600 {
                let (result, _) =
                    with_compactor(owner, 512, |c| c.form(HUGE, CompactPriority::SyncLight));
                row = if result == Compacted::Deferred { row + 1 } else { 0 };
                longest = row.max(longest);
            }
            assert_eq!(longest, 63, "{method}");
            owner.check();
        });
    }
}

#[test]
fn the_index_examines_far_less_than_the_scanners() {
    let [index, scan]: [CompactStats; 2] = METHODS.map(|method| {
        let mut stats = CompactStats::default();
        with_owner(&[("compact.method", method)], 10, |owner| {
            scatter(owner, 3);
            form_all(owner);
            stats = owner.memory.compact_stats();
        });
        stats
    });
    // Compaction must examine all moved pages, by either method.
    let examined = |stats: CompactStats| {
        let scanned = stats.compact_migrate_scanned + stats.compact_free_scanned;
        stats.compact_headers_scanned + scanned - stats.pgmigrate_success
    };
    assert!(examined(index) * 50 < examined(scan), "{index:?}\n{scan:?}");
}

#[test]
fn no_frame_is_lost_under_random_faults() {
    for seed in 1..22u64 {
        let method = METHODS[seed as usize % 2];
        let hardening = if seed % 5 == 0 { "paranoid" } else { "checked" };
        let repair = if seed % 3 == 0 { "off" } else { "on" };
        let set = [
            ("compact.method", method),
            ("hardening", hardening),
            ("compact.repair.reset_before_read", repair),
            ("compact.repair.detect_meeting", if seed % 7 == 0 { "off" } else { repair }),
            ("compact.repair.unmarked_types", repair),
            ("compact.repair.reset_on_meeting", repair),
        ];
        with_owner(&set, seed, |owner| {
            for _ in 0..30 {
                mix(owner);
                for _ in 0..3 {
                    owner.randomize_faults();
                    let of = [MigrateType::Movable, MigrateType::Unmovable];
                    let of = of[usize::from(owner.below(4) == 0)];
                    let order = Order::new([9, 9, 9, 3, 10, 1, 6][owner.below(7) as usize]);
                    let request = Request::new(order.unwrap(), of);
                    let priorities =
                        [CompactPriority::Async, CompactPriority::SyncLight, CompactPriority::Sync];
                    let (_, block) = form(owner, request, priorities[owner.below(3) as usize]);
                    if let Some(block) = block {
                        owner.memory.free_bypassing_lists(block).unwrap();
                    }
                }
                background(owner);
                owner.check();
            }
        });
    }
}

/// Allocates random blocks until about four fifths of memory are in use. Then frees a third of the pages at random.
fn mix(owner: &FakeMover<'_, '_>) {
    while owner.memory.free() > 3500 {
        let unmovable = owner.below(12) == 0;
        let of = if unmovable { MigrateType::Unmovable } else { MigrateType::Movable };
        let order = [0, 0, 0, 1, 2, 5][owner.below(6) as usize];
        if owner.alloc(order, of, unmovable).is_none() {
            break;
        }
    }
    let third = owner.pages.borrow().len() / 3;
    for _ in 0..third {
        owner.free(owner.some_page().unwrap());
    }
}

fn background(owner: &FakeMover<'_, '_>) {
    let node = framewright::NodeId::default();
    with_compactor(owner, 64, |compactor| match owner.below(4) {
        0 => _ = compactor.background(node, Order::PAGEBLOCK, framewright::ZoneKind::Movable),
        1 => _ = compactor.proactive(node),
        2 => _ = compactor.compact_node(node),
        _ => compactor.reset_skip_hints(node),
    });
}

#[test]
fn met_scanners_are_reset_and_a_type_mismatch_sets_no_skip_hint() {
    for repaired in [true, false] {
        let switch = if repaired { "on" } else { "off" };
        let set = [
            ("compact.method", "scan"),
            ("compact.repair.reset_on_meeting", switch),
            ("compact.repair.unmarked_types", switch),
        ];
        with_owner(&set, 11, |owner| {
            scatter(owner, 3);
            owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = true);
            let zone = owner.memory.zones().next().unwrap();
            for foreign in owner.memory.pageblocks(zone.id).step_by(2) {
                assert!(owner.memory.set_pageblock_type(foreign.first, MigrateType::Unmovable));
            }
            let has_hint = || {
                let mut foreign = owner.memory.pageblocks(zone.id).step_by(2);
                foreign.any(|block| block.skip)
            };
            let mut marked = false;
            for _ in 0..20 {
                form(owner, HUGE, CompactPriority::Async);
                marked |= has_hint();
            }
            assert_eq!(marked, !repaired, "skip hint on a pageblock of another type");
            let met = (0..100)
                .any(|_| form(owner, HUGE, CompactPriority::SyncLight).0 == Compacted::Complete);
            assert!(met);
            let at = owner.memory.scanners(zone.id).unwrap();
            let end = zone.start.offset(zone.spanned);
            let is_reset = (at.migrate_sync, at.free) == (zone.start, end);
            assert_eq!(is_reset, repaired, "{at:?}");
        });
    }
}

/// Number of frames that an unsuccessful search scans with this contention of locks, in an allocator
/// with these side tables.
fn scanned_in(contention: Contention, side_tables: SideTables, priority: CompactPriority) -> u64 {
    let mut scanned = 0;
    let settings = [("compact.method", "scan"), ("compact.shortcuts", "off")];
    with_owner_and_side_tables(side_tables, PAGEBLOCKS, &settings, 11, |owner| {
        scatter(owner, 3);
        owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = true);
        if let Some(lru) = owner.memory.lru() {
            // The machine registers a lock at its first acquisition.
            lru.check().unwrap();
        }
        owner.memory.platform().set_contention(contention);
        let (result, _) = form(owner, HUGE, priority);
        assert_ne!(result, Compacted::Success);
        scanned = owner.memory.compact_stats().compact_migrate_scanned;
    });
    scanned
}

/// If every probed lock is held, asynchronous compaction scans at most one pageblock. Other modes
/// continue.
#[test]
fn async_scanning_stops_under_lock_contention() {
    let scanned = |contention, priority| scanned_in(contention, SideTables::default(), priority);
    let contended = scanned(Contention::All, CompactPriority::Async);
    assert!((1..=512).contains(&contended), "{contended}");
    for (contention, priority) in
        [(Contention::None, CompactPriority::Async), (Contention::All, CompactPriority::SyncLight)]
    {
        let more = scanned(contention, priority);
        assert!(more > 4 * contended, "{priority:?}: {more}, and {contended} with contention");
    }
}

/// Only the LRU lock is held, which the migrate scanner also probes.
#[test]
fn async_scanning_stops_under_lru_lock_contention() {
    let side_tables = SideTables::default().with_lru();
    let scanned = |contention, priority| scanned_in(contention, side_tables, priority);
    let contended = scanned(Contention::LruLists, CompactPriority::Async);
    assert!((1..=512).contains(&contended), "{contended}");
    assert!(scanned(Contention::None, CompactPriority::Async) > 4 * contended);
    assert!(scanned(Contention::LruLists, CompactPriority::SyncLight) > 4 * contended);
}

/// A failure of background compaction does not defer requests.
#[test]
fn by_index_background_failures_do_not_defer_requests() {
    with_owner(&[("compact.method", "index")], 12, |owner| {
        scatter(owner, 4);
        owner.pages.borrow_mut().values_mut().for_each(|page| page.pinned = true);
        for tries in 0..6 {
            let formed = with_compactor(owner, 512, |compactor| {
                compactor.background(NodeId::default(), Order::PAGEBLOCK, ZoneKind::Movable)
            });
            assert!(!formed, "{tries}");
            let (result, _) = form(owner, HUGE, CompactPriority::Async);
            assert_ne!(result, Compacted::Deferred, "{tries}");
        }
    });
}
