//! Panics of hooks of `Relief` that are called after a fallback mixed migratetypes.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::{AllocError, Block, MigrateType, Order, Request, tuning::Auto};
use framewright_fakes::FakeRelief;

use crate::machine::{CPU, TestMemory, assert_complete, memory, take_all};

const UNMOVABLE: Request = Request::new(Order::ZERO, MigrateType::Unmovable).no_wait();

type Alloc = fn(&'static TestMemory) -> Result<Block<'static>, AllocError>;

#[test]
fn no_frame_is_lost_if_relief_panics_when_types_were_mixed() {
    let ways: [Alloc; 2] = [
        |memory| memory.cpu(CPU).unwrap().alloc(UNMOVABLE),
        |memory| memory.alloc_bypassing_lists(UNMOVABLE),
    ];
    for (asked, alloc) in [false, true].into_iter().flat_map(|asked| ways.map(|way| (asked, way))) {
        let memory = memory(4096, |tuning| tuning.zone.min_free = Auto::Fixed(32));
        let mut token = memory.cpu(CPU).unwrap();
        // No pageblock is wholly free, and all are movable.
        let (held, free): (Vec<_>, Vec<_>) = take_all(memory, &mut token)
            .into_iter()
            .partition(|block| block.pfn().is_aligned(Order::PAGEBLOCK));
        free.into_iter().for_each(|block| token.free(block).unwrap());
        drop(token);
        memory.drain_all();
        // Relief panics in `reclaims_in_background` or in `wake`.
        let is_in_background = move || {
            assert!(!asked, "asked");
            true
        };
        let relief = FakeRelief::new().in_background(is_in_background);
        memory.platform().set_relief(relief.on_wake(|_, _, _| panic!("woken")));
        let panicked = catch_unwind(AssertUnwindSafe(|| alloc(memory)));
        assert!(panicked.is_err(), "relief was not called");
        memory.drain_all();
        memory.check().unwrap();
        assert_complete(memory, &mut memory.cpu(CPU).unwrap(), held);
    }
}
