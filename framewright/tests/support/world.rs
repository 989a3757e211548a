//! A memory and its oracle, and what the steps do to both.

use framewright::{
    Block, CpuToken, IsolateError, IsolatedBlock, Layout, Memory, MemoryRange, Order, Pfn, Request,
    tuning::Hardening,
};

use super::{
    machine::{Machine, Metadata, cpu},
    oracle::{Frame, Oracle},
    setup::Setup,
    steps::{Action, Step},
};

/// Runs what some bytes spell: the door of the fuzzer.
pub fn run_bytes(bytes: &[u8]) {
    let (setup, rest) = Setup::from_bytes(bytes);
    run(&setup, &Step::from_bytes(rest));
}

/// Runs all of it; panics where memory and oracle disagree.
pub fn run(setup: &Setup, steps: &[Step]) {
    let map = setup.map();
    let config = setup.config(&map);
    let layout = Layout::new::<Machine>(&config).expect("the map is valid");
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
pub struct World<'a, 'm> {
    pub(super) memory: &'a Memory<'m, Machine>,
    pub(super) oracle: Oracle,
    /// None: offline.
    pub(super) tokens: Vec<Option<CpuToken<'a, 'm, Machine>>>,
    pub(super) blocks: Vec<Block<'m>>,
    pub(super) isolated: Vec<IsolatedBlock<'m>>,
    /// Freed last.
    pub(super) freed: Vec<(Pfn, Order)>,
    checked: bool,
    pub(super) paranoid: bool,
}

impl<'a, 'm> World<'a, 'm> {
    fn new(memory: &'a Memory<'m, Machine>, map: &[MemoryRange]) -> Self {
        let tokens = (0..memory.cpu_count()).map(|i| memory.cpu(cpu(i)).ok()).collect();
        Self {
            memory,
            oracle: Oracle::new(map),
            tokens,
            blocks: Vec::new(),
            isolated: Vec::new(),
            freed: Vec::new(),
            checked: memory.tuning().hardening != Hardening::Off,
            paranoid: memory.tuning().hardening == Hardening::Paranoid,
        }
    }

    pub(super) fn step(&mut self, step: Step) {
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
        if self.paranoid {
            // What an owner writes is not taken for damage later.
            self.memory.platform().write(block.pfn(), block.order(), 1);
        }
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
        let cleared = self.memory.platform().take_cleared();
        let zeroed = captured.iter().filter(|_| request.is_zeroed());
        assert_eq!(cleared, zeroed.map(|block| (block.pfn(), block.order())).collect::<Vec<_>>());
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
    pub(super) fn disown(&mut self, pick: u16) -> Option<Block<'m>> {
        let index = usize::from(pick).checked_rem(self.blocks.len())?;
        let block = self.blocks.swap_remove(index);
        self.oracle.release(block.pfn(), block.order());
        self.freed.push((block.pfn(), block.order()));
        Some(block)
    }

    // ---- drains, pageblocks, CPUs -------------------------------------------------------------

    pub(super) fn drain_all(&self) {
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
    pub(super) fn token(&mut self, step: Step) -> &mut CpuToken<'a, 'm, Machine> {
        let wanted = usize::from(self.cpu_of(step));
        let online = |i: &usize| self.tokens[*i].is_some();
        let i = [wanted].into_iter().chain(0..self.tokens.len()).find(online);
        let i = i.expect("a CPU stays online");
        self.tokens[i].as_mut().expect("it is online")
    }
}
