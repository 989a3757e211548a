//! Hotplug: a CPU and a pageblock are added and removed while other CPUs allocate.

use framewright::{CpuId, FrameRange, Pfn};

use super::world::{self, PAGEBLOCK};
use crate::{
    engine::Machine,
    scenario::{Bug, Verdict},
};

/// CPU 0 allocates and frees, CPU 1 does so whenever it is online, CPU 2 adds and removes.
pub(in crate::scenario) fn run(machine: &Machine, bug: Option<Bug>) -> Verdict {
    world::run(machine, bug, &|library| {
        let memory = &library.memory;
        vec![
            Box::new(|cpu| {
                let mut token = memory.cpu(cpu.id()).expect("a CPU that stays online");
                library.work(cpu, &mut token, &[0, 3]);
                library.work(cpu, &mut token, &[0]);
            }),
            Box::new(|cpu| {
                for orders in [[0, 0], [0, 1]] {
                    if let Ok(mut token) = memory.cpu(cpu.id()) {
                        library.work(cpu, &mut token, &orders);
                    }
                    cpu.step();
                }
            }),
            Box::new(|_| {
                let upper = FrameRange::new(Pfn::new(PAGEBLOCK), Pfn::new(2 * PAGEBLOCK));
                let upper = upper.expect("in order");
                let one = CpuId::new(1);
                let _ = memory.cpu_offline(one);
                if memory.remove_memory(upper, &mut |_| {}).is_ok() {
                    memory.add_memory(upper).expect("it was removed");
                }
                memory.cpu_online(one).expect("it exists");
            }),
        ]
    })
}
