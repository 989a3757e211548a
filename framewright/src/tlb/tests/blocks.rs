//! The ownership of blocks that go through a batch: before, afterwards, and after a failure.

use super::*;
use crate::{Block, MigrateType, Request};

const PAGE: Request = Request::new(Order::ZERO, MigrateType::Movable);

fn blocks<'m>(machine: &Machine<'_, 'm>, count: usize) -> Vec<Block<'m>> {
    (0..count).map(|_| machine.memory.alloc_bypassing_lists(PAGE).unwrap()).collect()
}

#[test]
fn a_retired_block_comes_out_once() {
    with_machine(tuning(FlushBatching::All, 32, 0), |machine| {
        let mut slots = slots();
        let mut batch = machine.on(0).batch(&mut slots);
        for block in blocks(machine, 5) {
            batch.retire(block).unwrap();
        }
        let mut out = Vec::new();
        batch.finish(&mut |blocks| out.extend(blocks));
        batch.finish(&mut |blocks| panic!("{blocks:?} come out twice"));
        assert_eq!(out.len(), 5);
        out.into_iter().for_each(|block| machine.memory.free_bypassing_lists(block).unwrap());
        assert_eq!(machine.memory.free(), 1024);
    });
}

/// Retires five blocks, finishes the batch, and takes the first `taken` of them.
fn take_some<'m>(machine: &Machine<'_, 'm>, taken: usize, panics: bool, deferred: bool) {
    let mut slots = slots();
    let mut batch = machine.on(0).batch(&mut slots);
    for block in blocks(machine, 5) {
        batch.retire(block).unwrap();
    }
    let mut out = Vec::new();
    let receive = &mut |mut blocks: Blocks<'_, 'm, TestPlatform>| {
        out.extend(blocks.by_ref().take(taken));
        assert!(!panics, "the receiver panics");
    };
    let handed_out = catch_unwind(AssertUnwindSafe(|| match deferred {
        true => {
            drop(batch);
            machine.on(0).drain_deferred(receive);
        }
        false => { batch }.finish(receive),
    }));
    assert_eq!(handed_out.is_err(), panics);
    machine.on(0).drain_deferred(&mut |blocks| panic!("{blocks:?} come out twice"));
    assert_eq!((out.len(), machine.memory.free()), (taken, 1024 - taken as u64));
    out.into_iter().for_each(|block| machine.memory.free_bypassing_lists(block).unwrap());
    machine.memory.check().unwrap();
    assert_eq!(machine.memory.free(), 1024);
    assert!(
        machine.memory.platform().0.lock().unwrap().is_empty(),
        "a frame was reported as corrupt"
    );
}

#[test]
fn blocks_that_a_receiver_leaves_are_freed_once() {
    for taken in [0, 2, 5] {
        for (panics, deferred) in [(false, false), (false, true), (true, false), (true, true)] {
            let tuning = tuning(FlushBatching::All, 32, 128);
            with_machine(tuning, |machine| take_some(machine, taken, panics, deferred));
        }
    }
}
