//! Operations from plain numbers, run on a memory and on the oracle side by side.
//!
//! After every step the memory checks itself (I1, I2, I9), frames and counters are balanced
//! against the oracle, and whenever nothing is on the lists of any CPU the free blocks must be
//! exactly those that the oracle would merge (I2).

use framewright::{
    AllocError, Block, CpuToken, FrameRange, FreeError, IsolateError, IsolatedBlock, Layout,
    Memory, MigrateType, Order, Pfn, Request, tuning::Hardening,
};

use super::{
    machine::{Machine, Metadata, cpu},
    oracle::{Frame, Oracle},
    setup::Setup,
};

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Alloc,
    AllocMany,
    AllocAt,
    Free,
    FreeMany,
    FreeRaw,
    FreeCapturing,
    Adopt,
    Split,
    Drain,
    DrainCpu,
    DrainAll,
    Isolate,
    UndoIsolate,
    Offline,
    Online,
    FreeTwice,
    FreeWrongOrder,
    FreeAnywhere,
}

impl Action {
    /// All, the frequent ones several times.
    pub const MIX: [Action; 32] = {
        use Action::*;
        [
            Alloc,
            Alloc,
            Alloc,
            Alloc,
            Alloc,
            AllocMany,
            AllocMany,
            AllocMany,
            AllocAt,
            Free,
            Free,
            Free,
            Free,
            FreeMany,
            FreeMany,
            FreeMany,
            FreeRaw,
            FreeRaw,
            FreeCapturing,
            Adopt,
            Split,
            Split,
            Drain,
            DrainCpu,
            DrainAll,
            Isolate,
            UndoIsolate,
            Offline,
            Online,
            FreeTwice,
            FreeWrongOrder,
            FreeAnywhere,
        ]
    };
}

/// One operation. What a number means depends on the action; each is reduced to its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub action: Action,
    pub cpu: u8,
    pub order: u8,
    pub flags: u8,
    pub pick: u16,
}

/// Bytes that spell one step.
const STEP_BYTES: usize = 5;
/// Steps a fuzzer may ask for, so that one input takes milliseconds.
const STEPS_MAX: usize = 200;

impl Step {
    fn order(self) -> Order {
        Order::new(self.order % 10).unwrap_or(Order::ZERO)
    }

    fn migratetype(self) -> MigrateType {
        MigrateType::REQUESTABLE[usize::from(self.flags & 3) % 3]
    }

    fn request(self) -> Request {
        let request = Request::new(self.order(), self.migratetype());
        let request = if self.flags & 4 == 0 { request } else { request.zeroed() };
        match self.flags >> 3 & 7 {
            0 => request.no_wait(),
            1 => request.urgent(),
            2 => request.atomic(),
            3 => request.no_retry(),
            4 => request.retry_may_fail(),
            _ => request,
        }
    }

    /// The steps that some bytes spell.
    pub fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        let step = |b: &[u8]| Self {
            action: Action::MIX[usize::from(b[0]) % Action::MIX.len()],
            cpu: b[0] >> 5,
            order: b[1],
            flags: b[2],
            pick: u16::from_le_bytes([b[3], b[4]]),
        };
        bytes.chunks_exact(STEP_BYTES).take(STEPS_MAX).map(step).collect()
    }
}

/// Runs what some bytes spell: the door of the fuzzer.
pub fn run_bytes(bytes: &[u8]) {
    let (setup, rest) = Setup::from_bytes(bytes);
    run(&setup, &Step::from_bytes(rest));
}

/// Runs all of it; panics where memory and oracle disagree.
pub fn run(setup: &Setup, steps: &[Step]) {
    let map = setup.map();
    let config = setup.config(&map);
    let layout = Layout::new(&config).expect("the map is valid");
    let mut metadata = Metadata::new(layout.bytes());
    let machine = Machine::new(setup.owner_lock());
    let memory = Memory::new(machine, &config, metadata.as_mut()).expect("the buffer suffices");
    let mut world = World::new(&memory, &map);
    world.check();
    for &step in steps {
        world.step(step);
        world.check();
    }
    world.end();
}

/// A memory, what is known about it, and what is owned of it.
struct World<'a, 'm> {
    memory: &'a Memory<'m, Machine>,
    oracle: Oracle,
    /// None: offline.
    tokens: Vec<Option<CpuToken<'a, 'm, Machine>>>,
    blocks: Vec<Block<'m>>,
    isolated: Vec<IsolatedBlock<'m>>,
    /// Freed last.
    freed: Vec<(Pfn, Order)>,
    checked: bool,
}

impl<'a, 'm> World<'a, 'm> {
    fn new(memory: &'a Memory<'m, Machine>, map: &[FrameRange]) -> Self {
        let tokens = (0..memory.cpu_count()).map(|i| memory.cpu(cpu(i)).ok()).collect();
        Self {
            memory,
            oracle: Oracle::new(map),
            tokens,
            blocks: Vec::new(),
            isolated: Vec::new(),
            freed: Vec::new(),
            checked: memory.tuning().hardening == Hardening::Checked,
        }
    }

    fn step(&mut self, step: Step) {
        let pick = usize::from(step.pick);
        match step.action {
            Action::Alloc => self.alloc(step),
            Action::AllocMany => self.alloc_many(step, 1 + pick % 200),
            Action::AllocAt => self.alloc_at(step),
            Action::Free => self.free(step),
            Action::FreeMany => self.free_many(step, 1 + pick % 200),
            Action::FreeRaw => self.free_raw(step),
            Action::FreeCapturing => self.free_capturing(step),
            Action::Adopt => self.adopt(step),
            Action::Split => self.split(step),
            Action::Drain => self.token(step).drain(),
            Action::DrainCpu => self.memory.drain_cpu(cpu(self.cpu_of(step))).unwrap(),
            Action::DrainAll => self.drain_all(),
            Action::Isolate => self.isolate(step),
            Action::UndoIsolate => self.undo_isolate(step),
            Action::Offline => self.offline(step),
            Action::Online => self.online(step),
            Action::FreeTwice if self.checked => self.free_twice(step),
            Action::FreeWrongOrder if self.checked => self.free_wrong_order(step),
            Action::FreeAnywhere if self.checked => self.free_anywhere(step),
            Action::FreeTwice | Action::FreeWrongOrder | Action::FreeAnywhere => {}
        }
    }

    // ---- allocating -------------------------------------------------------------------------

    fn alloc(&mut self, step: Step) {
        let request = step.request();
        let before = self.memory.stats();
        let result = self.token(step).alloc(request);
        let after = self.memory.stats();
        let cleared = self.memory.platform().take_cleared();
        match result {
            Ok(block) => {
                let expected = request.is_zeroed().then(|| (block.pfn(), block.order()));
                assert_eq!(cleared, Vec::from_iter(expected));
                assert_eq!(block.order(), request.order());
                assert!(!self.oracle.is_isolated(block.pfn().get()), "withheld, yet handed out");
                self.own(block);
                if (after.refills, after.zone_allocs) != (before.refills, before.zone_allocs) {
                    self.check_watermark(step);
                }
            }
            Err(error) => {
                assert!(cleared.is_empty());
                self.check_refusal(step, error);
            }
        }
    }

    /// Invariant I4: whoever took from the zone left what it had to leave.
    fn check_watermark(&self, step: Step) {
        let zone = self.memory.zone();
        assert!(
            i128::from(zone.free) >= self.reserve(step),
            "{} frames are free after a request that must leave {}",
            zone.free,
            self.reserve(step)
        );
    }

    /// Frames that a request must leave free at the least.
    fn reserve(&self, step: Step) -> i128 {
        let min = i128::from(self.memory.zone().min);
        match step.flags >> 3 & 7 {
            1 => min - min / 2,
            2 => min - min / 2 - (min - min / 2) / 4,
            _ => min,
        }
    }

    /// A request that may do everything is refused only if nothing could have served it.
    fn check_refusal(&self, step: Step, error: AllocError) {
        let request = step.request();
        if !request.may_wait() {
            return;
        }
        let zone = self.memory.zone();
        assert_eq!(zone.held_by_cpus, 0, "refused while CPUs hold free frames");
        let too_little =
            i128::from(zone.free) - i128::from(request.order().frames()) < self.reserve(step);
        let too_small = !self.oracle.has_block(request.order());
        match error {
            AllocError::BelowWatermark(_) => assert!(too_little, "{request:?}: {error}"),
            AllocError::NoBlockOfOrder(_) => assert!(too_small, "{request:?}: {error}"),
            AllocError::NotRequestable(_) => panic!("{request:?}: {error}"),
        }
    }

    fn alloc_many(&mut self, step: Step, count: usize) {
        let mut slots: Vec<Option<Block<'m>>> = (0..count).map(|_| None).collect();
        let order = Order::new(step.order % 4).unwrap_or(Order::ZERO);
        let request = Request::new(order, step.migratetype());
        let filled = self.token(step).alloc_bulk(request, &mut slots);
        assert_eq!(filled, slots.iter().flatten().count());
        slots.into_iter().flatten().for_each(|block| self.own(block));
    }

    fn alloc_at(&mut self, step: Step) {
        let order = step.order();
        let managed = self.oracle.pageblocks().count() as u64 * 512;
        let first = self.oracle.pageblocks().next().unwrap_or(0);
        let frame = u64::from(step.pick) * 37 % managed;
        let pfn = Pfn::new(first + frame).align_down(order);
        let of = step.migratetype();
        let spare = self.oracle.all(pfn, order, Frame::Spare);
        let held = self.memory.held_by_cpus();
        match self.token(step).alloc_at(pfn, order, of) {
            Some(block) => {
                assert_eq!((block.pfn(), block.order()), (pfn, order));
                self.own(block);
            }
            None => assert!(!spare || held > 0, "{order:?} at {pfn} is free"),
        }
    }

    fn own(&mut self, block: Block<'m>) {
        self.oracle.take(block.pfn(), block.order());
        self.blocks.push(block);
    }

    // ---- freeing ----------------------------------------------------------------------------

    fn free(&mut self, step: Step) {
        if let Some(block) = self.disown(step.pick) {
            self.token(step).free(block).expect("the block is of this memory");
        }
    }

    fn free_many(&mut self, step: Step, count: usize) {
        let mut slots: Vec<_> =
            (0..count).map(|i| self.disown(step.pick.wrapping_mul(i as u16))).collect();
        self.token(step).free_bulk(&mut slots);
        assert!(slots.iter().all(Option::is_none), "a block was left over");
    }

    fn free_raw(&mut self, step: Step) {
        if let Some(block) = self.disown(step.pick) {
            let (pfn, order) = block.into_raw();
            // SAFETY: it was a block until just now.
            let result = unsafe { self.token(step).free_raw(pfn, order) };
            assert_eq!(result, Ok(()));
        }
    }

    fn free_capturing(&mut self, step: Step) {
        let Some(block) = self.disown(step.pick) else { return };
        let (freed, order) = (block.pfn(), block.order());
        let request = step.request();
        let captured = self.token(step).free_capturing(block, request).expect("it is ours");
        if let Some(block) = captured {
            let wanted = block.order();
            assert_eq!(wanted, request.order());
            assert!(wanted >= order && freed.align_down(wanted) == block.pfn());
            assert!(!self.oracle.is_isolated(block.pfn().get()), "withheld, yet captured");
            self.own(block);
        }
    }

    fn adopt(&mut self, step: Step) {
        if self.blocks.is_empty() {
            return;
        }
        let block = self.blocks.swap_remove(usize::from(step.pick) % self.blocks.len());
        let (pfn, order) = block.into_raw();
        // SAFETY: it was a block until just now.
        let block = unsafe { self.token(step).adopt(pfn, order) };
        let block = block.expect("it was a block until just now");
        assert_eq!((block.pfn(), block.order()), (pfn, order));
        self.blocks.push(block);
    }

    fn split(&mut self, step: Step) {
        if self.blocks.is_empty() {
            return;
        }
        let block = self.blocks.swap_remove(usize::from(step.pick) % self.blocks.len());
        let (pfn, order) = (block.pfn(), block.order());
        match self.token(step).split(block) {
            Ok((low, high)) => {
                let half = Order::new(order.get() - 1).expect("an order below");
                assert_eq!((low.pfn(), low.order()), (pfn, half));
                assert_eq!((high.pfn(), high.order()), (pfn.offset(half.frames()), half));
                self.blocks.extend([low, high]);
            }
            Err(block) => {
                assert_eq!((block.pfn(), block.order()), (pfn, Order::ZERO));
                self.blocks.push(block);
            }
        }
    }

    /// Some block, which the caller frees.
    fn disown(&mut self, pick: u16) -> Option<Block<'m>> {
        let index = usize::from(pick).checked_rem(self.blocks.len())?;
        let block = self.blocks.swap_remove(index);
        self.oracle.release(block.pfn(), block.order());
        self.freed.push((block.pfn(), block.order()));
        Some(block)
    }

    // ---- drains, pageblocks, CPUs -------------------------------------------------------------

    fn drain_all(&self) {
        self.memory.drain_all();
        assert_eq!(self.memory.held_by_cpus(), 0, "drained, yet CPUs hold frames");
    }

    fn isolate(&mut self, step: Step) {
        let pageblocks: Vec<u64> = self.oracle.pageblocks().collect();
        let pageblock = pageblocks[usize::from(step.pick) % pageblocks.len()];
        let pfn = pageblock + u64::from(step.pick) % 512;
        let in_map = self.oracle.at(pfn) != Frame::Hole;
        let held = self.memory.held_by_cpus();
        match self.memory.isolate(Pfn::new(pfn)) {
            Ok(block) => {
                assert!(in_map && block.range().start().get() == pageblock);
                self.oracle.isolate(pageblock);
                self.isolated.push(block);
            }
            Err(IsolateError::NotOurs) => assert!(!in_map),
            Err(IsolateError::AlreadyIsolated) => assert!(self.oracle.is_isolated(pfn)),
            Err(IsolateError::Pinned { frames }) => {
                let used = self.oracle.count_in(pageblock, Frame::Used);
                assert!(u64::from(frames) <= used + held, "{frames} pinned, {used} used");
            }
        }
    }

    fn undo_isolate(&mut self, step: Step) {
        if let Some(i) = usize::from(step.pick).checked_rem(self.isolated.len()) {
            let block = self.isolated.swap_remove(i);
            self.oracle.undo_isolate(block.range().start().get());
            self.memory.undo_isolate(block).expect("it is ours");
        }
    }

    fn offline(&mut self, step: Step) {
        let i = self.cpu_of(step);
        if self.tokens.iter().flatten().count() > 1 && self.tokens[usize::from(i)].is_some() {
            assert!(self.memory.cpu_offline(cpu(i)).is_err(), "its token is in use");
            self.tokens[usize::from(i)] = None;
            self.memory.cpu_offline(cpu(i)).expect("nobody uses it");
            assert!(self.memory.cpu(cpu(i)).is_err(), "it is offline");
        }
    }

    fn online(&mut self, step: Step) {
        let i = self.cpu_of(step);
        self.memory.cpu_online(cpu(i)).expect("it exists");
        let token = &mut self.tokens[usize::from(i)];
        assert!(token.is_none() || self.memory.cpu(cpu(i)).is_err(), "a second token");
        if token.is_none() {
            *token = Some(self.memory.cpu(cpu(i)).expect("it is online and nobody uses it"));
        }
    }

    fn cpu_of(&self, step: Step) -> u16 {
        u16::from(step.cpu) % self.memory.cpu_count()
    }

    /// The token of the CPU asked for, or of the first one that is online.
    fn token(&mut self, step: Step) -> &mut CpuToken<'a, 'm, Machine> {
        let wanted = usize::from(self.cpu_of(step));
        let online = |i: &usize| self.tokens[*i].is_some();
        let i = [wanted].into_iter().chain(0..self.tokens.len()).find(online);
        let i = i.expect("a CPU stays online");
        self.tokens[i].as_mut().expect("it is online")
    }

    // ---- abuse, at `checked` ------------------------------------------------------------------

    fn free_twice(&mut self, step: Step) {
        let Some(i) = usize::from(step.pick).checked_rem(self.freed.len()) else { return };
        let (pfn, order) = self.freed[i];
        // Handed out again in the meantime it would be somebody else's, and right.
        if !(0..order.frames()).any(|i| self.oracle.at(pfn.get() + i) == Frame::Used) {
            self.abuse(step, pfn, order);
        }
    }

    fn free_wrong_order(&mut self, step: Step) {
        let Some(i) = usize::from(step.pick).checked_rem(self.blocks.len()) else { return };
        let (pfn, order) = (self.blocks[i].pfn(), self.blocks[i].order());
        if step.order() != order {
            self.abuse(step, pfn, step.order());
        }
    }

    fn free_anywhere(&mut self, step: Step) {
        let first = self.oracle.pageblocks().next().unwrap_or(0);
        let pfn = Pfn::new((first + u64::from(step.pick) % 4000).saturating_sub(300));
        let order = step.order();
        let is_right = self.blocks.iter().any(|b| b.pfn() == pfn && b.order() == order);
        if !is_right {
            self.abuse(step, pfn, order);
        }
    }

    /// A raw free that must be refused, at once or when it reaches the zone.
    fn abuse(&mut self, step: Step, pfn: Pfn, order: Order) {
        self.memory.platform().take_reports();
        // SAFETY: there is no excuse, but at `checked` the library says it will notice; and
        // these frames exist in arithmetic only.
        let result = unsafe { self.token(step).free_raw(pfn, order) };
        self.drain_all();
        let reports = self.memory.platform().take_reports();
        let in_map = (0..order.frames()).all(|i| self.oracle.at(pfn.get() + i) != Frame::Hole);
        if !pfn.is_aligned(order) {
            assert_eq!(result, Err(FreeError::Misaligned));
        } else if !in_map {
            assert_eq!(result, Err(FreeError::NotOurs));
        } else {
            let reported: u32 = reports.iter().map(|report| report.count).sum();
            assert_eq!(reported, 1, "{order:?} at {pfn}: {result:?}, {reports:?}");
        }
    }

    // ---- checks -----------------------------------------------------------------------------

    fn check(&self) {
        let memory = self.memory;
        memory.check().unwrap_or_else(|violation| panic!("{violation}"));
        let (zone, used) = (memory.zone(), self.oracle.count(Frame::Used));
        assert_eq!(zone.managed, self.oracle.managed());
        let counts = memory.block_counts();
        assert_eq!(counts.free_frames() + zone.held_by_cpus + used, zone.managed, "I1");
        let stats = memory.stats();
        assert_eq!(stats.pgalloc - stats.pgfree, used, "I9");
        let reports = memory.platform().take_reports();
        assert!(reports.is_empty(), "nobody did wrong: {reports:?}");
        if zone.held_by_cpus > 0 {
            return;
        }
        assert_eq!(zone.free + self.oracle.withheld() + used, zone.managed, "I1");
        let isolated = counts.free[MigrateType::Isolate as usize];
        assert_eq!(isolated, self.oracle.blocks(true), "I2, isolated pageblocks");
        let listed = Order::all().map(|order| counts.free_of_order(order)).zip(isolated);
        let listed: Vec<u64> = listed.map(|(all, isolated)| all - isolated).collect();
        let expected = self.oracle.blocks(false);
        assert_eq!(listed, expected, "I2, unmerged or lost blocks");
        let largest = Order::all().rev().find(|order| expected[usize::from(order.get())] > 0);
        assert_eq!(memory.largest_free_order(), largest);
    }

    /// Everything comes back, and all of it merges.
    fn end(mut self) {
        while let Some(i) = self.isolated.len().checked_sub(1) {
            let step =
                Step { action: Action::UndoIsolate, cpu: 0, order: 0, flags: 0, pick: i as u16 };
            self.step(step);
        }
        while let Some(block) = self.disown(0) {
            let step = Step { action: Action::Free, cpu: 0, order: 0, flags: 0, pick: 0 };
            self.token(step).free(block).expect("the block is of this memory");
        }
        self.tokens.clear();
        self.drain_all();
        self.check();
        assert_eq!(self.memory.zone().free, self.oracle.managed());
    }
}
