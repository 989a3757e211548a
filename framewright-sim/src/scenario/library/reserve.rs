//! The last frames: everybody wants them, and some may go deeper than others.

use framewright::{MigrateType, Order, Request, Tuning, tuning::Auto};

use super::world::{self, Library, Token};
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

/// Of 1024 frames: what is left for requests without rights are two or three blocks.
const RESERVE: u32 = 1012;
/// What an urgent request takes: more than lists hold, so that it is all that leaves the zone for it.
const URGENT: Request = Request::new(Order::new(4).expect("small"), MigrateType::Movable).urgent();

/// CPUs 0 and 1 take as much as they can get, CPU 2 makes an urgent request, and an ordinary one
/// while it has what it got.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let settings = |tuning: &mut Tuning| tuning.zone.min_free = Auto::Fixed(RESERVE);
    world::run_with(machine, bug, settings, |library| {
        let takes = |cpu: Cpu<'_>| {
            let mut token = library.memory.cpu(cpu.id()).expect("a CPU that is online");
            for order in [2, 0] {
                ordinary(cpu, library, &mut token, order);
            }
        };
        vec![
            Box::new(takes),
            Box::new(takes),
            Box::new(|cpu| {
                let mut token = library.memory.cpu(cpu.id()).expect("a CPU that is online");
                library.urgent.set(URGENT.order().frames());
                let urgent = token.alloc(URGENT).ok();
                ordinary(cpu, library, &mut token, 1);
                urgent.into_iter().for_each(|block| token.free(block).expect("of this memory"));
                library.urgent.set(0);
                ordinary(cpu, library, &mut token, 0);
            }),
        ]
    })
}

/// Has a block for a moment, if there is one above the reserve.
fn ordinary<'m>(cpu: Cpu<'_>, library: &Library<'m>, token: &mut Token<'_, 'm>, order: u8) {
    let block = library.take(cpu, token, order);
    if let Err(dip) = library.check_reserve() {
        cpu.fail(dip);
    }
    cpu.step();
    block.into_iter().for_each(|block| library.give(cpu, token, block));
}
