//! Random operations on random machines, against a naive oracle.

use crate::support::{
    setup::Setup,
    steps::{Action, Step},
    topology::{RangeSpec, Topology},
    world::run,
};
use proptest::{collection::vec, prelude::*};

/// Ranges at random places. Half of the ranges begin right after the previous range.
fn range_specs(most: usize) -> impl Strategy<Value = Vec<RangeSpec>> {
    let gap = prop_oneof![Just(0), any::<u16>()];
    let range_spec = (gap, any::<u16>(), any::<u8>());
    vec(range_spec.prop_map(|(gap, length, place)| RangeSpec { gap, length, place }), 1..=most)
}

fn base() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(0x8_0000), 0u64..5000]
}

/// One zone, with or without holes.
fn one_zone() -> impl Strategy<Value = Topology> {
    (base(), range_specs(3), 1usize..=4).prop_map(|(base, mut range_specs, cpus)| {
        range_specs.iter_mut().for_each(|range_spec| range_spec.place = 0);
        let (cpus, distances) = (vec![0; cpus], Vec::new());
        Topology { base, range_specs, nodes: 0, cpus, distances, unit: 0 }
    })
}

/// Up to eight nodes, with all kinds of zones.
fn many_zones() -> impl Strategy<Value = Topology> {
    let cpus = vec(any::<u8>(), 1..=5);
    let distances = prop_oneof![Just(Vec::new()), vec(any::<u8>(), 1..20)];
    (base(), range_specs(12), any::<u8>(), cpus, distances).prop_map(
        |(base, range_specs, nodes, cpus, distances)| Topology {
            base,
            range_specs,
            nodes,
            cpus,
            distances,
            unit: 0,
        },
    )
}

fn setups(topologies: impl Strategy<Value = Topology>) -> impl Strategy<Value = Setup> {
    (topologies, any::<u32>()).prop_map(|(topology, choices)| Setup { topology, choices })
}

/// Zones of several GiB, with blocks of all orders.
fn large_zones() -> impl Strategy<Value = Topology> {
    let zones = |mut topology: Topology| {
        topology.range_specs.truncate(4);
        Topology { unit: 255, ..topology }
    };
    prop_oneof![one_zone().prop_map(zones), many_zones().prop_map(zones)]
}

fn steps(orders: u8, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let action = any::<u8>().prop_map(Action::by_number);
    let order = prop_oneof![0..orders, 0u8..4, Just(0)];
    // Half of the requests do not restrict nodes.
    let flags = prop_oneof![any::<u8>(), 0u8..64];
    let step = (action, any::<u8>(), order, flags, any::<u16>());
    let step =
        step.prop_map(|(action, cpu, order, flags, pick)| Step { action, cpu, order, flags, pick });
    vec(step, 1..most)
}

/// The settings for a test that runs this many cases for every thousand of `PROPTEST_CASES`, of which
/// there are at least 1000.
fn cases(of_a_thousand: u32) -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000) * of_a_thousand / 1000,
        // A failure is printed in full. An important failure should become a regression test.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn one_zone_agrees_with_the_oracle(setup in setups(one_zone()), steps in steps(13, 150)) {
        run(&setup, &steps);
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn many_zones_agree_with_the_oracle(setup in setups(many_zones()), steps in steps(13, 150)) {
        run(&setup, &steps);
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn large_zones_agree_with_the_oracle(setup in setups(large_zones()), steps in steps(19, 40)) {
        // `paranoid` is too slow with blocks of this size. The oracle does not model the
        // high-atomic reserve, and only zones of this size have one.
        let steps: Vec<Step> = steps.into_iter().map(Step::not_urgent).collect();
        run(&Setup { choices: setup.choices & !Setup::PARANOID, ..setup }, &steps);
    }
}
