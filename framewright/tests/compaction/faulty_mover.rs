//! A `Mover` with a fault at one call. The tests try each kind of fault at each call that
//! compaction or the emptying of a range makes. Afterwards every frame has one owner and the right
//! contents.

use std::panic::{AssertUnwindSafe, catch_unwind};

use framewright::{
    Contiguous, CpuId, MigrateType, Order, Request,
    compact::{Compactor, Workspace},
    migrate::{Move, Mover},
    platform::CompactPriority,
    tlb::BatchSlot,
};
use framewright_fakes::{FaultRates, FaultyMover, MoverCall, MoverFault};

use crate::{frames, scatter, support::machine::Machine, with_owner_sized};

const PAGEBLOCKS: u64 = 4;

/// Runs step `nth`: allocates a range (0) or a contiguous run (1), or forms a huge page (2). Frees
/// everything that it allocates.
fn act<'m>(mover: &FaultyMover<'_, '_, 'm>, nth: u32) {
    let memory = mover.owner.memory;
    let mut moves = vec![Move::default(); 64];
    let mut slots = vec![BatchSlot::default(); 64];
    let space = Workspace { moves: &mut moves, slots: &mut slots };
    // SAFETY: the pages exist only in the test, and the test uses them only through its mover and
    // its flushes.
    #[allow(unsafe_code)]
    let mut compactor: Compactor<'_, 'm, Machine> =
        unsafe { memory.compactor(CpuId::new(0), mover, mover.owner, space) };
    let of = MigrateType::Movable;
    match nth {
        0 => {
            let extent = compactor.alloc_range(frames(1, 512), of, &mut |_| ());
            extent.into_iter().for_each(|extent| memory.free_extent(extent).unwrap());
        }
        1 => {
            let wanted = Contiguous::new(700, of).aligned(Order::new(6).unwrap());
            let extent = compactor.alloc_contiguous(&wanted);
            extent.into_iter().for_each(|extent| memory.free_extent(extent).unwrap());
        }
        _ => {
            let priority = [CompactPriority::Async, CompactPriority::Sync][nth as usize % 2];
            let request = Request::new(Order::PAGEBLOCK, of);
            let (_, block) = compactor.form(request, priority);
            block.into_iter().for_each(|block| memory.free_bypassing_lists(block).unwrap());
        }
    }
}

const STEPS: u32 = 3;

/// The embedder's recovery after a panic in its `Mover`.
fn recover(mover: &FaultyMover<'_, '_, '_>, fault: MoverFault) {
    let owner = mover.owner;
    let wrong = mover.failed_call().expect("it panicked at one call");
    if wrong == MoverCall::Undo {
        let moves = mover.take_undone();
        if fault == MoverFault::Panic {
            owner.undo(&moves);
        }
        let mut token = owner.memory.cpu(CpuId::new(0)).unwrap();
        for at in moves {
            // SAFETY: no page has moved to this frame, and the library left the frame to the
            // embedder.
            unsafe { token.free_raw(at.to(), at.order()) }.unwrap();
        }
    }
    let may_be_claimed = match wrong {
        MoverCall::Claim | MoverCall::Undo => true,
        MoverCall::Release => fault == MoverFault::Panic,
        MoverCall::Unmap | MoverCall::Remap => false,
    };
    for (at, page) in owner.pages.borrow_mut().iter_mut() {
        assert!(may_be_claimed || !page.claimed, "{at:#x} is still claimed");
        page.claimed = false;
    }
}

/// Runs all operations with a fault at call `at`. Returns the failed call; `None` if there were
/// fewer calls.
fn run(method: &str, at: u32, fault: MoverFault) -> Option<MoverCall> {
    let mut wrong = None;
    with_owner_sized(PAGEBLOCKS, &[("compact.method", method)], 5, |owner| {
        scatter(owner, 9);
        owner.pages.borrow_mut().values_mut().step_by(40).for_each(|page| page.pinned = true);
        owner.fault_rates.set(FaultRates { busy: 7, refused: 23, gone: 29, contended: 0 });
        let mover = FaultyMover::new(owner, at, fault);
        for nth in 0..STEPS {
            if catch_unwind(AssertUnwindSafe(|| act(&mover, nth))).is_err() {
                owner.memory.check().unwrap();
                recover(&mover, fault);
            }
            owner.memory.drain_all();
            owner.check();
        }
        wrong = mover.failed_call();
    });
    wrong
}

fn for_every_call(fault: MoverFault) {
    for method in ["index", "scan"] {
        let steps: Vec<MoverCall> = (0..).map_while(|at| run(method, at, fault)).collect();
        for step in [
            MoverCall::Claim,
            MoverCall::Unmap,
            MoverCall::Remap,
            MoverCall::Undo,
            MoverCall::Release,
        ] {
            let times = steps.iter().filter(|&&other| other == step).count();
            assert!(times > 1, "{method}: {step:?} went wrong {times} times");
        }
    }
}

#[test]
fn a_mover_may_refuse_pages_and_free_them_at_any_call() {
    [MoverFault::Refuse, MoverFault::BusyHalf, MoverFault::Gone]
        .into_iter()
        .for_each(for_every_call);
}

#[test]
fn a_mover_that_panics_loses_no_frames_except_in_undo() {
    // The test expects hundreds of panics, and does not print them.
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("a fault") {
            eprintln!("{info}");
        }
    }));
    [MoverFault::Panic, MoverFault::PanicAfter].into_iter().for_each(for_every_call);
}
