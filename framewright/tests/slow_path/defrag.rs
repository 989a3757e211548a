//! Defragmenting mode: a request tries all other means before it mixes types in a pageblock.

use framewright::{
    CpuId, ZoneKind,
    platform::CompactPriority::{Async, SyncLight},
    tuning::Auto,
};

use crate::script::{
    Call::{self, Compact, Reclaim, Wake},
    MIN, NO_HELP, Script, memory_of, page, range, unmovable,
};

/// An allocator with movable pageblocks. A third of the frames are free and scattered.
fn scattered(defrag_mode: bool) -> &'static Script {
    let zone = [range(0, 32 * 512, 0, ZoneKind::Normal)];
    let memory = memory_of(&zone, NO_HELP, |tuning| {
        tuning.zone.min_free = Auto::Fixed(MIN as u32);
        tuning.alloc.defrag_mode = defrag_mode;
    });
    memory.allocate_all(page().inside_relief());
    memory.release_where(|pfn| pfn.get() % 3 == 0);
    memory.take_all_calls();
    memory
}

fn calls_for_a_frame(memory: &Script) -> Vec<Call> {
    let mut cpu = memory.cpu(CpuId::new(0)).unwrap();
    let _stays = cpu.alloc(unmovable(0)).unwrap().into_raw();
    assert_eq!(memory.stats().steals, 1, "the request did not mix types");
    memory.take_all_calls()
}

#[test]
fn a_single_frame_asks_for_compaction_and_wakes_background_reclaim_for_a_pageblock() {
    let wake = Wake { node: 0, order: 9, highest: ZoneKind::Normal };
    let calls = [wake, Compact(Async), Reclaim(32), Compact(SyncLight)];
    assert_eq!(calls_for_a_frame(scattered(true)), calls);
    assert_eq!(calls_for_a_frame(scattered(false)), []);
}
