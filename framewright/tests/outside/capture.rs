//! Blocks that a hook of `Relief` captures for a request.
#![forbid(unsafe_code)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use framewright::{
    AllocError, Block, MigrateType, Order, Request,
    platform::{Captured, Compacted},
};
use framewright_fakes::FakeRelief;

use crate::machine::{CPU, PAGE, TestMemory, assert_apart, assert_complete, memory, take_all};

const PAIR: Request = Request::new(Order::new(1).unwrap(), MigrateType::Movable);

/// The blocks that relief has.
type Blocks = Mutex<Vec<Block<'static>>>;

/// An allocator without free frames, and the blocks of its relief. Only the last block fits the
/// request.
struct Fixture {
    memory: &'static TestMemory,
    held: Vec<Block<'static>>,
    handover: &'static Blocks,
    other: &'static TestMemory,
}

impl Fixture {
    fn new(then: fn(Captured<'_>) -> Compacted) -> Self {
        let (memory, other) = (memory(1024, |_| ()), memory(1024, |_| ()));
        let mut token = memory.cpu(CPU).unwrap();
        let foreign = [PAIR, PAIR].map(|pair| other.alloc_bypassing_lists(pair).unwrap());
        let mut blocks = Vec::from(foreign);
        blocks.push(token.alloc(PAGE).unwrap());
        blocks.push(token.alloc(PAIR).unwrap());
        let held = take_all(memory, &mut token);
        let handover: &'static Blocks = Box::leak(Box::new(Mutex::new(blocks)));
        // Relief hands over the first block that fits, and then calls `then`.
        memory.platform().set_relief(FakeRelief::new().on_compact(move |_, _, captured| {
            let mut blocks = handover.lock().unwrap();
            let refused = blocks.drain(..).filter_map(|block| captured.keep(block).err()).collect();
            *blocks = refused;
            drop(blocks);
            then(captured)
        }));
        Self { memory, held, handover, other }
    }

    fn request(&self) -> Result<Block<'static>, AllocError> {
        self.memory.cpu(CPU).unwrap().alloc(PAIR)
    }

    /// Asserts that no block is lost: each is free, or belongs to relief or the test, or is `served`.
    fn end(self, served: Option<Block<'static>>) {
        let blocks = std::mem::take(&mut *self.handover.lock().unwrap());
        let (own, foreign): (Vec<_>, Vec<_>) =
            blocks.into_iter().chain(served).partition(|block| self.memory.owns(block));
        let all: Vec<_> = self.held.into_iter().chain(own).collect();
        assert_apart(&all);
        assert_complete(self.memory, &mut self.memory.cpu(CPU).unwrap(), all);
        assert_complete(self.other, &mut self.other.cpu(CPU).unwrap(), foreign);
    }
}

#[test]
fn only_a_block_of_the_memory_and_order_is_kept() {
    let fixture = Fixture::new(|_| Compacted::Success);
    let served = fixture.request().unwrap();
    assert!(fixture.memory.owns(&served) && served.order() == PAIR.order());
    assert_eq!(fixture.handover.lock().unwrap().len(), 3, "the others are given back");
    fixture.end(Some(served));
}

#[test]
fn a_handle_that_is_copied_and_swapped_loses_no_block() {
    let fixture = Fixture::new(|captured| {
        let mut copies = [captured, captured];
        copies.swap(0, 1);
        Compacted::Unavailable
    });
    let served = fixture.request().unwrap();
    fixture.end(Some(served));
}

#[test]
fn a_block_goes_back_if_relief_panics_afterwards() {
    let fixture = Fixture::new(|_| panic!("in the middle"));
    let panicked = catch_unwind(AssertUnwindSafe(|| fixture.request()));
    assert!(panicked.is_err());
    assert_eq!(fixture.memory.free(), 2, "the pair is free");
    fixture.end(None);
}
