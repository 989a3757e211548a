//! Pages of a program are swapped out and in, and no frame is lost.

use framewright_sim::engine::{Cpu, Failure, Schedule};

use crate::high_alloc::{
    fixture::{Fixture, PAGES, Signal, play},
    frames::WRITEBACK,
};

/// Longer than writing all pages to swap takes.
const WRITTEN: u64 = 1 << 30;

fn whole(fixture: &Fixture<'_, '_>, ended: Result<(), Failure>) {
    ended.unwrap();
    fixture.check();
}

/// Reclaims until only pages under writeback are left. That takes several scans.
fn reclaim(fixture: &Fixture<'_, '_>, cpu: Cpu<'_>) {
    let (kernel, node) = (fixture.kernel, fixture.kernel.node(cpu.id()));
    kernel.reclaim.lru().drain_all();
    (0..8).for_each(|_| _ = kernel.reclaim.shrink_node(cpu.id(), node, 1024));
}

/// Completes all writes.
fn complete(fixture: &Fixture<'_, '_>, cpu: Cpu<'_>) {
    cpu.sleep_until(cpu.now() + WRITTEN);
    fixture.kernel.complete_swap_writes(fixture.kernel.current());
    assert_eq!(fixture.kernel.state.swap.next(), None);
}

fn swap_out(fixture: &Fixture<'_, '_>, cpu: Cpu<'_>) {
    reclaim(fixture, cpu);
    let is_under_writeback = |&frame: &u32| fixture.kernel.state.frames.at(frame).is(WRITEBACK);
    assert_eq!(
        fixture.program_frames().iter().filter(|it| is_under_writeback(it)).count(),
        PAGES as usize
    );
    complete(fixture, cpu);
    reclaim(fixture, cpu);
}

#[test]
fn a_reclaimed_page_leaves_its_frame_and_is_read_back_when_used() {
    let (swapped, read) = (Signal::default(), Signal::default());
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        swap_out(fixture, cpu);
        assert!(fixture.program_frames().is_empty());
        fixture.check();
        swapped.raise(cpu);
        read.wait(cpu);
    };
    play(
        Schedule::Clock,
        &|_, _, _| (),
        moving,
        |fixture, on| {
            let cpu = on.cpu;
            swapped.wait(cpu);
            for index in 0..PAGES {
                let ready = on.use_again(0, index).ok().flatten();
                assert!(ready > Some(cpu.now()), "the page was ready without a read");
                assert!(matches!(on.use_again(0, index), Ok(None)));
            }
            let swap = &fixture.kernel.state.swap;
            assert_eq!((swap.written.get(), swap.read.get()), (PAGES.into(), PAGES.into()));
            read.raise(cpu);
        },
        |_, ended| ended.unwrap(),
    );
}

#[test]
fn a_page_used_during_its_write_stays_in_its_frame() {
    let (sent, used) = (Signal::default(), Signal::default());
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        reclaim(fixture, cpu);
        let before = fixture.program_frames();
        sent.raise(cpu);
        used.wait(cpu);
        complete(fixture, cpu);
        reclaim(fixture, cpu);
        assert_eq!(fixture.program_frames(), before);
    };
    play(
        Schedule::Clock,
        &|_, _, _| (),
        moving,
        |_, on| {
            sent.wait(on.cpu);
            let again = |index| on.use_again(0, index);
            assert!((0..PAGES).map(again).all(|ready| matches!(ready, Ok(None))));
            used.raise(on.cpu);
        },
        whole,
    );
}

#[test]
fn programs_may_exit_at_any_step_of_reclaim() {
    for seed in 0..60 {
        let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
            reclaim(fixture, cpu);
            cpu.sleep_until(cpu.now() + (1 << (seed % 24)));
            fixture.kernel.complete_swap_writes(fixture.kernel.current());
            reclaim(fixture, cpu);
            complete(fixture, cpu);
        };
        play(
            Schedule::Random(seed),
            &|_, _, _| (),
            moving,
            |fixture, on| {
                on.cpu.sleep_until(on.cpu.now() + (1 << (seed / 2 % 28)));
                fixture.end_program(on);
                assert!(fixture.program_frames().is_empty());
            },
            whole,
        );
    }
}

#[test]
fn a_closed_swap_area_takes_no_pages() {
    let moving = |fixture: &Fixture<'_, '_>, cpu: Cpu<'_>| {
        let before = fixture.program_frames();
        fixture.kernel.drop_pages(cpu.id());
        assert_eq!(fixture.program_frames(), before);
        assert_eq!(fixture.kernel.state.swap.written.get(), 0);
    };
    play(Schedule::Clock, &|_, _, _| (), moving, |_, _| (), whole);
}
