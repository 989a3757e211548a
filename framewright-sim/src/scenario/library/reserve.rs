//! The last frames: all CPUs allocate them, and some requests may go below the watermark.

use framewright::{MigrateType, Order, Request, Tuning, tuning::Auto};

use super::world::{self, Library, Token};
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

/// The setting `zone.min_free`, of 1024 frames. The frames above it are two or three blocks for
/// ordinary requests.
const RESERVE: u32 = 1012;
/// An urgent request, of an order that the per-CPU lists do not store: no other frame leaves the
/// zone for it.
const URGENT: Request = Request::new(Order::new(5).expect("small"), MigrateType::Movable).urgent();

/// CPUs 0 and 1 allocate as much as they can get. CPU 2 makes an urgent request, and an ordinary
/// one while it holds that block.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    let settings = |tuning: &mut Tuning| tuning.zone.min_free = Auto::Fixed(RESERVE);
    world::run_with(machine, bug, &settings, &|library| {
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

/// Holds a block for a short time, if there is one above the reserve.
fn ordinary<'m>(cpu: Cpu<'_>, library: &Library<'m>, token: &mut Token<'_, 'm>, order: u8) {
    let block = library.take(cpu, token, order);
    if let Err(violation) = library.check_reserve() {
        cpu.fail(violation);
    }
    cpu.step();
    block.into_iter().for_each(|block| library.give(cpu, token, block));
}
