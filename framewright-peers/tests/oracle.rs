//! Every peer against a naive oracle: a set of frames.
//!
//! No frame is allocated twice, blocks are aligned and inside the zone, and after everything was
//! freed a merging allocator can serve its largest order again. The list design is checked more
//! closely: migratetypes, drains, current and historical rules, and counters.

use framewright_peers::{
    BitmapAllocator, BuddySystem, Floor, FloorTrylock, FrameAllocDepot, FreeListPeer, ListBuddy,
    Peer, SummaryBuddy, Worker,
    list_buddy::{BulkFree, HighOrderDrain, ListTurns, MigrateType, Pressure, Tuning},
};
use proptest::prelude::*;

const FRAMES: u64 = 4096;
const CPUS: usize = 2;

/// The allocated frames and blocks.
struct Oracle {
    used: Vec<bool>,
    blocks: Vec<(u64, u8)>,
}

impl Oracle {
    fn new() -> Self {
        Self { used: vec![false; FRAMES as usize], blocks: Vec::new() }
    }

    fn allocated(&mut self, frame: u64, order: u8) {
        assert_eq!(frame % (1 << order), 0, "frame {frame} is not aligned to order {order}");
        assert!(frame + (1 << order) <= FRAMES, "frame {frame} is outside the zone");
        for used in &mut self.used[frame as usize..][..1 << order] {
            assert!(!*used, "frame {frame} of order {order} overlaps a live block");
            *used = true;
        }
        self.blocks.push((frame, order));
    }

    fn remove(&mut self, index: usize) -> Option<(u64, u8)> {
        let len = self.blocks.len();
        let (frame, order) = (len > 0).then(|| self.blocks.swap_remove(index % len))?;
        self.used[frame as usize..][..1 << order].fill(false);
        Some((frame, order))
    }

    fn live(&self) -> u64 {
        self.blocks.iter().map(|(_, order)| 1 << order).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc { cpu: usize, order: u8, migratetype: usize },
    Free { cpu: usize, index: usize },
    FreeMany { cpu: usize, index: usize, count: usize },
    Drain { cpu: usize },
    Decay { cpu: usize },
    Press { below_high: bool, reclaim_active: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let order = prop_oneof![6 => Just(0u8), 3 => 1u8..4, 2 => 4u8..=10];
    let step = prop_oneof![
        40 => (0..CPUS, order, 0usize..3)
            .prop_map(|(cpu, order, migratetype)| Step::Alloc { cpu, order, migratetype }),
        30 => (0..CPUS, any::<usize>()).prop_map(|(cpu, index)| Step::Free { cpu, index }),
        3 => (0..CPUS, any::<usize>(), 1usize..200)
            .prop_map(|(cpu, index, count)| Step::FreeMany { cpu, index, count }),
        2 => (0..CPUS).prop_map(|cpu| Step::Drain { cpu }),
        2 => (0..CPUS).prop_map(|cpu| Step::Decay { cpu }),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(below_high, reclaim_active)| Step::Press { below_high, reclaim_active }),
    ];
    prop::collection::vec(step, 1..600)
}

fn run<P: Peer>(steps: &[Step]) {
    let peer = P::new(FRAMES, CPUS);
    let mut workers = [peer.worker(0), peer.worker(1)];
    let mut oracle = Oracle::new();
    for step in steps {
        match *step {
            Step::Alloc { cpu, order, .. } if order <= P::MAX_ORDER => {
                if let Some(frame) = workers[cpu].alloc(order) {
                    oracle.allocated(frame, order);
                }
            }
            Step::Free { cpu, index } => free::<P>(&mut workers[cpu], &mut oracle, index),
            Step::FreeMany { cpu, index, count } => {
                (0..count).for_each(|_| free::<P>(&mut workers[cpu], &mut oracle, index));
            }
            _ => {}
        }
    }
    while oracle.live() > 0 {
        free::<P>(&mut workers[0], &mut oracle, 0);
    }
    if P::MERGES {
        let largest: Vec<u64> = core::iter::from_fn(|| workers[0].alloc(P::MAX_ORDER)).collect();
        for frame in &largest {
            oracle.allocated(*frame, P::MAX_ORDER);
        }
        // Allocators that keep their bitmaps in the pool lose one block to them.
        let possible = (FRAMES >> P::MAX_ORDER) as usize;
        assert!(largest.len() + 1 >= possible, "only {} of {possible} blocks", largest.len());
    }
}

fn free<P: Peer>(worker: &mut P::Worker<'_>, oracle: &mut Oracle, index: usize) {
    if let Some((frame, order)) = oracle.remove(index) {
        // SAFETY: the oracle has the block from `alloc`, and frees it once.
        unsafe { worker.free(frame, order) };
    }
}

fn run_list_buddy(steps: &[Step], tuning: &Tuning) {
    let buddy = ListBuddy::with_tuning(FRAMES, CPUS, tuning);
    let mut oracle = Oracle::new();
    for step in steps {
        match *step {
            Step::Alloc { cpu, order, migratetype } => {
                match buddy.alloc(cpu, order, MigrateType::ALL[migratetype]) {
                    Some(frame) => oracle.allocated(frame, order),
                    None => assert_eq!(
                        buddy.held(0) + buddy.held(1),
                        0,
                        "an allocation failed while lists had frames"
                    ),
                }
            }
            Step::Free { cpu, index } => give_back(&buddy, &mut oracle, cpu, index),
            Step::FreeMany { cpu, index, count } => {
                (0..count).for_each(|_| give_back(&buddy, &mut oracle, cpu, index));
            }
            Step::Drain { cpu } => {
                buddy.drain_cpu(cpu);
                assert_eq!(buddy.held(cpu), 0);
            }
            Step::Decay { cpu } => buddy.decay(cpu),
            Step::Press { below_high, reclaim_active } => {
                buddy.set_pressure(Pressure { below_high, reclaim_active });
            }
        }
        balance(&buddy, &oracle);
    }
    while oracle.live() > 0 {
        give_back(&buddy, &mut oracle, 1, 0);
    }
    buddy.drain_all();
    balance(&buddy, &oracle);
    let mut merged = [0; 11];
    merged[10] = (FRAMES >> 10) as u32;
    assert_eq!(buddy.free_blocks(), merged, "everything is free, but not merged");
}

fn give_back(buddy: &ListBuddy, oracle: &mut Oracle, cpu: usize, index: usize) {
    if let Some((frame, order)) = oracle.remove(index) {
        buddy.free(cpu, frame, order).expect("a live block");
        assert!(buddy.free(cpu, frame, order).is_err(), "a second free was accepted");
    }
}

/// Every frame is in exactly one place, and the counters agree.
fn balance(buddy: &ListBuddy, oracle: &Oracle) {
    let held: u32 = (0..CPUS).map(|cpu| buddy.held(cpu)).sum();
    assert_eq!(u64::from(buddy.free_frames()) + u64::from(held) + oracle.live(), FRAMES);
    let in_blocks: u32 =
        buddy.free_blocks().iter().enumerate().map(|(order, blocks)| blocks << order).sum();
    assert_eq!(in_blocks, buddy.free_frames());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn list_buddy_with_current_rules(steps in steps()) {
        run_list_buddy(&steps, &Tuning::default());
    }

    #[test]
    fn list_buddy_with_historical_rules(steps in steps()) {
        run_list_buddy(&steps, &Tuning {
            bulk_free: BulkFree::SelectBeforeLock,
            list_turns: ListTurns::RoundRobin,
            high_order_drain: HighOrderDrain::EveryFree,
            high_fraction: 8,
            ..Tuning::default()
        });
    }

    #[test]
    fn peers_never_hand_out_a_frame_twice(steps in steps()) {
        run::<ListBuddy>(&steps);
        run::<FrameAllocDepot>(&steps);
        run::<SummaryBuddy>(&steps);
        run::<BitmapAllocator>(&steps);
        run::<BuddySystem>(&steps);
        run::<FreeListPeer>(&steps);
        run::<Floor>(&steps);
        run::<FloorTrylock>(&steps);
    }
}

#[test]
fn a_free_of_a_frame_that_was_never_allocated_is_refused() {
    let buddy = ListBuddy::new(FRAMES, CPUS);
    let frame = buddy.alloc(0, 3, MigrateType::Movable).expect("free memory");
    for (frame, order) in [(frame, 2), (frame + 1, 0), (FRAMES, 0), (u64::MAX, 0), (17, 0)] {
        let error = buddy.free(0, frame, order).expect_err("must be refused");
        assert_eq!(
            error.to_string(),
            format!("no block of order {order} is allocated at frame {frame}")
        );
    }
    buddy.free(0, frame, 3).expect("a live block");
}

#[test]
fn bursts_take_the_zone_lock_once_per_batch() {
    let buddy = ListBuddy::new(1 << 20, CPUS);
    for _ in 0..3 {
        let frames: Vec<u64> = (0..32_768)
            .map(|_| buddy.alloc(0, 0, MigrateType::Movable).expect("free memory"))
            .collect();
        for frame in frames {
            buddy.free(0, frame, 0).expect("a live block");
        }
    }
    let stats = buddy.stats();
    assert_eq!((stats.cpus.allocs, stats.cpus.frees), (3 * 32_768, 3 * 32_768));
    assert_eq!(stats.zone.direct_allocs + stats.zone.direct_frees, 0);
    assert!(stats.frames_per_acquisition() > 500.0, "{stats:?}");
    let held = stats.cpus.refilled_frames - stats.cpus.drained_frames;
    assert_eq!(held, u64::from(buddy.held(0)));
}

#[test]
fn four_threads_share_one_zone() {
    let buddy = ListBuddy::new(FRAMES, 4);
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            let buddy = &buddy;
            scope.spawn(move || {
                for round in 0..200 {
                    let order = [0, 0, 1, 4][round % 4];
                    let blocks: Vec<u64> = (0..100 >> order)
                        .filter_map(|_| buddy.alloc(cpu, order, MigrateType::ALL[round % 3]))
                        .collect();
                    for frame in blocks {
                        buddy.free((cpu + round) % 4, frame, order).expect("a live block");
                    }
                }
            });
        }
    });
    buddy.drain_all();
    assert_eq!(buddy.free_blocks()[10], (FRAMES >> 10) as u32);
}

#[test]
fn lists_of_rare_types_are_emptied_only_if_all_lists_have_turns() {
    let mixed_of_all = |list_turns| {
        let tuning = Tuning { list_turns, batch: Some(8), high: Some(32), ..Tuning::default() };
        let buddy = ListBuddy::with_tuning(FRAMES, CPUS, &tuning);
        let some = |number: usize, of| -> Vec<u64> {
            (0..number).filter_map(|_| buddy.alloc(0, 0, of)).collect()
        };
        let frames = [some(4, MigrateType::Unmovable), some(400, MigrateType::Movable)].concat();
        frames.into_iter().for_each(|frame| buddy.free(0, frame, 0).unwrap());
        let stats = buddy.stats().cpus;
        (stats.mixed_drains, stats.drains.iter().sum::<u64>())
    };
    let (mixed, all) = mixed_of_all(ListTurns::OneAfterAnother);
    assert_eq!(mixed, all);
    let (mixed, all) = mixed_of_all(ListTurns::RoundRobin);
    assert!(0 < mixed && mixed * 4 < all, "{mixed} of {all}");
}
