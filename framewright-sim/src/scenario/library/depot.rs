//! The depot: single frames that one CPU frees are allocated on another, while pageblocks are
//! isolated.

use framewright::{Tuning, tuning::Auto};

use super::world::{self, Library, Token};
use crate::{
    engine::{Cpu, Machine},
    scenario::{Bug, Verdict},
};

/// The order of a block that fills one 64-frame word of the map. A split block leaves two single
/// frames, and single frames of two blocks are never in the same word. So no bundle of single frames
/// has more than two blocks, and the depot takes each of them.
const WORD: u8 = 6;

/// CPUs 0 and 1 split blocks, free the frames, and allocate what the other has freed. CPU 2
/// isolates the two pageblocks in turn.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run_with(machine, bug, &with_depot, &|library| {
        let works = |cpu: Cpu<'_>| {
            let mut token = library.token(cpu);
            split_and_free(library, cpu, &mut token);
            library.work(cpu, &mut token, &[3, 2, 1]);
            split_and_free(library, cpu, &mut token);
            library.work(cpu, &mut token, &[2]);
        };
        vec![Box::new(works), Box::new(works), Box::new(|cpu| library.isolate_in_turn(cpu))]
    })
}

/// A depot behind lists with very low limits.
fn with_depot(tuning: &mut Tuning) {
    tuning.zone.depot_divisor = Auto::Fixed(8);
    tuning.pcp.high_fraction = 1000;
    // Frees in a sparse pageblock (more than `emptying_above` free frames) go to the zone, past the
    // depot. With 512 no pageblock is sparse.
    tuning.zone.emptying_above = 512;
}

/// Allocates some blocks, splits each down to single frames, and frees all pieces, the largest
/// first.
fn split_and_free<'m>(library: &Library<'m>, cpu: Cpu<'_>, token: &mut Token<'_, 'm>) {
    let blocks: Vec<_> = (0..3).filter_map(|_| library.take(cpu, token, WORD)).collect();
    let mut pieces = Vec::new();
    for block in blocks {
        let mut rest = Some(block);
        while let Some(block) = rest.take() {
            match token.split(block) {
                Ok((low, high)) => {
                    pieces.push(high);
                    rest = Some(low);
                }
                Err(page) => pieces.push(page),
            }
        }
    }
    pieces.sort_by_key(|piece| piece.order());
    pieces.into_iter().rev().for_each(|piece| library.give(cpu, token, piece));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Options;

    #[test]
    fn pieces_go_through_the_depot() {
        let machine = Machine::new(1, Options::default());
        let verdict = world::run_with(&machine, None, &with_depot, &|library| {
            vec![Box::new(|cpu| {
                let mut token = library.memory.cpu(cpu.id()).unwrap();
                split_and_free(library, cpu, &mut token);
                assert!(library.memory.in_depots() > 0);
                library.work(cpu, &mut token, &[3, 2, 1]);
                let stats = library.memory.stats();
                assert!(stats.from_depot > 0, "{stats:?}");
            })]
        });
        assert_eq!(verdict, Verdict::Clean);
    }
}
