//! A run of the classic design, with a zone per node. A CPU tries the zone of its own node first.

use framewright::{FrameRange, MigrateType, Order, Pfn, Request, ZoneKind};
use framewright_peers::Worker;
use framewright_peers::list_buddy::{
    self, Links, ListBuddy, Lock, LockName, Machine as ListMachine, Touch, Tuning, Work,
};
use framewright_sim::{
    engine::{Access, Family, Line, LockClass, Machine, Miss, Mutex, Options, Shared},
    host_memory::prefetch,
    machine::{Code, Spec},
};

use super::refused;
use super::{
    Column, Simulation,
    column::Nodes,
    driver::{Driver, Subject, heat},
};
use crate::Error;
use crate::perfetto::zone_name;
use crate::samples::{MemoryState, Watch, Watcher};
use crate::workloads::{
    Counts, Window, Workload,
    world::{Allocator, Frames},
};

/// Runs one tuning with one seed.
pub(super) fn run(
    simulation: &Simulation,
    work: &Workload,
    column: &Column,
    seed: u64,
    tuning: Tuning,
    watch: Watch<'_>,
) -> Result<Window, Error> {
    let spec = &simulation.spec;
    let nodes = Nodes::new(spec, simulation.frames());
    let machine = Machine::modelled(spec.into(), Options { seed, ..Options::default() });
    let zones = Zones::new(spec, &nodes, &machine, &tuning)?;
    let watcher = Watcher::start(watch, &machine, &column.title(seed));
    if let Some(recorder) = watcher.recorder() {
        let names = nodes.ranges().map(|(node, _)| zone_name(node, ZoneKind::Normal.name()));
        recorder.name_zone_locks(names);
    }
    let driver = Driver {
        work,
        spec,
        machine: &machine,
        plan: simulation.plan,
        nodes: &nodes,
        heat: &heat(spec, &nodes)?,
        watcher: &watcher,
    };
    let window = driver.run(&Subject {
        cpu_handle: &|cpu| Lists::new(&zones, &machine, spec, cpu),
        counts: &|| zones.counts(),
        held: &|| zones.held(spec.cpus()),
        wrong: &|| Ok(()),
        // Its amounts are under its locks.
        levels: &Vec::new,
        state: &|| zones.state(),
    });
    let window = window.map_err(|failure| column.broken(seed, failure))?;
    match zones.missing() {
        0 => Ok(window),
        missing => {
            let frames = nodes.frames();
            Err(column.broken(seed, format_args!("{missing} of {frames} frames are not free")))
        }
    }
}

/// The zones of all nodes that have memory.
pub(crate) struct Zones(Vec<Zone>);

struct Zone {
    node: u8,
    /// Its frames in the numbering of the machine; the allocator's own numbers start at 0.
    frames: FrameRange,
    buddy: ListBuddy<SimLists>,
}

impl Zones {
    /// Zones of free frames.
    pub(crate) fn new(
        spec: &Spec,
        nodes: &Nodes,
        machine: &Machine,
        tuning: &Tuning,
    ) -> Result<Self, Error> {
        const MOST: u64 = 1 << 31;
        let zone = |(node, frames): (u8, FrameRange)| {
            if frames.frames() >= MOST {
                return Err(refused(spec, &"list-buddy has 31 bits for the frames of a node"));
            }
            let lists = SimLists::new(machine, node, &spec.costs().code);
            let cpus = usize::from(spec.cpus());
            let buddy = ListBuddy::on(lists, frames.frames(), cpus, tuning)?;
            Ok(Zone { node, frames, buddy })
        };
        Ok(Self(nodes.ranges().map(zone).collect::<Result<_, _>>()?))
    }

    /// The counters of all zones.
    pub(crate) fn counts(&self) -> Counts {
        let stats = self.0.iter().map(|zone| Counts::from(zone.buddy.stats()));
        stats.fold(Counts::default(), |sum, zone| sum + zone)
    }

    fn held(&self, cpus: u16) -> u64 {
        let of = |zone: &Zone| -> u64 {
            (0..cpus).map(|cpu| u64::from(zone.buddy.held(cpu.into()))).sum()
        };
        self.0.iter().map(of).sum()
    }

    /// The state of memory; `None` while a lock is held.
    pub(crate) fn state(&self) -> Option<MemoryState> {
        let counts = self.0.iter().map(|zone| zone.buddy.try_counts());
        let counts: Vec<_> = counts.collect::<Option<_>>()?;
        Some(MemoryState::of_blocks(
            counts.iter().map(|(blocks, _)| *blocks),
            counts.iter().map(|(_, held)| u64::from(*held)).sum(),
            self.0.iter().map(|zone| zone.frames.frames()).sum(),
        ))
    }

    /// Empties the lists of all CPUs.
    pub(crate) fn drain(&self) {
        self.0.iter().for_each(|zone| zone.buddy.drain_all());
    }

    /// Frames that are not free once all lists are empty.
    pub(crate) fn missing(&self) -> u64 {
        self.drain();
        let of = |zone: &Zone| zone.frames.frames() - u64::from(zone.buddy.free_frames());
        self.0.iter().map(of).sum()
    }

    fn zone_of(&self, frame: u64) -> &Zone {
        let after = self.0.partition_point(|zone| zone.frames.start().get() <= frame);
        &self.0[after - 1]
    }
}

/// The handle of one CPU.
pub(crate) struct Lists<'z> {
    zones: &'z Zones,
    machine: &'z Machine,
    cpu: usize,
    /// Indices of zones, nearest first.
    order: Vec<usize>,
}

impl<'z> Lists<'z> {
    /// The handle of CPU `cpu`.
    pub(crate) fn new(zones: &'z Zones, machine: &'z Machine, spec: &Spec, cpu: u16) -> Self {
        let mut order: Vec<usize> = (0..zones.0.len()).collect();
        let from = spec.node_of(cpu);
        order.sort_by_key(|&zone| {
            let node = zones.0[zone].node;
            (spec.topology().distance(from, node), node)
        });
        Self { zones, machine, cpu: cpu.into(), order }
    }

    /// Takes a block from the nearest zone that has one. Returns its first frame.
    fn take(&self, order: u8, of: list_buddy::MigrateType) -> Option<u64> {
        self.order.iter().find_map(|&zone| {
            let Zone { frames, buddy, .. } = &self.zones.0[zone];
            Some(frames.start().get() + buddy.alloc(self.cpu, order, of)?)
        })
    }

    fn give(&self, frame: u64, order: u8) {
        let zone = self.zones.zone_of(frame);
        let freed = zone.buddy.free(self.cpu, frame - zone.frames.start().get(), order);
        // A block is freed once; a refused free shows in the check of frames at the end.
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

impl Worker for Lists<'_> {
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.take(order, list_buddy::MigrateType::Movable)
    }

    fn alloc_typed(&mut self, order: u8, of: list_buddy::MigrateType) -> Option<u64> {
        self.take(order, of)
    }

    unsafe fn free(&mut self, frame: u64, order: u8) {
        self.give(frame, order);
    }
}

/// Frames of the classic design.
pub(crate) struct ListBlock {
    /// The first frame, in the numbering of the machine.
    pub(crate) frame: u64,
    pub(crate) order: u8,
}

impl Frames for ListBlock {
    fn pfn(&self) -> Pfn {
        Pfn::new(self.frame)
    }

    fn order(&self) -> Order {
        Order::new(self.order).unwrap_or_default()
    }
}

impl Allocator for Lists<'_> {
    type Block = ListBlock;

    fn alloc(&mut self, request: Request) -> Result<ListBlock, String> {
        let (order, of) = (request.order().get(), migratetype(request.migratetype()));
        let frame = self.take(order, of);
        let frame = frame.ok_or_else(|| format!("no zone has a block of order {order}"))?;
        if request.is_zeroed()
            && let Some(cpu) = self.machine.current()
        {
            cpu.clear_frames(1 << order);
        }
        Ok(ListBlock { frame, order })
    }

    fn free(&mut self, block: ListBlock) {
        self.give(block.frame, block.order);
    }

    /// Frees one block after the other, with prefetches: descriptors are scattered over the memory
    /// of this host.
    fn free_batch(&mut self, blocks: &mut [Option<ListBlock>]) {
        const AHEAD: usize = 4;
        for place in 0..blocks.len() {
            if let Some(Some(soon)) = blocks.get(place + AHEAD) {
                let zone = self.zones.zone_of(soon.frame);
                zone.buddy.expect(soon.frame - zone.frames.start().get());
            }
            if let Some(block) = blocks[place].take() {
                self.give(block.frame, block.order);
            }
        }
    }
}

/// A migratetype as the classic design names it.
pub(crate) fn migratetype(of: MigrateType) -> list_buddy::MigrateType {
    match of {
        MigrateType::Unmovable => list_buddy::MigrateType::Unmovable,
        MigrateType::Reclaimable => list_buddy::MigrateType::Reclaimable,
        _ => list_buddy::MigrateType::Movable,
    }
}

/// The machine below a `ListBuddy` whose frames are in the memory of one node.
pub(super) struct SimLists {
    machine: Shared,
    /// The number of this allocator in the family of cache lines of descriptors.
    member: u32,
    take_instructions: u64,
    give_instructions: u64,
    select_instructions: u64,
}

impl SimLists {
    /// A machine for `node`, at most one per node, with the costs in `code`.
    #[must_use]
    pub(super) fn new(machine: &Machine, node: u8, code: &Code) -> Self {
        machine.set_home_node(Family::DESCRIPTORS, node.into(), node);
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

impl ListMachine for SimLists {
    type Lock<T: Send> = SimLock<T>;
    /// The engine models the cache lines; the rest of a descriptor is not used.
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
        // A write waits in the store buffer, and the CPU does not wait for it.
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
        prefetch(kept);
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
    use framewright_sim::{
        engine::{LockStats, Program},
        machine::Spec,
    };

    /// Processes on all CPUs touch 1024 frames and free them. Returns the fingerprint of the run,
    /// and the counts of the zone lock.
    fn bursts(bulk_free: BulkFree) -> (u64, LockStats) {
        let spec = Spec::uniform(16).unwrap();
        let machine = Machine::from(&spec);
        let tuning = Tuning { bulk_free, batch: Some(31), high: Some(186), ..Tuning::default() };
        let lists = SimLists::new(&machine, 0, &spec.costs().code);
        let buddy = ListBuddy::on(lists, 1 << 15, 16, &tuning).unwrap();
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
    fn cpus_wait_for_a_busy_zone_and_holds_last_as_long_as_their_cache_misses() {
        let (fingerprint, zone) = bursts(BulkFree::SelectBeforeLock);
        assert!(zone.contended * 2 > zone.acquisitions, "{zone:?}");
        assert!(zone.hold_miss_cycles * 5 > zone.hold_cycles, "{zone:?}");
        assert_eq!(bursts(BulkFree::SelectBeforeLock), (fingerprint, zone));
        let (other, _) = bursts(BulkFree::SelectUnderLock);
        assert_ne!(other, fingerprint);
    }
}
