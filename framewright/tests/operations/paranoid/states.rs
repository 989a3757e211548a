//! Every call that allocates or frees a block updates its state, so each block can be freed only
//! once.

use framewright::{
    Block, FreeError, Memory, MigrateType, Order, Pfn, Request,
    observe::{Corruption, Finding},
};

use super::{
    MANAGED, PAGE, Token, free, on_either, refused,
    support::machine::{Machine, order, raw},
};

/// Frees the block raw twice. The first free must succeed, and the second must be refused.
fn free_twice(memory: &Memory<'_, Machine>, token: &mut Token<'_, '_>, block: Block<'_>) {
    let (pfn, size) = block.into_raw();
    memory.check().unwrap();
    free(token, pfn, size).unwrap();
    assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
}

#[test]
fn a_block_from_any_call_can_be_freed_once() {
    on_either(|memory, token| {
        let block = memory.alloc_bypassing_lists(PAGE.atomic()).unwrap();
        free_twice(memory, token, block);
        let block = token.alloc_at(Pfn::new(0x710), order(4), MigrateType::Movable).unwrap();
        free_twice(memory, token, block);
        let mut slots = [None, None, None];
        assert_eq!(token.alloc_bulk(PAGE, &mut slots), 3);
        slots.into_iter().flatten().for_each(|block| free_twice(memory, token, block));
        let (pfn, size) = token.alloc(PAGE).unwrap().into_raw();
        // SAFETY: the frames were a block until `into_raw`.
        let block = unsafe { token.adopt(pfn, size) }.unwrap();
        free_twice(memory, token, block);
    });
}

#[test]
fn after_any_free_a_block_is_free() {
    on_either(|memory, token| {
        let block = token.alloc(PAGE).unwrap();
        let (pfn, size) = raw(&block);
        memory.free_bypassing_lists(block).unwrap();
        assert_eq!(refused(memory, token, pfn, size), FreeError::AlreadyFree);
        let mut slots = [token.alloc(PAGE).ok()];
        let pfn = slots[0].as_ref().map(Block::pfn).unwrap();
        token.free_bulk(&mut slots);
        assert_eq!(refused(memory, token, pfn, Order::ZERO), FreeError::AlreadyFree);
    });
}

#[test]
fn a_captured_block_is_a_block() {
    on_either(|memory, token| {
        let whole = token.alloc(Request::new(order(3), MigrateType::Movable)).unwrap();
        let (low, high) = token.split(whole).unwrap();
        let head = low.pfn();
        memory.free_bypassing_lists(high).unwrap();
        let request = Request::new(order(3), MigrateType::Movable);
        let captured = token.free_capturing(low, request).unwrap().expect("it is complete");
        assert_eq!(raw(&captured), (head, order(3)));
        assert_eq!(refused(memory, token, head, order(2)), FreeError::WrongOrder);
        free_twice(memory, token, captured);
    });
}

#[test]
fn only_blocks_can_be_adopted() {
    on_either(|memory, token| {
        let block = token.alloc(Request::new(order(2), MigrateType::Movable)).unwrap();
        let pfn = block.pfn();
        for (pfn, size, error) in [
            (pfn, order(1), FreeError::WrongOrder),
            (pfn.offset(2), order(1), FreeError::NotAllocated),
            (Pfn::new(0x400), order(2), FreeError::AlreadyFree),
        ] {
            // SAFETY: a refused adoption creates no block.
            assert_eq!(unsafe { token.adopt(pfn, size) }, Err(error));
        }
        token.free(block).unwrap();
        memory.check().unwrap();
    });
}

#[test]
fn a_block_that_was_freed_raw_is_refused_by_all_other_calls() {
    on_either(|memory, token| {
        let block = token.alloc(Request::new(order(2), MigrateType::Movable)).unwrap();
        let (pfn, size) = raw(&block);
        free(token, pfn, size).unwrap();
        let block = token.split(block).expect_err("it is not a block any more");
        let captured = token.free_capturing(block, PAGE);
        assert_eq!(captured, Ok(None));
        let reports = memory.platform().take_reports();
        let what = Finding::BadFree(FreeError::AlreadyFree);
        assert_eq!(reports, [Corruption { pfn, order: size, what, count: 1 }; 2]);
        memory.drain_all();
        memory.check().unwrap();
        assert_eq!(memory.free(), MANAGED);
    });
}
