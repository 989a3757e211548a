//! Bad raw frees are refused at the call, and change nothing.

use framewright::{FreeError, MigrateType, Order, Pfn, Request};

use super::{
    MANAGED, MAP, PAGE, each_order, free, on_either, orders, refused,
    support::machine::{cpu, order},
};

#[test]
fn a_double_free_is_refused_at_once() {
    for of_order in orders() {
        on_either(|memory, token| {
            let Ok(block) = token.alloc(Request::new(of_order, MigrateType::Unmovable)) else {
                return;
            };
            let (pfn, size) = block.into_raw();
            free(token, pfn, size).unwrap();
            assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
            memory.drain_all();
            assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
        });
    }
}

#[test]
fn a_free_of_another_order_is_refused_at_once() {
    each_order(|memory, token, pfn, size| {
        for other in Order::all().filter(|other| *other != size && pfn.is_aligned(*other)) {
            let end = pfn.get() + other.frames();
            let fits = MAP.iter().any(|(from, to)| *from <= pfn.get() && end <= *to);
            let error = if fits { FreeError::WrongOrder } else { FreeError::NotOurs };
            assert_eq!(refused(memory, token, pfn, other), error, "{size} as {other}");
        }
    });
}

#[test]
fn a_free_from_the_inside_is_refused_at_once() {
    each_order(|memory, token, pfn, size| {
        for part in Order::all().take_while(|part| *part < size) {
            for middle in [part.frames(), size.frames() - part.frames()] {
                let middle = pfn.offset(middle);
                assert_eq!(refused(memory, token, middle, part), FreeError::NotAllocated);
            }
        }
    });
}

#[test]
fn a_misaligned_free_is_refused_at_once() {
    each_order(|memory, token, pfn, size| {
        for larger in Order::all().filter(|larger| Order::ZERO < *larger && *larger <= size) {
            assert_eq!(refused(memory, token, pfn.offset(1), larger), FreeError::Misaligned);
        }
    });
}

#[test]
fn a_free_of_two_neighbours_as_one_is_refused_at_once() {
    on_either(|memory, token| {
        let whole = token.alloc(Request::new(order(6), MigrateType::Movable)).unwrap();
        let (low, high) = token.split(whole).unwrap();
        assert_eq!(refused(memory, token, low.pfn(), order(6)), FreeError::WrongOrder);
        assert_eq!(refused(memory, token, high.pfn(), order(4)), FreeError::WrongOrder);
        token.free(low).unwrap();
        token.free(high).unwrap();
        memory.drain_all();
        assert_eq!(memory.free(), MANAGED);
    });
}

#[test]
fn foreign_frames_are_refused_at_once() {
    on_either(|memory, token| {
        for outside in [0, 0x3ff, 0x600, 0x6ff, 0x900, u64::MAX >> 16, u64::MAX] {
            let error = refused(memory, token, Pfn::new(outside), Order::ZERO);
            assert_eq!(error, FreeError::NotOurs, "{outside:#x}");
        }
        assert_eq!(refused(memory, token, Pfn::new(0x800), order(9)), FreeError::NotOurs);
    });
}

#[test]
fn a_frame_never_allocated_is_refused_at_once() {
    on_either(|memory, token| {
        let _used = token.alloc(PAGE).unwrap();
        for size in Order::all().take_while(|size| *size <= order(8)) {
            assert_eq!(refused(memory, token, Pfn::new(0x400), size), FreeError::AlreadyFree);
        }
    });
}

#[test]
fn a_block_freed_on_another_cpu_is_refused_at_once() {
    on_either(|memory, token| {
        let mut other = memory.cpu(cpu(1)).unwrap();
        let (pfn, size) = other.alloc(PAGE).unwrap().into_raw();
        free(&mut other, pfn, size).unwrap();
        assert!(memory.held_by_cpus() > 0, "the frame is neither on a list nor in quarantine");
        assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
    });
}
