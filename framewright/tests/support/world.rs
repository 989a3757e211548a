//! An allocator and its oracle, and the effects of steps on both.

use std::collections::BTreeSet;

use framewright::{
    Block, CpuToken, Extent, IsolateError, IsolatedBlock, Layout, Memory, Order, Pfn, Request,
    ZoneId, tuning::Hardening,
};

use super::{
    machine::{Machine, Metadata, cpu},
    oracle::Oracle,
    places::Places,
    setup::{Parts, Setup},
    steps::{Action, Step},
    tally::Tally,
    zone::Frame,
};

/// Runs the setup and steps in some bytes. This is the entry point of the fuzzer.
pub fn run_bytes(bytes: &[u8]) {
    let (setup, rest) = Setup::from_bytes(bytes);
    run(&setup, &Step::from_bytes(rest));
}

/// Runs all steps. Panics if memory and oracle disagree.
pub fn run(setup: &Setup, steps: &[Step]) {
    let parts = setup.parts();
    let config = parts.config();
    let layout = Layout::new::<Machine>(&config).expect("the map is valid");
    let mut metadata = Metadata::new(layout.bytes());
    let machine = Machine::new(setup.owner_lock()).keeping_reports();
    let memory = Memory::new(machine, &config, metadata.as_mut()).expect("the buffer suffices");
    let mut world = World::new(&memory, &parts);
    world.own_in_use(&parts.map);
    world.check_marks();
    world.check();
    for &step in steps {
        world.step(step);
        world.check();
    }
    world.end();
}

/// An allocator, its oracle, and the allocated blocks and extents.
pub struct World<'a, 'm> {
    pub(super) memory: &'a Memory<'m, Machine>,
    pub(super) oracle: Oracle,
    pub(super) places: Places,
    pub(super) tally: Tally,
    /// The numbers of the zones, in the order of the oracle.
    pub(super) ids: Vec<ZoneId>,
    /// The token of each CPU; `None` if it is offline.
    pub(super) tokens: Vec<Option<CpuToken<'a, 'm, Machine>>>,
    pub(super) blocks: Vec<Block<'m>>,
    pub(super) extents: Vec<Extent<'m>>,
    /// Isolated pageblocks, with the number of their zone.
    pub(super) isolated: Vec<(IsolatedBlock<'m>, usize)>,
    /// The last freed blocks.
    pub(super) freed: Vec<(Pfn, Order)>,
    /// The first frames of pageblocks that were reported as free and have not been used since.
    pub(super) reported: BTreeSet<Pfn>,
    pub(super) checked: bool,
    paranoid: bool,
    /// Whether every bad free is refused at the call.
    pub(super) tracked: bool,
}

impl<'a, 'm> World<'a, 'm> {
    pub fn new(memory: &'a Memory<'m, Machine>, parts: &Parts) -> Self {
        let tokens = (0..memory.cpu_count()).map(|i| memory.cpu(cpu(i)).ok()).collect();
        let oracle = Oracle::new(&parts.map);
        let places = Places::new(&oracle.zones, parts);
        let ids: Vec<ZoneId> = memory.zones().map(|zone| zone.id).collect();
        assert_eq!(ids.len(), oracle.zones.len());
        Self {
            memory,
            places,
            tally: Tally::new(ids.len(), usize::from(memory.cpu_count())),
            oracle,
            ids,
            tokens,
            blocks: Vec::new(),
            extents: Vec::new(),
            isolated: Vec::new(),
            freed: Vec::new(),
            reported: BTreeSet::new(),
            checked: memory.tuning().hardening != Hardening::Off,
            paranoid: memory.tuning().hardening == Hardening::Paranoid,
            tracked: memory.tuning().hardening >= Hardening::Tracked,
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        let pick = usize::from(step.pick);
        match step.action {
            Action::Alloc => self.alloc(step),
            Action::AllocAfterDrain => {
                self.drain_all();
                self.alloc(step);
            }
            Action::AllocMany => self.alloc_many(step, 1 + pick % 200),
            Action::AllocAt => self.alloc_at(step),
            Action::AllocBypassingLists => self.alloc_bypassing_lists(step),
            Action::Free => self.free(step),
            Action::FreeMany => self.free_many(step, 1 + pick % 200),
            Action::FreeRaw => self.free_raw(step),
            Action::FreeCapturing => self.free_capturing(step),
            Action::FreeBypassingLists => self.free_bypassing_lists(step),
            Action::Adopt => self.adopt(step),
            Action::Split => self.split(step),
            Action::Drain => self.token(step).drain(),
            Action::DrainCpu => self.memory.drain_cpu(cpu(self.cpu_of(step))).unwrap(),
            Action::DrainAll => self.drain_all(),
            Action::Trim => self.token(step).trim(),
            Action::TrimAll => self.memory.trim_all(),
            Action::AllocLargest => self.alloc_largest(step),
            Action::ReportFree => self.report_free(step),
            Action::AllocRange => self.alloc_range(step),
            Action::AllocContiguous => self.alloc_contiguous(step),
            Action::FreeExtent => self.free_extent(step),
            Action::AddMemory => self.add_memory(step),
            Action::RemoveMemory => self.remove_memory(step),
            Action::SetType => self.set_type(step),
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
        let request = step.placement().of(step.request());
        let by = self.online_cpu(step);
        let eligible = self.eligible(step, by, request);
        let predicted = self.lists_are_empty().then(|| self.predict(step, &eligible));
        if self.lists_are_empty() {
            // With empty lists, the CPU looks up its nearest zone.
            self.tally.stale[usize::from(by)] = false;
        }
        let before = self.zone_traffic();
        let result = self.token(step).alloc(request);
        let cleared = self.memory.platform().take_cleared();
        match result {
            Ok(block) => {
                let expected = request.is_zeroed().then(|| (block.pfn(), block.order()));
                assert_eq!(cleared, Vec::from_iter(expected));
                assert_eq!(block.order(), request.order());
                let zone = self.own(block, by, &eligible);
                if let Some(predicted) = predicted {
                    assert_eq!(predicted, Ok(zone), "{request:?} of {eligible:?}");
                }
                if before != self.zone_traffic() {
                    self.check_watermark(step, zone);
                }
            }
            Err(error) => {
                assert!(cleared.is_empty());
                if let Some(predicted) = predicted {
                    let why = self.why(step, error);
                    assert_eq!(predicted, Err(why), "{request:?} of {eligible:?}");
                }
                self.check_refusal(step, &eligible, error);
            }
        }
    }

    fn alloc_many(&mut self, step: Step, count: usize) {
        let mut slots: Vec<Option<Block<'m>>> = (0..count).map(|_| None).collect();
        let order = Order::new(step.order % 4).unwrap_or(Order::ZERO);
        let request = step.placement().of(Request::new(order, step.migratetype()));
        let by = self.online_cpu(step);
        let eligible = self.eligible(step, by, request);
        let filled = self.token(step).alloc_bulk(request, &mut slots);
        assert_eq!(filled, slots.iter().flatten().count());
        for block in slots.into_iter().flatten() {
            assert_eq!(block.order(), order);
            self.own(block, by, &eligible);
        }
    }

    fn alloc_at(&mut self, step: Step) {
        let order = step.order();
        let pfn = self.oracle.some_frame(step.pick).align_down(order);
        let by = self.online_cpu(step);
        let spare = self.oracle.is_allocatable(pfn, order);
        let held = self.held();
        match self.token(step).alloc_at(pfn, order, step.migratetype()) {
            Ok(block) => {
                assert_eq!((block.pfn(), block.order()), (pfn, order));
                assert!(spare, "{order:?} at {pfn} was allocated although it was not free");
                let zone = self.oracle.zone_of(pfn).expect("a zone of its own");
                self.own_named(block, by, zone);
            }
            Err(_) => assert!(!spare || held > 0, "{order:?} at {pfn} is free"),
        }
    }

    /// Allocates and bypasses the lists. CPU 0 counts the request.
    fn alloc_bypassing_lists(&mut self, step: Step) {
        let request = step.placement().of(step.request());
        let eligible = self.eligible(step, 0, request);
        // Blocks in depots are returned to the buddy, so they may serve the request, too.
        let mut predicted = Some(self.predict_bypassing_lists(step, &eligible));
        predicted = predicted.filter(|_| self.memory.in_depots() == 0);
        let result = self.memory.alloc_bypassing_lists(request);
        self.memory.platform().take_cleared();
        match result {
            Ok(block) => {
                let zone = self.own(block, 0, &eligible);
                let predicted = predicted.unwrap_or(Some(zone));
                assert_eq!(predicted, Some(zone), "{request:?} of {eligible:?}");
                self.check_watermark(step, zone);
            }
            Err(_) => {
                let predicted =
                    predicted.unwrap_or_else(|| self.predict_bypassing_lists(step, &eligible));
                assert_eq!(predicted, None, "{request:?} of {eligible:?}");
            }
        }
    }

    fn use_block(&mut self, block: Block<'m>) {
        self.use_frames(block.pfn(), block.order().frames());
        self.blocks.push(block);
    }

    /// Records the use of frames. Their pageblocks no longer count as reported.
    pub(super) fn use_frames(&mut self, first: Pfn, frames: u64) {
        let pageblocks = first.align_down(Order::PAGEBLOCK)..first.offset(frames);
        self.reported.retain(|pageblock| !pageblocks.contains(pageblock));
        if self.paranoid {
            // A write by the owner must not count as damage after the free.
            (0..frames).for_each(|i| self.memory.platform().write(first.offset(i), Order::ZERO, 1));
        }
    }

    /// Records the block of a request for the `eligible` zones. Returns its zone.
    pub(super) fn own(&mut self, block: Block<'m>, by: u16, eligible: &[usize]) -> usize {
        assert!(!self.oracle.is_isolated(block.pfn()), "allocated although isolated");
        let zone = self.oracle.take(block.pfn(), block.order());
        assert!(eligible.contains(&zone), "served by zone {zone}; could use {eligible:?} only");
        self.count(zone, by, eligible[0]);
        self.use_block(block);
        zone
    }

    /// Records a block that was allocated at a given place.
    fn own_named(&mut self, block: Block<'m>, by: u16, zone: usize) {
        assert_eq!(self.oracle.take(block.pfn(), block.order()), zone);
        self.count(zone, by, zone);
        self.use_block(block);
    }

    // ---- freeing ----------------------------------------------------------------------------

    fn free(&mut self, step: Step) {
        if let Some(block) = self.disown(step.pick) {
            self.token(step).free(block).expect("the block is of this allocator");
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
            // SAFETY: the frames were a block just before.
            let result = unsafe { self.token(step).free_raw(pfn, order) };
            assert_eq!(result, Ok(()));
        }
    }

    fn free_bypassing_lists(&mut self, step: Step) {
        if let Some(block) = self.disown(step.pick) {
            self.memory.free_bypassing_lists(block).expect("the block is of this allocator");
        }
    }

    fn free_capturing(&mut self, step: Step) {
        let Some(block) = self.disown(step.pick) else { return };
        let (freed, order) = (block.pfn(), block.order());
        let (request, by) = (step.request(), self.online_cpu(step));
        let captured =
            self.token(step).free_capturing(block, request).expect("it is of this allocator");
        let cleared = self.memory.platform().take_cleared();
        let zeroed = captured.iter().filter(|_| request.is_zeroed());
        assert_eq!(cleared, zeroed.map(|block| (block.pfn(), block.order())).collect::<Vec<_>>());
        if let Some(block) = captured {
            let wanted = block.order();
            assert_eq!(wanted, request.order());
            assert!(wanted >= order && freed.align_down(wanted) == block.pfn());
            assert!(!self.oracle.is_isolated(block.pfn()), "captured although isolated");
            let zone = self.oracle.zone_of(freed).expect("it was allocated");
            self.own_named(block, by, zone);
        }
    }

    fn adopt(&mut self, step: Step) {
        if self.blocks.is_empty() {
            return;
        }
        let block = self.blocks.swap_remove(usize::from(step.pick) % self.blocks.len());
        let (pfn, order) = block.into_raw();
        // SAFETY: the frames were a block just before.
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

    /// Removes a block. The caller frees it.
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
        assert!(self.lists_are_empty(), "CPUs or depots hold frames after a drain");
    }

    fn isolate(&mut self, step: Step) {
        let pfn = self.oracle.some_frame(step.pick);
        let of = self.oracle.zone_of(pfn);
        let pageblock = pfn.align_down(Order::PAGEBLOCK).get();
        let held = self.held();
        match self.memory.isolate(pfn) {
            Ok(block) => {
                let in_zone = |frame: &u64| self.oracle.zone_of(Pfn::new(*frame)) == of;
                let frames: Vec<u64> = (pageblock..pageblock + 512).filter(in_zone).collect();
                assert_eq!(frames.first(), Some(&block.range().start().get()));
                assert_eq!(frames.last(), Some(&(block.range().end().get() - 1)));
                let zone = of.expect("the frame exists");
                self.oracle.zones[zone].isolate(pageblock);
                self.isolated.push((block, zone));
            }
            Err(IsolateError::NotOurs) => assert_eq!(of, None),
            Err(IsolateError::AlreadyIsolated) => assert!(self.oracle.is_isolated(pfn)),
            Err(IsolateError::Unmovable { frames }) => {
                let zone = &self.oracle.zones[of.expect("the frame exists")];
                let used = zone.count_in(pageblock, Frame::Used);
                assert!(u64::from(frames) <= used + held, "{frames} pinned, {used} used");
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn set_type(&mut self, step: Step) {
        let (pfn, to) = (self.oracle.some_frame(step.pick), step.migratetype());
        let can = self.oracle.zone_of(pfn).is_some() && !self.oracle.is_isolated(pfn);
        assert_eq!(self.memory.set_pageblock_type(pfn, to), can);
        if can {
            assert_eq!(self.memory.pageblock_type(pfn), Some(to));
        }
    }

    fn undo_isolate(&mut self, step: Step) {
        if let Some(i) = usize::from(step.pick).checked_rem(self.isolated.len()) {
            let (block, zone) = self.isolated.swap_remove(i);
            self.oracle.zones[zone]
                .undo_isolate(block.range().start().align_down(Order::PAGEBLOCK).get());
            self.memory.undo_isolate(block).expect("it is of this allocator");
        }
    }

    fn offline(&mut self, step: Step) {
        let i = self.cpu_of(step);
        if self.tokens.iter().flatten().count() > 1 && self.tokens[usize::from(i)].is_some() {
            assert!(
                self.memory.cpu_offline(cpu(i)).is_err(),
                "CPU {i} went offline although its token is in use"
            );
            self.tokens[usize::from(i)] = None;
            self.memory.cpu_offline(cpu(i)).expect("its token is not in use");
            assert!(
                self.memory.cpu(cpu(i)).is_err(),
                "CPU {i} gave a token although it is offline"
            );
        }
    }

    fn online(&mut self, step: Step) {
        let i = self.cpu_of(step);
        self.memory.cpu_online(cpu(i)).expect("it exists");
        let token = &mut self.tokens[usize::from(i)];
        assert!(token.is_none() || self.memory.cpu(cpu(i)).is_err(), "a second token");
        if token.is_none() {
            *token = Some(self.memory.cpu(cpu(i)).expect("it is online and not claimed"));
        }
    }

    fn cpu_of(&self, step: Step) -> u16 {
        u16::from(step.cpu) % self.memory.cpu_count()
    }

    /// The CPU of the step if it is online, or else the first online CPU.
    pub(super) fn online_cpu(&self, step: Step) -> u16 {
        let online = |i: &u16| self.tokens[usize::from(*i)].is_some();
        let i = [self.cpu_of(step)].into_iter().chain(0..self.memory.cpu_count()).find(online);
        i.expect("a CPU stays online")
    }

    /// The token of [`World::online_cpu`].
    pub(super) fn token(&mut self, step: Step) -> &mut CpuToken<'a, 'm, Machine> {
        let i = usize::from(self.online_cpu(step));
        self.tokens[i].as_mut().expect("it is online")
    }
}
