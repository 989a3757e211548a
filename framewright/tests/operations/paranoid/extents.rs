//! Extents and memory hotplug: no frame of an extent is a block, and frames without poison are not
//! checked for poison.

use framewright::{
    FrameRange, FreeError, MigrateType, Order, Pfn, Request,
    observe::{Corruption, Finding},
};

use super::{MANAGED, PAGE, on_either, on_memory, refused, support::machine::order};

fn range(start: u64, end: u64) -> FrameRange {
    FrameRange::new(Pfn::new(start), Pfn::new(end)).unwrap()
}

#[test]
fn no_frame_of_an_extent_is_a_block() {
    on_either(|memory, token| {
        let block = token.alloc(PAGE).unwrap();
        token.free(block).unwrap();
        // The extent consists of a part of a pageblock and a whole pageblock.
        for frames in [range(0x410, 0x427), range(0x400, 0x600)] {
            let extent = memory.alloc_range(frames, MigrateType::Movable, &mut |_| ()).unwrap();
            for (pfn, size) in [(frames.start(), 0), (frames.start(), 4), (Pfn::new(0x420), 0)] {
                let error = refused(memory, token, pfn, order(size));
                assert_eq!(error, FreeError::NotAllocated, "{size} at {pfn}");
            }
            let (low, high) = extent.split_at(Pfn::new(0x421)).unwrap();
            memory.free_extent(high).unwrap();
            memory.check().unwrap();
            let error = refused(memory, token, Pfn::new(0x422), Order::ZERO);
            assert_eq!(error, FreeError::AlreadyFree);
            memory.free_extent(low).unwrap();
        }
        memory.drain_all();
        assert_eq!(memory.free(), MANAGED);
    });
}

#[test]
fn extents_are_poisoned_and_checked() {
    on_memory(|memory, _| {
        let frames = range(0x410, 0x427);
        let take = || memory.alloc_range(frames, MigrateType::Movable, &mut |_| ()).unwrap();
        memory.free_extent(take()).unwrap();
        memory.platform().write(Pfn::new(0x415), Order::ZERO, 1);
        let _extent = take();
        let what = Finding::WrittenWhileFree { offset: 0 };
        let pfn = Pfn::new(0x415);
        let found = Corruption { pfn, order: Order::ZERO, what, count: 1 };
        assert_eq!(memory.platform().take_reports(), [found]);
    });
}

#[test]
fn memory_removed_and_added_again_is_not_checked() {
    on_memory(|memory, token| {
        let frames = range(0x400, 0x600);
        let extent = memory.alloc_range(frames, MigrateType::Movable, &mut |_| ()).unwrap();
        memory.free_extent(extent).unwrap();
        memory.remove_memory(frames, &mut |_| panic!("no frame is in use")).unwrap();
        assert_eq!(refused(memory, token, frames.start(), Order::ZERO), FreeError::NotOurs);
        memory.platform().write(frames.start(), order(9), 1);
        memory.add_memory(frames).unwrap();
        let _blocks: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        assert!(memory.platform().take_reports().is_empty());
        memory.check().unwrap();
    });
}

#[test]
fn reported_frames_are_not_checked() {
    on_memory(|memory, token| {
        let block = token.alloc(Request::new(order(9), MigrateType::Movable)).unwrap();
        let pfn = block.pfn();
        token.free(block).unwrap();
        memory
            .report_free(order(9), &mut |frames| {
                memory.check().unwrap();
                memory.platform().write(frames.start(), order(9), 0);
            })
            .unwrap();
        assert!(token.alloc_at(pfn, order(9), MigrateType::Movable).is_ok());
        assert!(memory.platform().take_reports().is_empty());
        memory.check().unwrap();
    });
}
