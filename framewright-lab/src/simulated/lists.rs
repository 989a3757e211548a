//! The classic design on simulated CPUs: its locks are the engine's, its work has a price, and every
//! descriptor that it touches is a cache line that has to be somewhere.

use framewright_peers::list_buddy::{Links, Lock, LockName, Machine, Touch, Work};
use framewright_sim::{
    engine::{self, Access, Family, Line, LockClass, Miss, Mutex, Shared},
    host_memory::expect,
    machine::Code,
};

/// The machine below a `ListBuddy` whose frames are in the memory of one node.
pub(super) struct SimLists {
    machine: Shared,
    /// Which of the families of lines this allocator has.
    member: u32,
    take_instructions: u64,
    give_instructions: u64,
    select_instructions: u64,
}

impl SimLists {
    /// Of `node`, and with one of them per node at most, on `machine`; work costs what `code` says.
    #[must_use]
    pub(super) fn new(machine: &engine::Machine, node: u8, code: &Code) -> Self {
        machine.set_home(Family::DESCRIPTORS, node.into(), node);
        Self {
            machine: Shared::new(machine),
            member: node.into(),
            take_instructions: code.list_buddy_take,
            give_instructions: code.list_buddy_give,
            select_instructions: code.list_buddy_select,
        }
    }
}

impl SimLists {
    #[inline(always)]
    fn line(&self, descriptor: u32) -> Line {
        Line { family: Family::DESCRIPTORS, member: self.member, index: descriptor }
    }
}

impl Machine for SimLists {
    type Lock<T: Send> = SimLock<T>;
    /// Cache lines are the engine's: what else a descriptor holds nobody looks at.
    type Descriptor = Links;

    fn new_lock<T: Send>(&self, whose: LockName, value: T) -> SimLock<T> {
        let class = match whose {
            LockName::Zone => LockClass::Zone,
            LockName::Cpu(_) => LockClass::Cpu,
        };
        SimLock(Mutex::new(self.machine.get(), class, value))
    }

    fn work(&self, _under: LockName, work: Work) {
        if let Some(cpu) = self.machine.get().current() {
            let taken = u64::from(work.taken) * self.take_instructions;
            let given = u64::from(work.given) * self.give_instructions;
            let chosen = u64::from(work.chosen) * self.select_instructions;
            cpu.work(cpu.model().instructions(taken + given + chosen));
        }
    }

    #[inline]
    fn touch(&self, descriptor: u32, touch: Touch) {
        let Some(cpu) = self.machine.get().current() else { return };
        // What is only written to waits in the store buffer, and nobody for it.
        let (access, miss) = match touch {
            Touch::Read => (Access::Read, Miss::Dependent),
            Touch::Change => (Access::Write, Miss::Dependent),
            Touch::Write => (Access::Write, Miss::Independent),
            Touch::Prefetch => (Access::Prefetch, Miss::Independent),
        };
        cpu.touch(self.line(descriptor), access, miss);
    }

    #[inline]
    fn expect(&self, descriptor: u32, kept: &Links) {
        expect(kept);
        if let Some(cpu) = self.machine.get().current() {
            cpu.expect_line(self.line(descriptor));
        }
    }
}

/// A lock of the engine.
pub(super) struct SimLock<T>(Mutex<T>);

impl<T: Send> Lock<T> for SimLock<T> {
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(f)
    }

    #[inline]
    fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_with(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_peers::list_buddy::{BulkFree, ListBuddy, MigrateType, Tuning};
    use framewright_sim::{engine::Program, machine::Spec};

    /// Processes on all CPUs touch 1024 frames and free them; what the zone lock saw.
    fn bursts(bulk_free: BulkFree) -> (u64, engine::LockStats) {
        let spec = Spec::uniform(16).unwrap();
        let machine = engine::Machine::from(&spec);
        let tuning = Tuning { bulk_free, batch: Some(31), high: Some(186), ..Tuning::default() };
        let lists = SimLists::new(&machine, 0, &spec.costs().code);
        let buddy = ListBuddy::on(lists, 1 << 15, 16, &tuning);
        let program = |cpu: usize| -> Program<'_> {
            let (buddy, fault) = (&buddy, spec.costs().fault);
            Box::new(move |simulated| {
                for _ in 0..3 {
                    let touched: Vec<u64> = (0..1024)
                        .map(|_| {
                            simulated.work(fault.service);
                            let frame = buddy.alloc(cpu, 0, MigrateType::Movable).unwrap();
                            simulated.clear_frames(1);
                            frame
                        })
                        .collect();
                    for frame in touched {
                        simulated.work(fault.unmap);
                        buddy.free(cpu, frame, 0).unwrap();
                    }
                }
            })
        };
        machine.run((0..16).map(program).collect()).unwrap();
        buddy.drain_all();
        assert_eq!(buddy.free_frames(), 1 << 15);
        (machine.fingerprint(), machine.lock_stats_of(LockClass::Zone))
    }

    #[test]
    fn a_busy_zone_is_waited_for_and_holds_last_as_long_as_they_touch_lines() {
        let (fingerprint, zone) = bursts(BulkFree::SelectBeforeLock);
        assert!(zone.contended * 2 > zone.acquisitions, "{zone:?}");
        assert!(zone.hold_miss_cycles * 5 > zone.hold_cycles, "{zone:?}");
        assert_eq!(bursts(BulkFree::SelectBeforeLock), (fingerprint, zone));
        let (other, _) = bursts(BulkFree::SelectUnderLock);
        assert_ne!(other, fingerprint);
    }
}
