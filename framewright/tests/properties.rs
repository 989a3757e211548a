//! Random operations on random memories, against a naive oracle.
#![cfg(not(feature = "loom"))]

mod support;

use proptest::{collection::vec, prelude::*};
use support::{
    setup::Setup,
    steps::{Action, Step},
    world::run,
};

fn setups() -> impl Strategy<Value = Setup> {
    // A range begins right behind the one before as often as not.
    let gap = prop_oneof![Just(0), any::<u16>()];
    let base = prop_oneof![Just(0), Just(0x8_0000), 0u64..5000];
    (base, vec((gap, any::<u16>()), 1..4), any::<u8>(), any::<u32>())
        .prop_map(|(base, ranges, cpus, choices)| Setup { base, ranges, cpus, choices })
}

fn steps() -> impl Strategy<Value = Step> {
    let action = any::<u8>().prop_map(Action::by_number);
    let order = prop_oneof![0u8..10, 0u8..4, Just(0)];
    (action, any::<u8>(), order, any::<u8>(), any::<u16>())
        .prop_map(|(action, cpu, order, flags, pick)| Step { action, cpu, order, flags, pick })
}

proptest! {
    #![proptest_config(ProptestConfig {
        // More with PROPTEST_CASES.
        cases: ProptestConfig::default().cases.max(1000),
        // Failures are printed in full; what is worth keeping becomes a regression test.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_operations_agree_with_the_oracle(setup in setups(), steps in vec(steps(), 1..150)) {
        run(&setup, &steps);
    }
}
