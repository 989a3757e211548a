//! Compaction that no request waits for does not use the frames below the min watermark.

use framewright::NodeId;

use crate::{
    rules::{fill, thin_out},
    with_compactor, with_owner,
};

#[test]
fn compacting_a_node_keeps_its_reserve() {
    for method in ["index", "scan"] {
        for proactive in [false, true] {
            let set = [
                ("zone.min_free", "600"),
                ("compact.method", method),
                ("compact.proactiveness", "100"),
            ];
            with_owner(&set, 1, |owner| {
                fill(owner);
                owner.memory.drain_all();
                let least = owner.memory.zones().next().unwrap().min;
                let mut moved = Vec::new();
                for pageblock in [3, 9, 14, 20, 25, 5, 28, 11, 17, 22] {
                    thin_out(owner, pageblock, 350);
                    owner.memory.drain_all();
                    with_compactor(owner, 512, |c| match proactive {
                        true => _ = c.proactive(NodeId::default()),
                        false => _ = c.compact_node(NodeId::default()),
                    });
                    moved.push(owner.memory.compact_stats().pgmigrate_success);
                    let left = owner.least_free.get();
                    assert!(left >= least, "{method} {proactive}: {left} of {least}");
                    owner.check();
                }
                assert!(moved[0] == 0 && moved[9] > 0, "{method} {proactive}: {moved:?}");
            });
        }
    }
}
