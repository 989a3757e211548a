//! The stacks are last in, first out and stay within the limit, and the coldest blocks are returned
//! first.

use super::*;
use std::{collections::VecDeque, vec, vec::Vec};

fn kind(order: u8, of: MigrateType) -> BlockKind {
    BlockKind::of(Order::new(order).unwrap(), of as u8).unwrap()
}

fn with_depot(limit: u64, test: impl FnOnce(&mut Depot<'_>)) {
    let mut chunks = vec![Chunk::EMPTY; Depot::chunks(limit)];
    test(&mut Depot::new(&mut chunks, limit));
}

fn give(depot: &mut Depot<'_>, kind: BlockKind, blocks: &[u32]) -> bool {
    let mut stack = BlockStack::new();
    stack.open(kind, blocks.len()).unwrap().copy_from_slice(blocks);
    depot.give(&stack, ())
}

fn take(depot: &mut Depot<'_>, kind: BlockKind, most: usize) -> Vec<u32> {
    let mut stack = BlockStack::new();
    depot.take(kind, most, &mut stack, ());
    stack.runs().flat_map(|(_, blocks)| blocks.to_vec()).collect()
}

/// Compares two stacks with vectors: batches of any length are appended, and taken off the end.
#[test]
fn blocks_are_taken_last_in_first_out() {
    with_depot(4000, |depot| {
        let kinds = [kind(0, MigrateType::Movable), kind(1, MigrateType::Unmovable)];
        let mut truth = [vec![], vec![]];
        let mut next = 0;
        let mut random = 1u32;
        for _ in 0..4000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (which, count) = ((random >> 31) as usize, (random >> 8) as usize % 129);
            let (kind, truth) = (kinds[which], &mut truth[which]);
            if random >> 30 & 1 == 0 {
                let blocks: Vec<u32> = (next..next + count as u32).collect();
                next += count as u32;
                if give(depot, kind, &blocks) {
                    truth.extend(blocks);
                }
            } else {
                let kept = truth.len() - count.min(truth.len());
                assert_eq!(take(depot, kind, count), truth.split_off(kept));
            }
        }
        assert_eq!(depot.frames(), (truth[0].len() + 2 * truth[1].len()) as u64);
    });
}

#[test]
fn a_batch_that_does_not_fit_is_refused_as_a_whole() {
    with_depot(100, |depot| {
        let pages = kind(0, MigrateType::Movable);
        assert!(give(depot, pages, &[7; 99]));
        assert!(!give(depot, pages, &[8, 9]));
        assert!(!give(depot, kind(1, MigrateType::Movable), &[10]));
        assert!(give(depot, pages, &[11]));
        assert_eq!(take(depot, pages, 2), [7, 11]);
        assert_eq!(depot.frames(), 98);
    });
    with_depot(0, |depot| assert!(!give(depot, kind(0, MigrateType::Movable), &[0])));
}

#[test]
fn the_chunks_suffice_for_the_limit_in_any_mix_of_kinds() {
    for order in 0..4 {
        with_depot(640, |depot| {
            let kinds: Vec<BlockKind> =
                BlockKind::all().filter(|kind| kind.order().get() <= order).collect();
            let mut i = 0;
            while give(depot, kinds[i % kinds.len()], &[i as u32]) {
                i += 1;
            }
            assert!(depot.frames() + 8 > 640, "{}", depot.frames());
        });
    }
}

fn coldest(depot: &mut Depot<'_>, which: FlushScope) -> Vec<u32> {
    let mut stack = BlockStack::new();
    depot.take_coldest(which, &mut stack, ());
    stack.runs().flat_map(|(_, blocks)| blocks.to_vec()).collect()
}

/// Compares a stack with a queue: CPUs add and take blocks at one end, and blocks are returned to
/// the buddy from the other end.
#[test]
fn the_coldest_blocks_are_returned_first() {
    with_depot(4000, |depot| {
        let pages = kind(0, MigrateType::Movable);
        let scope = FlushScope::For(None, Order::ZERO);
        let (mut truth, mut next, mut random) = (VecDeque::new(), 0, 1u32);
        for _ in 0..4000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = (random >> 8) as usize % 129;
            match random >> 29 & 3 {
                0 | 1 => {
                    let blocks: Vec<u32> = (next..next + count as u32).collect();
                    next += count as u32;
                    if give(depot, pages, &blocks) {
                        truth.extend(blocks);
                    }
                }
                2 => {
                    let kept = truth.len() - count.min(truth.len());
                    assert_eq!(take(depot, pages, count), Vec::from(truth.split_off(kept)));
                }
                _ => {
                    let chunk = truth.len().min(CHUNK_BLOCKS);
                    let gone: Vec<u32> = truth.drain(..chunk).collect();
                    assert_eq!(coldest(depot, scope), gone);
                }
            }
            assert_eq!(depot.frames(), truth.len() as u64);
        }
    });
}

#[test]
fn blocks_below_the_least_height_are_surplus() {
    with_depot(1000, |depot| {
        let pages = kind(0, MigrateType::Movable);
        let blocks: Vec<u32> = (0..500).collect();
        assert!(give(depot, pages, &blocks[..200]) && give(depot, pages, &blocks[200..]));
        depot.end_interval();
        assert!(!depot.has_surplus(), "blocks that came in this interval are surplus");
        take(depot, pages, 300);
        assert!(give(depot, pages, &blocks[200..]));
        depot.end_interval();
        let mut gone = 0;
        while depot.has_surplus() {
            let chunk = coldest(depot, FlushScope::Surplus);
            assert!(chunk.first().is_none_or(|&first| first == gone), "{chunk:?}");
            gone += chunk.len() as u32;
        }
        assert!((200..200 + CHUNK_BLOCKS as u32).contains(&gone), "{gone}");
        depot.end_interval();
        take(depot, pages, 1000);
        assert_eq!(coldest(depot, FlushScope::Surplus), []);
        assert!(!depot.has_surplus());
    });
}

#[test]
fn blocks_that_serve_directly_are_returned_before_those_that_must_merge() {
    with_depot(100, |depot| {
        let (page, pair) = (kind(0, MigrateType::Movable), kind(1, MigrateType::Movable));
        let scope = |of, order| FlushScope::For(of, Order::new(order).unwrap());
        assert!(give(depot, page, &[1, 3, 5]) && give(depot, pair, &[2, 4]));
        assert!(give(depot, kind(3, MigrateType::Reclaimable), &[8, 16, 24, 32]));
        assert!(depot.has(MigrateType::Movable) && !depot.has(MigrateType::Unmovable));
        assert_eq!(coldest(depot, scope(Some(MigrateType::Unmovable), 0)), []);
        assert_eq!(coldest(depot, scope(Some(MigrateType::Movable), 1)), [2, 4]);
        assert_eq!(coldest(depot, scope(Some(MigrateType::Movable), 1)), [1, 3, 5]);
        assert_eq!(coldest(depot, scope(None, 9)), [8, 16, 24, 32]);
        assert!(!depot.has(MigrateType::Reclaimable) && depot.frames() == 0);
    });
}
