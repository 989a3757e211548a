//! Who compacts for nobody in particular leaves the reserve alone.

use framewright::NodeId;

use crate::{
    in_house,
    rules::{fill, thin_out},
    with_compactor,
};

#[test]
fn who_compacts_a_node_does_not_touch_its_reserve() {
    for method in ["index", "scan"] {
        for proactive in [false, true] {
            let set = [
                ("zone.min_free", "600"),
                ("compact.method", method),
                ("compact.proactiveness", "100"),
            ];
            in_house(&set, 1, |house| {
                fill(house);
                house.memory.drain_all();
                let least = house.memory.zones().next().unwrap().min;
                let mut moved = Vec::new();
                for pageblock in [3, 9, 14, 20, 25, 5, 28, 11, 17, 22] {
                    thin_out(house, pageblock, 350);
                    house.memory.drain_all();
                    with_compactor(house, 512, |c| match proactive {
                        true => _ = c.proactive(NodeId::default()),
                        false => _ = c.compact_node(NodeId::default()),
                    });
                    moved.push(house.memory.compact_stats().pgmigrate_success);
                    let left = house.least_free.get();
                    assert!(left >= least, "{method} {proactive}: {left} of {least}");
                    house.check();
                }
                assert!(moved[0] == 0 && moved[9] > 0, "{method} {proactive}: {moved:?}");
            });
        }
    }
}
