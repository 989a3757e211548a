//! Deferred frames, which wait for a flush.
#![forbid(unsafe_code)]

use framewright::{MigrateType, Order, Request, tlb::BatchSlot};

use crate::machine::{CPU, PAGE, assert_apart, assert_complete, flusher, memory, take_all};

#[test]
fn only_single_frames_of_the_memory_are_retired() {
    let (memory, other) = (memory(1024, |_| ()), memory(1024, |_| ()));
    let mut slots = [BatchSlot::default(); 4];
    let mut batch = flusher(memory).batch(&mut slots);
    let pair = Request::new(Order::new(1).unwrap(), MigrateType::Movable);
    let pair = batch.retire(memory.alloc_bypassing_lists(pair).unwrap()).unwrap_err();
    let foreign = batch.retire(other.alloc_bypassing_lists(PAGE).unwrap()).unwrap_err();
    batch.finish(&mut |blocks| panic!("{blocks:?} were refused"));
    assert_complete(memory, &mut memory.cpu(CPU).unwrap(), vec![pair]);
    assert_complete(other, &mut other.cpu(CPU).unwrap(), vec![foreign]);
}

#[test]
fn a_dropped_batch_frees_no_frame_that_is_in_use() {
    let memory = memory(1024, |_| ());
    let mut token = memory.cpu(CPU).unwrap();
    let mut held = take_all(memory, &mut token);
    let (mut slots, mut copy) = ([BatchSlot::default(); 8], [BatchSlot::default(); 8]);
    let mut batch = flusher(memory).batch(&mut slots);
    for block in held.split_off(1020) {
        batch.retire(block).unwrap();
    }
    drop(batch);
    flusher(memory).drain_deferred(&mut |blocks| held.extend(blocks));
    // Contents of slots from an earlier batch do not affect the next batch.
    copy.clone_from(&slots);
    for slots in [&mut slots, &mut copy] {
        flusher(memory).batch(slots).finish(&mut |blocks| panic!("{blocks:?} were retired before"));
    }
    assert_eq!(held.len(), 1024);
    assert_apart(&held);
    assert_complete(memory, &mut token, held);
}
