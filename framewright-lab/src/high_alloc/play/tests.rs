//! Who does the kernel's own work when.

#![allow(unsafe_code)]

use std::cell::Cell;

use framewright::{MigrateType, Order, Request, ZoneKind, observe::NodeStat, platform::Relief};
use framewright_sim::engine::Schedule;

use super::Play;
use crate::high_alloc::{
    Flags,
    fixture::{FRESH, Fixture, play},
    kernel::Token,
    share::Load,
    simulated::SimulatedWorld,
    world::Inside,
};

type Sim<'s, 'm> = SimulatedWorld<'s, 'm>;

/// CPU 1 is the last of two that build.
fn load(shares: bool) -> Load {
    Load { flags: Flags::Default, quick: true, watched: false, builders: 2, shares, seed: 1 }
}

/// Takes what is left of memory, and has background reclaim woken for it, as a request does.
fn exhaust<'m>(fixture: &Fixture<'_, 'm>, token: &mut Token<'_, 'm, Sim<'_, 'm>>) {
    let request = Request::new(Order::ZERO, MigrateType::Movable).no_wait();
    while let Ok(block) = token.alloc(request) {
        let _ = block.into_raw();
    }
    // SAFETY: simulated CPUs share one thread.
    let relief = unsafe { Inside::new(fixture.kernel) };
    relief.wake(fixture.kernel.node(token.cpu()), Order::ZERO, ZoneKind::default());
    assert!(fixture.kernel.woken.get().due <= fixture.kernel.current().now());
}

/// What is reclaimed in the background while CPU 1 has some turns, which has to build nothing; somebody asks
/// for a huge page meanwhile or not, and has the kernel's own work to do himself or not.
fn reclaimed(asking: bool, shares: bool) -> u64 {
    let reclaimed = Cell::new(0);
    play(
        Schedule::Clock,
        &|_, _, _| (),
        |_, _| (),
        |fixture, token| {
            exhaust(fixture, token);
            let kernel = fixture.kernel;
            let play = Play::new(load(shares), kernel, &[], FRESH, None, &|_| ());
            kernel.asking.set(asking);
            (0..8).for_each(|_| play.turn(&mut [], kernel.current(), token));
            reclaimed.set(kernel.reclaim.lru().stats().get(NodeStat::PgstealKswapd));
        },
        |_, ended| ended.unwrap(),
    );
    reclaimed.get()
}

#[test]
fn background_reclaim_goes_on_where_builders_are_while_a_request_waits() {
    assert!(reclaimed(true, true) > 0);
    assert_eq!(reclaimed(false, true), 0, "who asks does it while he rests");
    assert_eq!(reclaimed(true, false), 0, "it has a CPU of its own");
}
