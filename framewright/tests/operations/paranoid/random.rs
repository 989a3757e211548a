//! Random steps against the oracle of the other tests. On average, every second step is a bad free.

use proptest::{collection::vec, prelude::*};

use crate::support::{
    setup::Setup,
    steps::{Action, Step},
    topology::{RangeSpec, Topology},
    world,
};

/// A step. With a probability of one half it is a bad free.
fn step() -> impl Strategy<Value = Step> {
    let right = any::<u8>().prop_map(Action::by_number);
    let wrong = prop_oneof![
        Just(Action::FreeTwice),
        Just(Action::FreeWrongOrder),
        Just(Action::FreeAnywhere)
    ];
    let numbers = (any::<u8>(), 0u8..10, any::<u8>(), any::<u16>());
    (prop_oneof![right, wrong], numbers).prop_map(|(action, (cpu, order, flags, pick))| Step {
        action,
        cpu,
        order,
        flags,
        pick,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// `World` checks that each bad free is refused at the call.
    #[test]
    fn every_bad_free_is_refused_at_once(
        topology in (vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..4), vec(0u8..2, 1..4)),
        (choices, is_tracked) in any::<(u32, bool)>(),
        steps in vec(step(), 1..150),
    ) {
        let (range_specs, cpus) = topology;
        let range_spec = |(gap, length, place)| RangeSpec { gap, length, place };
        let range_specs = range_specs.into_iter().map(range_spec).collect();
        let level = if is_tracked { Setup::TRACKED } else { Setup::PARANOID };
        let (distances, choices) = (Vec::new(), choices & !Setup::PARANOID | level);
        let topology = Topology { base: 700, range_specs, nodes: 1, cpus, distances, unit: 0 };
        world::run(&Setup { topology, choices }, &steps);
    }
}
