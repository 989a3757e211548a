//! Tests of migration: after any event at any step, a page is in one frame, unchanged, on its list,
//! and its frame is freed once.

use std::cell::{Cell, RefCell};

use framewright::migrate::{MigrateMode, Move};
use framewright_sim::engine::{Cpu, Failure, Schedule};

use super::{HELD_NS, MOMENTS, is_held};
use crate::high_alloc::{
    fixture::{FRESH, Fixture, PAGES, Signal, SimContext, Step, USED, play},
    frames::{LOCKED, WRITEBACK},
    kernel::pfn,
};

fn nothing(_: Cpu<'_>, _: Step, _: &mut Move) {}

fn whole(fixture: &Fixture<'_, '_>, ended: Result<(), Failure>) {
    ended.unwrap();
    fixture.check();
}

/// Whether a page has no extra reference now.
fn has_no_extra_reference(fixture: &Fixture<'_, '_>, cpu: Cpu<'_>, frame: u32) -> bool {
    !is_held(fixture.kernel.state.seed, pfn(frame), cpu.now() / (HELD_NS / MOMENTS))
}

/// Waits until no page has an extra reference.
fn until_no_extra_reference_is_left(fixture: &Fixture<'_, '_>, cpu: Cpu<'_>) {
    while !fixture.all_frames().iter().all(|&frame| has_no_extra_reference(fixture, cpu, frame)) {
        cpu.sleep_until(cpu.now() + HELD_NS / MOMENTS);
    }
}

fn all_move(fixture: &Fixture<'_, '_>, cpu: Cpu<'_>) {
    until_no_extra_reference_is_left(fixture, cpu);
    let before = fixture.all_frames();
    let stayed = fixture.move_all(cpu);
    assert!(stayed.is_empty(), "{stayed:?}");
    assert!(fixture.all_frames().iter().all(|frame| !before.contains(frame)));
}

#[test]
fn moved_pages_are_found_in_their_new_frames_and_on_their_lists() {
    play(Schedule::Clock, &nothing, all_move, |_, _| (), whole);
}

#[test]
fn a_page_with_an_extra_reference_does_not_move() {
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        let mut held = fixture.all_frames();
        held.retain(|&frame| !has_no_extra_reference(fixture, cpu, frame));
        assert!(!held.is_empty() && held.len() < 16, "{held:?}");
        assert_eq!(fixture.move_all(cpu), held);
        all_move(fixture, cpu);
    };
    play(Schedule::Clock, &nothing, moving, |_, _| (), whole);
}

#[test]
fn pages_refused_after_the_copy_stay_and_the_others_move() {
    let is_refused = |frame: u32| frame % 2 == 1;
    let refuses = Cell::new(true);
    let hook = |_: Cpu<'_>, step, at: &mut Move| {
        if step == Step::Remap && refuses.get() && is_refused(at.from().get() as u32) {
            at.set_refused();
        }
    };
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        until_no_extra_reference_is_left(fixture, cpu);
        let mut refused = fixture.all_frames();
        refused.retain(|&frame| is_refused(frame));
        assert_eq!(fixture.move_all(cpu), refused);
        fixture.check();
        refuses.set(false);
        all_move(fixture, cpu);
    };
    play(Schedule::Clock, &hook, moving, |_, _| (), whole);
}

/// Each page is busy twice: before it is unmapped, and after it was copied.
#[test]
fn pages_that_are_busy_for_a_moment_move() {
    let asked = RefCell::new(Vec::new());
    let hook = |_: Cpu<'_>, step, at: &mut Move| {
        let question = (step == Step::Remap, at.from());
        if matches!(step, Step::Unmap(_) | Step::Remap) && !asked.borrow().contains(&question) {
            asked.borrow_mut().push(question);
            at.set_busy();
        }
    };
    play(Schedule::Clock, &hook, all_move, |_, _| (), whole);
    assert_eq!(asked.take().len(), 2 * 3 * PAGES as usize);
}

#[test]
fn a_panic_in_a_copy_leaves_all_pages_in_place_and_unlocked() {
    let before = RefCell::new(Vec::new());
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        until_no_extra_reference_is_left(fixture, cpu);
        before.replace(fixture.all_frames());
        fixture.contents.left.set(u64::from(PAGES));
        fixture.move_all(cpu);
    };
    let check = |fixture: &Fixture<'_, '_>, ended: Result<(), Failure>| {
        let failure = ended.unwrap_err().to_string();
        assert!(failure.contains("the machine breaks"), "{failure}");
        assert_eq!(fixture.all_frames(), before.take());
        let frames = &fixture.kernel.state.frames;
        assert!(fixture.all_frames().iter().all(|&frame| !frames.at(frame).is(LOCKED)));
    };
    play(Schedule::Clock, &nothing, moving, |_, _| (), check);
}

/// A migration that does not wait refuses a page under writeback at once. Otherwise the page is
/// busy up to the last try.
#[test]
fn a_page_under_writeback_moves_after_it_was_written() {
    let [writing, tried, written] = [(); 3].map(|()| Signal::default());
    let [async_tries, sync_tries, unmapped] = [0; 3].map(Cell::new);
    let first = Cell::new(None);
    let hook = |_: Cpu<'_>, step, at: &mut Move| {
        if !written.is_raised() && first.get() == Some(at.from()) {
            match step {
                Step::Unmap(MigrateMode::Async) => async_tries.update(|times| times + 1),
                Step::Unmap(_) => sync_tries.update(|times| times + 1),
                Step::Remap | Step::Undo => unmapped.update(|times| times + 1),
                Step::Release => {}
            }
        }
    };
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        writing.wait(cpu);
        until_no_extra_reference_is_left(fixture, cpu);
        let mut fresh = fixture.frames_of(FRESH);
        assert!(fresh.iter().all(|&frame| fixture.kernel.state.frames.at(frame).is(WRITEBACK)));
        first.set(Some(pfn(fresh[0])));
        fresh.sort_unstable();
        assert_eq!(fixture.move_all(cpu), fresh);
        tried.raise(cpu);
        written.wait(cpu);
        all_move(fixture, cpu);
    };
    play(
        Schedule::Clock,
        &hook,
        moving,
        |fixture, on| {
            let cpu = on.cpu;
            assert!(on.write(FRESH, 0..PAGES).is_ok());
            assert!(fixture.kernel.write_back(cpu));
            writing.raise(cpu);
            tried.wait(cpu);
            cpu.sleep_until(cpu.now() + 1_000_000_000);
            fixture.kernel.complete_writes(cpu);
            written.raise(cpu);
        },
        whole,
    );
    // In each of two attempts, the page was tried once without waiting and seven times with
    // waiting.
    assert_eq!((async_tries.get(), sync_tries.get(), unmapped.get()), (2, 2 * 7, 0));
}

/// The owner that releases pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    OfFresh,
    OfUsed,
    Program,
}

impl Owner {
    const ALL: [Self; 3] = [Self::OfFresh, Self::OfUsed, Self::Program];

    fn release_pages<'s, 'm>(self, fixture: &Fixture<'s, 'm>, on: &mut SimContext<'_, 's, 'm>) {
        match self {
            Self::OfFresh => on.truncate(FRESH),
            Self::OfUsed => on.truncate(USED),
            Self::Program => fixture.end_program(on),
        }
    }
}

/// An owner releases all of its pages when the first page of any owner reaches `at_step`. Undo and
/// release are only reached by pages that are refused after the copy.
fn releases_at(at_step: Step, owner: Owner) {
    let (reached, gone) = (Signal::default(), Signal::default());
    let stays = matches!(at_step, Step::Undo | Step::Release);
    let hook = |cpu: Cpu<'_>, step, at: &mut Move| {
        if step == at_step && !gone.is_raised() {
            reached.raise(cpu);
            gone.wait(cpu);
        }
        if step == Step::Remap && stays {
            at.set_refused();
        }
    };
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        until_no_extra_reference_is_left(fixture, cpu);
        let stayed = fixture.move_all(cpu);
        let expected = if stays { fixture.all_frames() } else { Vec::new() };
        assert_eq!(stayed, expected, "{at_step:?}, {owner:?}");
    };
    play(
        Schedule::Clock,
        &hook,
        moving,
        |fixture, on| {
            reached.wait(on.cpu);
            owner.release_pages(fixture, on);
            gone.raise(on.cpu);
        },
        |fixture, ended| {
            whole(fixture, ended);
            assert_eq!(fixture.all_frames().len(), 2 * PAGES as usize, "{at_step:?}, {owner:?}");
        },
    );
}

#[test]
fn an_owner_may_release_pages_at_every_step() {
    for step in [Step::Unmap(MigrateMode::Async), Step::Remap, Step::Undo, Step::Release] {
        for owner in Owner::ALL {
            releases_at(step, owner);
        }
    }
}

/// Random schedules also interrupt claims and frees.
#[test]
fn an_owner_may_release_pages_at_any_moment() {
    for seed in 0..100 {
        for owner in Owner::ALL {
            play(
                Schedule::Random(seed),
                &nothing,
                |fixture, cpu| _ = fixture.move_all(cpu),
                |fixture, on| owner.release_pages(fixture, on),
                whole,
            );
        }
    }
}

/// Another CPU tries to claim the pages during the migration, and gets none of them.
#[test]
fn a_page_claimed_by_another_cpu_stays_active() {
    let asked = Signal::default();
    let hook = |cpu: Cpu<'_>, step, _: &mut Move| {
        if step == Step::Remap && !asked.is_raised() {
            asked.raise(cpu);
            cpu.sleep_until(cpu.now() + 1);
        }
    };
    play(
        Schedule::Clock,
        &hook,
        all_move,
        |fixture, _| {
            asked.wait(fixture.kernel.current());
            for frame in fixture.frames_of(USED) {
                assert!(!fixture.moves.claim_one(pfn(frame), MigrateMode::Sync));
            }
        },
        whole,
    );
}
