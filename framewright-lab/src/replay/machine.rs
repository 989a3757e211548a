//! The library: a memory and the tokens of all its CPUs.

use framewright::{
    Block, CpuId, CpuToken, Memory, MigrateType, Order, Pfn, Platform, Request, ZoneId, ZoneKind,
    observe::Corruption,
    platform::{BarrierTarget, Cost, OwnerLock, Probe, Section, Wait},
    sync::{PlainWord, SpinFlag},
};
use framewright_sim::machine::Costs;
use rustc_hash::FxHashMap;
use std::{
    fmt::Display,
    mem,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    allocator::Allocator,
    holds::{Holds, OwnLock},
    lists,
    map::PageblockMap,
    plan::ZonePlan,
    tracks::Hold,
};
use crate::{
    Error,
    samples::{FreeMemory, MemoryState},
    trace::GfpFlags,
};

/// All CPUs of one memory.
pub(super) struct Machine<'a, 'm> {
    memory: &'a Memory<'m, Serial>,
    cpus: Vec<CpuToken<'a, 'm, Serial>>,
    /// By CPU, when [`Allocator::new_fallbacks`] was called last: all holds of zone locks, and the pageblocks claimed
    /// and blocks stolen by this CPU.
    fallbacks: Vec<(u64, [u64; 2])>,
    /// By number of the zone, its free memory when it was counted last, and all holds of its lock until then.
    counted: FxHashMap<usize, (u64, FreeMemory)>,
}

/// The error for a memory that the library refuses.
pub(super) fn refused(frames: u64, cpus: u16, reason: &dyn Display) -> Error {
    let of = format_args!("cannot set up a memory of {frames} frames and {cpus} CPUs");
    Error::input(format_args!("{of}: {reason}"))
}

impl<'a, 'm> Machine<'a, 'm> {
    /// Claims CPUs 0 to `cpus` of `memory`.
    pub(super) fn new(memory: &'a Memory<'m, Serial>, cpus: u16) -> Result<Self, Error> {
        let claimed: Result<Vec<_>, _> = (0..cpus).map(|cpu| memory.cpu(CpuId::new(cpu))).collect();
        match claimed {
            Ok(tokens) => {
                let fallbacks = vec![(0, [0; 2]); cpus.into()];
                Ok(Self { memory, cpus: tokens, fallbacks, counted: FxHashMap::default() })
            }
            Err(error) => Err(refused(memory.managed(), cpus, &error)),
        }
    }

    /// The memory.
    pub(super) fn memory(&self) -> &'a Memory<'m, Serial> {
        self.memory
    }

    /// The zone of the memory that corresponds to a planned zone.
    pub(super) fn id_of(&self, zone: &ZonePlan) -> Option<ZoneId> {
        let mut zones = self.memory.zones();
        zones.find(|of| (of.node, of.kind) == (zone.node, zone.kind)).map(|of| of.id)
    }

    /// The free memory of a zone. It is counted again only if the zone lock was held in the meantime, because nothing
    /// changes it without the lock.
    fn free_in(&mut self, zone: ZoneId) -> FreeMemory {
        let holds = || self.memory.platform().holds.begun_of(zone);
        if let Some((at, free)) = self.counted.get(&zone.index())
            && holds() == Some(*at)
        {
            return free.clone();
        }
        let free = FreeMemory::of_counts(&self.memory.block_counts(zone));
        // Counting holds the lock, too.
        if let Some(holds) = holds() {
            self.counted.insert(zone.index(), (holds, free.clone()));
        }
        free
    }

    /// Allocates exactly this block, if it is free.
    pub(super) fn alloc_at(
        &mut self,
        pfn: Pfn,
        order: Order,
        of: MigrateType,
    ) -> Option<Block<'m>> {
        self.cpus[0].alloc_at(pfn, order, of).ok()
    }

    /// The token of a CPU.
    pub(super) fn token(&mut self, cpu: u16) -> &mut CpuToken<'a, 'm, Serial> {
        &mut self.cpus[usize::from(cpu)]
    }
}

impl<'m> Allocator for Machine<'_, 'm> {
    type Block = Block<'m>;

    fn cpus(&self) -> u16 {
        self.cpus.len() as u16
    }

    fn set_time(&mut self, nanos: u64) {
        self.memory.platform().set_time(nanos);
    }

    fn trim(&mut self, cpu: u16) {
        self.token(cpu).trim();
    }

    fn alloc(&mut self, cpu: u16, request: Request) -> Option<Block<'m>> {
        self.cpus[usize::from(cpu)].alloc(request).ok()
    }

    fn free(&mut self, cpu: u16, block: Block<'m>) {
        let freed = self.cpus[usize::from(cpu)].free(block);
        debug_assert!(freed.is_ok(), "the block is of another memory");
    }

    fn split(&mut self, block: Block<'m>) -> (Block<'m>, Block<'m>) {
        // The recorded machine freed a part of a block. Its kernel takes no zone lock to split the block.
        self.memory.platform().uncounted(|| match self.cpus[0].split(block) {
            Ok(halves) => halves,
            Err(block) => unreachable!("a block of order {} has halves", block.order()),
        })
    }

    fn raise_high(&mut self, zone: &ZonePlan, cpu: u16) {
        lists::widen(self, zone, cpu);
    }

    fn place(&mut self, block: &PageblockMap) -> Vec<Block<'m>> {
        lists::place(self, block)
    }

    fn fill(&mut self, cpu: u16, zone: &ZonePlan, blocks: Vec<Block<'m>>) {
        lists::fill(self, cpu, zone, blocks);
    }

    fn new_fallbacks(&mut self, cpu: u16) -> [u64; 2] {
        // A fallback is made under a zone lock. Most requests take none, and reading all counters takes time.
        let (holds, before) = &mut self.fallbacks[usize::from(cpu)];
        let now = self.memory.platform().holds.begun();
        if mem::replace(holds, now) == now {
            return [0; 2];
        }
        let stats = self.memory.cpu_stats(CpuId::new(cpu)).unwrap_or_default();
        let [claims, steals] = mem::replace(before, [stats.claims, stats.steals]);
        [stats.claims - claims, stats.steals - steals]
    }

    fn zone_lock_acquisitions(&self) -> u64 {
        self.memory.stats().zone_lock_acquisitions
    }

    fn take_holds(&mut self) -> Vec<Hold> {
        self.memory.platform().take_holds()
    }

    fn state(&mut self) -> MemoryState {
        let memory = self.memory;
        memory.platform().uncounted(|| MemoryState::with(memory, |zone| self.free_in(zone)))
    }
}

/// A platform whose CPUs take turns on one thread. Frames have no contents.
#[derive(Debug, Default)]
pub(crate) struct Serial {
    nanos: AtomicU64,
    costs: Costs,
    holds: Holds,
}

impl Serial {
    /// A platform with the costs of a machine.
    pub(super) fn new(costs: Costs) -> Self {
        Self { costs, ..Self::default() }
    }

    /// The use of the lock of a zone so far.
    pub(super) fn lock(&self, zone: ZoneId) -> OwnLock {
        let (holds, tenths) = self.holds.of(zone);
        OwnLock { holds, hold_nanos: self.nanos_of(tenths) }
    }

    /// The modelled time of tenths of instructions.
    fn nanos_of(&self, tenths: u64) -> u64 {
        let cycles = self.costs.instructions(tenths / 10);
        match self.costs.clock.frequency_mhz {
            0 => 0,
            _ => self.costs.nanos_of_cycles(cycles),
        }
    }

    /// Logs single holds from now on, or does not.
    pub(super) fn log_holds(&self, is_on: bool) {
        self.holds.log(is_on);
    }

    /// Removes and returns the logged holds.
    fn take_holds(&self) -> Vec<Hold> {
        let hold = |(zone, tenths)| Hold { zone, nanos: self.nanos_of(tenths) };
        self.holds.take().into_iter().map(hold).collect()
    }

    /// Runs `body` without counting its holds of zone locks: the recorded machine had none for it.
    pub(super) fn uncounted<R>(&self, body: impl FnOnce() -> R) -> R {
        self.holds.uncounted(body)
    }

    /// Sets the clock to the recorded time.
    pub(super) fn set_time(&self, nanos: u64) {
        self.nanos.store(nanos, Ordering::Relaxed);
    }
}

// SAFETY: the lock is the library's own, which excludes. This platform is private to replays and to
// the simulation of `inspect`, which run all CPUs on one thread, in program order: actions of one CPU
// are visible to the next without a barrier, and a remote barrier needs no action.
unsafe impl Platform for Serial {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = ();

    fn irq_save(&self) -> Self::Irq {}

    fn irq_restore(&self, (): Self::Irq) {}

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, _target: BarrierTarget) {}

    fn wait(&self, _why: Wait, _spins: u32) {
        std::hint::spin_loop();
    }

    unsafe fn clear(&self, _pfn: Pfn, _order: Order) {}

    unsafe fn copy(&self, _to: Pfn, _from: Pfn) {}

    fn now(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    /// A replay frees blocks, never raw frames.
    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl Probe for Serial {
    const LISTENING: bool = true;

    #[inline]
    fn cost(&self, cost: Cost, count: u32) {
        let tenths = || {
            let tenths = framewright_sim::platform::tenths(&self.costs.library, cost);
            tenths * u64::from(count)
        };
        self.holds.add(tenths, cost == Cost::ZoneHold);
    }

    #[inline]
    fn enter(&self, section: Section) {
        if let Section::Zone(zone) = section {
            self.holds.begin(zone);
        }
    }

    #[inline]
    fn leave(&self, section: Section) {
        if let Section::Zone(zone) = section {
            self.holds.end(zone);
        }
    }
}

/// The highest zone that a recorded caller could use.
pub(super) fn highest(gfp: GfpFlags) -> ZoneKind {
    if gfp.contains(GfpFlags::DMA) {
        ZoneKind::Dma
    } else if gfp.contains(GfpFlags::DMA32) {
        ZoneKind::Dma32
    } else if gfp.contains(GfpFlags::HIGHMEM | GfpFlags::MOVABLE) {
        ZoneKind::Movable
    } else {
        ZoneKind::Normal
    }
}

/// The recorded caller's request.
///
/// `__GFP_NOFAIL` becomes *retry, may fail*: on one thread a wait would never end.
pub(super) fn request(order: Order, migratetype: u8, gfp: GfpFlags) -> Request {
    let of = MigrateType::from_number(migratetype).filter(|of| of.is_requestable());
    let mut request = Request::new(order, of.unwrap_or(MigrateType::Movable));
    let wants = |flag| gfp.contains(flag);
    let waits = wants(GfpFlags::DIRECT_RECLAIM);
    request = match (wants(GfpFlags::HIGH) || wants(GfpFlags::MEMALLOC), waits) {
        (true, false) => request.atomic(),
        (true, true) => request.urgent(),
        (false, false) => request.no_wait(),
        (false, true) => request,
    };
    if wants(GfpFlags::ZERO) {
        request = request.zeroed();
    }
    if wants(GfpFlags::NORETRY) {
        request = request.no_retry();
    }
    if wants(GfpFlags::RETRY_MAYFAIL) || wants(GfpFlags::NOFAIL) {
        request = request.retry_may_fail();
    }
    request
}

#[cfg(test)]
pub(super) mod tests {
    use std::mem::MaybeUninit;

    use framewright::{Config, FrameRange, Layout, Pfn};

    use super::*;

    /// Runs `f` on a machine of one CPU and this number of pageblocks.
    pub(in crate::replay) fn with_machine(pageblocks: u64, f: impl FnOnce(&mut Machine<'_, '_>)) {
        let range = FrameRange::new(Pfn::new(0), Pfn::new(pageblocks << 9)).unwrap();
        let ranges = [range.into()];
        let config = Config::new(&ranges, 1);
        let layout = Layout::new::<Serial>(&config).unwrap();
        let mut buffer = vec![MaybeUninit::uninit(); layout.bytes() + layout.align()];
        let skip = buffer.as_ptr().align_offset(layout.align());
        let memory = Memory::new(Serial::default(), &config, &mut buffer[skip..]).unwrap();
        f(&mut Machine::new(&memory, 1).unwrap());
        memory.check().unwrap();
    }

    #[test]
    fn the_free_memory_at_each_moment_is_that_of_a_new_count() {
        with_machine(8, |machine| {
            let mut blocks = Vec::new();
            for step in 0..400u16 {
                let order = Order::new((step % 11) as u8 / 2).unwrap();
                let request = Request::new(order, MigrateType::REQUESTABLE[usize::from(step % 3)]);
                blocks.extend(machine.alloc(0, request));
                if step % 3 == 2 {
                    let block = blocks.swap_remove(blocks.len() / 2);
                    machine.free(0, block);
                }
                let memory = machine.memory();
                assert_eq!(machine.state().free, MemoryState::of(memory).free, "step {step}");
                assert_eq!(machine.state().free, machine.state().free, "step {step}");
            }
            let counted = machine.memory().platform().holds.begun();
            machine.state();
            assert_eq!(machine.memory().platform().holds.begun(), counted, "counted again");
            blocks.into_iter().for_each(|block| machine.free(0, block));
        });
    }
}
