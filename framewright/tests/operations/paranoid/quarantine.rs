//! Freed blocks wait in quarantine before they are allocated again. If no other memory is free,
//! they are allocated at once.

use framewright::{MigrateType, Order, Pfn, Request, ZoneId};

use super::{
    MANAGED, PAGE, QUARANTINE, Token, free, on_memory, on_memory_with,
    support::machine::{cpu, order, raw},
};

#[test]
fn freed_blocks_are_allocated_again_only_after_others() {
    on_memory(|memory, token| {
        let (pfn, size) = raw(&token.alloc(PAGE).unwrap());
        free(token, pfn, size).unwrap();
        for others in 0..QUARANTINE {
            let block = token.alloc(PAGE).unwrap();
            assert_ne!(block.pfn(), pfn, "after {others} others");
            token.free(block).unwrap();
        }
        assert_eq!(memory.held_by_cpus(), QUARANTINE);
        assert_eq!(token.alloc(PAGE).unwrap().pfn(), pfn, "the frame is not the lowest again");
    });
}

#[test]
fn larger_blocks_count_by_their_frames_or_do_not_enter_the_quarantine() {
    on_memory(|memory, token| {
        let large = token.alloc(Request::new(order(5), MigrateType::Movable)).unwrap();
        token.free(large).unwrap();
        assert_eq!(memory.held_by_cpus(), 0);
        for held in [8, 16, 16, 16] {
            let block = token.alloc(Request::new(order(3), MigrateType::Movable)).unwrap();
            token.free(block).unwrap();
            assert_eq!(memory.held_by_cpus(), held);
        }
        memory.check().unwrap();
    });
}

#[test]
fn without_a_quarantine_frames_go_straight_to_the_zone() {
    on_memory_with(
        |config| config.tuning.paranoid.quarantine = 0,
        |memory, token| {
            let block = token.alloc(PAGE).unwrap();
            token.free(block).unwrap();
            assert_eq!((memory.held_by_cpus(), memory.free()), (0, MANAGED));
        },
    );
}

/// Fills the quarantine of a CPU.
pub(crate) fn fill_quarantine(token: &mut Token<'_, '_>) {
    for _ in 0..QUARANTINE {
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
    }
}

#[test]
fn a_request_fails_only_when_the_quarantine_is_empty() {
    for request in [PAGE, PAGE.no_wait(), PAGE.atomic()] {
        on_memory(|memory, token| {
            fill_quarantine(token);
            let mut blocks = Vec::new();
            blocks.extend(std::iter::from_fn(|| token.alloc(request).ok()));
            assert_eq!((blocks.len() as u64, memory.held_by_cpus()), (MANAGED, 0), "{request:?}");
        });
    }
}

#[test]
fn trims_leave_the_quarantine_alone() {
    // Trims leave fewer than 64 frames alone in any case.
    const LONG: u64 = 100;
    on_memory_with(
        |config| config.tuning.paranoid.quarantine = LONG as u32,
        |memory, token| {
            for _ in 0..LONG {
                let block = token.alloc(PAGE).unwrap();
                token.free(block).unwrap();
            }
            for _ in 0..3 {
                token.trim();
                memory.trim_all();
            }
            assert_eq!(memory.held_by_cpus(), LONG);
        },
    );
}

#[test]
fn drains_and_going_offline_empty_the_quarantine() {
    on_memory(|memory, token| {
        let filled = |token: &mut Token<'_, '_>| {
            fill_quarantine(token);
            assert_eq!(memory.held_by_cpus(), QUARANTINE);
            memory.check().unwrap();
        };
        filled(token);
        token.drain();
        assert_eq!(memory.held_by_cpus(), 0);
        filled(token);
        memory.drain_cpu(cpu(0)).unwrap();
        assert_eq!(memory.held_by_cpus(), 0);
        let mut other = memory.cpu(cpu(1)).unwrap();
        filled(&mut other);
        drop(other);
        memory.cpu_offline(cpu(1)).unwrap();
        assert_eq!((memory.held_by_cpus(), memory.free()), (0, MANAGED));
    });
}

#[test]
fn no_frame_of_an_isolated_pageblock_is_in_quarantine() {
    on_memory(|memory, token| {
        fill_quarantine(token);
        let block = token.alloc_at(Pfn::new(0x500), order(2), MigrateType::Movable).unwrap();
        let isolated = memory.isolate(Pfn::new(0x400)).unwrap();
        assert_eq!(memory.held_by_cpus(), 0);
        token.free(block).unwrap();
        assert_eq!(memory.held_by_cpus(), 0, "frames of the isolated pageblock are in quarantine");
        let counts = memory.block_counts(ZoneId::default());
        assert_eq!(counts.free[MigrateType::Isolate as usize][9], 1);
        memory.undo_isolate(isolated).unwrap();
        memory.check().unwrap();
    });
}

#[test]
fn the_lists_of_a_cpu_stay_empty() {
    on_memory(|memory, token| {
        for size in Order::all() {
            let request = Request::new(size, MigrateType::Unmovable);
            let blocks: Vec<_> = (0..20).map_while(|_| token.alloc(request).ok()).collect();
            blocks.into_iter().for_each(|block| token.free(block).unwrap());
        }
        memory.cpu_offline(cpu(1)).unwrap();
        memory.cpu_online(cpu(1)).unwrap();
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        let stats = memory.stats();
        assert_eq!((stats.list_hits, stats.list_misses, stats.refills), (0, 0, 0));
        assert_eq!(stats.zone_allocs, stats.numa_hit);
    });
}
