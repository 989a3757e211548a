//! A simulated machine as a world.

use framewright::{
    CpuId, Pfn,
    tlb::{CpuMask, FlushBatch, Shootdown, Translation},
};
use framewright_sim::{
    engine::{Cpu, Machine, WaitQueue},
    platform::Simulated,
    process::{Process, Shooter},
};

use super::world::{OnCpu, World};

/// See the module.
pub(super) struct SimulatedWorld<'w, 'm> {
    machine: &'w Machine,
    shooter: Shooter<'w, 'm>,
    idle: WaitQueue,
    paused: WaitQueue,
}

impl<'w, 'm> SimulatedWorld<'w, 'm> {
    pub(super) fn new(machine: &'w Machine, shooter: Shooter<'w, 'm>) -> Self {
        Self { machine, shooter, idle: WaitQueue::default(), paused: WaitQueue::default() }
    }
}

impl<'w> World for SimulatedWorld<'w, '_> {
    type Platform = Simulated;
    type Cpu = Cpu<'w>;
    type Space = Process;
    const IS_REAL_TIME: bool = false;

    fn current(&self) -> Option<Cpu<'w>> {
        self.machine.current()
    }

    fn ticks(&self, nanos: u64) -> u64 {
        nanos * 1000 / self.machine.model().nanos_per_1000_cycles.max(1)
    }

    fn watch(&self) -> u64 {
        self.current().map_or(0, |cpu| cpu.now())
    }

    fn elapsed(&self, since: u64) -> u64 {
        let cycles = u128::from(self.watch() - since);
        (cycles * u128::from(self.machine.model().nanos_per_1000_cycles) / 1000) as u64
    }

    fn shootdown(&self) -> &dyn Shootdown {
        &self.shooter
    }

    fn enter(&self, cpu: Cpu<'w>, space: &Process) {
        self.shooter.run_on(cpu, space);
    }

    fn unmap(
        &self,
        cpu: Cpu<'w>,
        process: &Process,
        page: u32,
        frame: Pfn,
        batch: &mut FlushBatch<'_, '_, Simulated>,
    ) {
        let space = process.space();
        space.advance_generation(cpu);
        let cpus = CpuMask::from_words(space.cpus(cpu).words());
        let translation = Translation {
            cpus: &cpus,
            writable: true,
            dirty: true,
            space: space.id().number(),
            page: page.into(),
            space_flush: space.owed(),
            file_flush: None,
        };
        batch.add(frame, &translation);
    }

    fn wait_for_work(&self, cpu: Cpu<'w>, time: u64) {
        cpu.wait_on_until(&self.idle, time);
    }

    fn wake_worker(&self, cpu: Cpu<'w>) {
        self.idle.wake_all(cpu);
    }

    fn wait_paused(&self, cpu: Cpu<'w>, time: u64) {
        cpu.wait_on_until(&self.paused, time);
    }

    fn wake_paused(&self, cpu: Cpu<'w>) {
        self.paused.wake_all(cpu);
    }
}

impl OnCpu for Cpu<'_> {
    fn id(&self) -> CpuId {
        Cpu::id(self)
    }

    fn now(&self) -> u64 {
        Cpu::now(self)
    }

    fn work(&self, ticks: u64) {
        Cpu::work(self, ticks);
    }

    fn step(&self) {
        Cpu::step(self);
    }

    fn sleep_until(&self, time: u64) {
        Cpu::sleep_until(self, time);
    }
}
