//! A write to a free frame is detected when the frame is allocated.

use framewright::{
    FreeError, MigrateType, Order, Request,
    observe::{Corruption, Finding},
};

use super::{PAGE, free, on_memory, on_memory_with, refused, support::machine::order};

#[test]
fn a_write_to_a_free_frame_is_found_when_the_frame_is_allocated() {
    on_memory(|memory, token| {
        let whole = token.alloc(Request::new(order(4), MigrateType::Movable)).unwrap();
        let pfn = whole.pfn();
        token.free(whole).unwrap();
        memory.platform().write(pfn.offset(3), Order::ZERO, 1);
        memory.platform().write(pfn.offset(9), order(1), 1);
        memory.drain_all();
        let again = token.alloc_at(pfn, order(4), MigrateType::Movable).unwrap();
        let what = Finding::WrittenWhileFree { offset: 0 };
        let first = Corruption { pfn: pfn.offset(3), order: order(4), what, count: 3 };
        assert_eq!(memory.platform().take_reports(), [first]);
        assert_eq!(memory.stats().damaged_frames, 3);
        // The owner of a block may write to it.
        memory.platform().write(pfn, order(4), 1);
        token.free(again).unwrap();
        memory.drain_all();
        let _again = token.alloc_at(pfn, order(4), MigrateType::Movable).unwrap();
        assert!(memory.platform().take_reports().is_empty());
    });
}

#[test]
fn only_freed_frames_are_checked() {
    on_memory(|memory, token| {
        let _blocks: Vec<_> = std::iter::from_fn(|| token.alloc(PAGE).ok()).collect();
        assert!(
            memory.platform().take_reports().is_empty(),
            "a frame was reported although none was poisoned yet"
        );
    });
}

#[test]
fn poison_can_be_switched_off() {
    on_memory_with(
        |config| config.tuning.set("hardening.poison", "off").unwrap(),
        |memory, token| {
            let (pfn, size) = token.alloc(PAGE).unwrap().into_raw();
            free(token, pfn, size).unwrap();
            memory.platform().write(pfn, size, 1);
            memory.drain_all();
            assert_eq!(token.alloc(PAGE).unwrap().pfn(), pfn);
            assert!(memory.platform().take_reports().is_empty());
            assert_eq!(refused(memory, token, pfn.offset(1), size), FreeError::AlreadyFree);
        },
    );
}
