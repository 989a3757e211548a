//! Tests of the CPUs that do the background work.

#![allow(unsafe_code)]

use std::cell::Cell;

use framewright::{MigrateType, Order, Request, ZoneKind, observe::NodeStat, platform::Relief};
use framewright_sim::engine::Schedule;

use super::Play;
use crate::high_alloc::{
    Flags,
    fixture::{FRESH, Fixture, SimContext, play},
    share::Load,
    world::Locked,
};

/// CPU 1 is the last of two CPUs of builders.
fn load(shares: bool) -> Load {
    Load { flags: Flags::Default, quick: true, watched: false, builders: 2, shares, seed: 1 }
}

/// Allocates the rest of memory, and wakes background reclaim as a request does.
fn exhaust<'s, 'm>(fixture: &Fixture<'s, 'm>, on: &mut SimContext<'_, 's, 'm>) {
    let request = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
    while let Ok(block) = on.token.alloc(request) {
        let _ = block.into_raw();
    }
    // SAFETY: simulated CPUs share one thread.
    let relief = unsafe { Locked::new(fixture.kernel) };
    relief.wake(fixture.kernel.node(on.cpu.id()), Order::ZERO, ZoneKind::default());
    assert!(fixture.kernel.kswapd.due() <= fixture.kernel.current().now());
}

/// Returns the pages that background reclaim reclaims during some turns of CPU 1, which has no
/// builders. `asking`: a request for a huge page is in progress. `shares`: background work has no
/// CPU of its own.
fn reclaimed(asking: bool, shares: bool) -> u64 {
    let reclaimed = Cell::new(0);
    play(
        Schedule::Clock,
        &|_, _, _| (),
        |_, _| (),
        |fixture, on| {
            exhaust(fixture, on);
            let kernel = fixture.kernel;
            let play = Play::new(load(shares), kernel, &[], FRESH, None, &|_| ());
            kernel.asking.set(asking);
            (0..8).for_each(|_| play.turn(&mut [], on));
            reclaimed.set(kernel.reclaim.lru().stats().get(NodeStat::PgstealKswapd));
        },
        |_, ended| ended.unwrap(),
    );
    reclaimed.get()
}

#[test]
fn background_reclaim_continues_on_a_builder_cpu_while_a_request_waits() {
    assert!(reclaimed(true, true) > 0);
    assert_eq!(
        reclaimed(false, true),
        0,
        "pages were reclaimed although the requesting CPU does this between requests"
    );
    assert_eq!(
        reclaimed(true, false),
        0,
        "pages were reclaimed on a builder CPU, although background reclaim has a CPU of its own"
    );
}
