//! Checks an allocator ([`Memory`](framewright::Memory)) against the oracle.
//!
//! After every step, the allocator checks itself, and the frames and counters of every zone are compared with the
//! oracle. Whenever the lists of all CPUs are empty, the free blocks must be exactly the completely merged blocks
//! that the oracle computes. Then the oracle can also predict the result of a request: the zone, or the reason
//! for the refusal.

use framewright::{AllocError, MigrateType, Order, Request, Watermark};

use super::{
    machine::cpu,
    marks::Marks,
    steps::{Action, Step},
    tally::Numa,
    world::World,
    zone::{Frame, ZoneTruth},
};

/// The reason why no zone serves a request. Either there was no eligible zone, or a zone had enough
/// memory but no block, or the last zone had too little memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    NoZone,
    NoBlock(usize),
    TooLittle(usize),
}

impl World<'_, '_> {
    // ---- predictions --------------------------------------------------------------------------

    /// The zones that the step's request may use on a CPU, best first.
    pub(super) fn eligible(&self, step: Step, by: u16, request: Request) -> Vec<usize> {
        let near = self.memory.node_of(cpu(by));
        self.places.eligible(&self.oracle.zones, near, request, step.placement())
    }

    /// Whether the lists of all CPUs and the depots are empty.
    pub(super) fn lists_are_empty(&self) -> bool {
        self.held() == 0
    }

    /// The number of free frames that count as allocated in their zones.
    pub(super) fn held(&self) -> u64 {
        self.memory.held_by_cpus() + self.memory.in_depots()
    }

    /// The result of a request while the lists of all CPUs are empty. The first zone that stays above low serves
    /// the request. If there is none, the request is served by the first zone that would keep at least the frames
    /// that the request must leave free.
    pub(super) fn predict(&self, step: Step, eligible: &[usize]) -> Result<usize, Refusal> {
        let order = step.order();
        let has_block = |zone: &&usize| self.oracle.zones[**zone].has_block(order);
        for keep in [Self::first_reserve, Self::last_reserve] {
            let enough = |zone: &&usize| self.leaves(**zone, order, keep(self, step, **zone));
            if let Some(zone) = eligible.iter().filter(enough).find(has_block) {
                return Ok(*zone);
            }
        }
        let mut last_try = eligible.iter();
        let enough = |zone: &usize| self.leaves(*zone, order, self.last_reserve(step, *zone));
        match last_try.clone().find(|zone| enough(zone)).or(last_try.next_back()) {
            None => Err(Refusal::NoZone),
            Some(zone) if enough(zone) => Err(Refusal::NoBlock(*zone)),
            Some(zone) => Err(Refusal::TooLittle(*zone)),
        }
    }

    /// The reason why a request was refused, as far as it can be predicted.
    pub(super) fn why(&self, step: Step, error: AllocError) -> Refusal {
        let Some(shortage) = error.shortage() else {
            assert_eq!(error, AllocError::NoZone);
            return Refusal::NoZone;
        };
        assert_eq!((shortage.order, shortage.mark), (step.order(), Watermark::Min));
        assert_eq!(shortage.rounds > 0, step.request().may_wait());
        match error {
            AllocError::BelowWatermark(_) => Refusal::TooLittle(shortage.zone.index()),
            _ => Refusal::NoBlock(shortage.zone.index()),
        }
    }

    /// The zone that serves a request that bypasses the lists, independent of their contents.
    pub(super) fn predict_bypassing_lists(&self, step: Step, eligible: &[usize]) -> Option<usize> {
        [Self::first_reserve, Self::last_reserve].into_iter().find_map(|keep| {
            let serves =
                |zone: &usize| self.can_serve(step.order(), *zone, keep(self, step, *zone));
            eligible.iter().copied().find(serves)
        })
    }

    /// Whether a zone can serve an order from its free area, which does not include the CPU lists,
    /// and keep `reserve` frames.
    fn can_serve(&self, order: Order, zone: usize, reserve: u64) -> bool {
        let counts = self.memory.block_counts(self.ids[zone]);
        let isolated = counts.free[MigrateType::Isolate as usize];
        let has_block = Order::all()
            .filter(|larger| *larger >= order)
            .any(|larger| counts.free_of_order(larger) > isolated[usize::from(larger.get())]);
        has_block && self.leaves(zone, order, reserve)
    }

    /// Whether `reserve` frames of a zone stay free after the allocation of a block.
    fn leaves(&self, zone: usize, order: Order, reserve: u64) -> bool {
        let free = self.memory.zone(self.ids[zone]).unwrap().free;
        i128::from(free) - i128::from(order.frames()) >= i128::from(reserve)
    }

    fn marks(&self, zone: usize) -> Marks {
        Marks::of(&self.memory.zone(self.ids[zone]).unwrap())
    }

    /// The number of frames of a zone that every request tries to leave free.
    fn first_reserve(&self, step: Step, zone: usize) -> u64 {
        let marks = self.marks(zone);
        marks.low + marks.protection[self.highest(step)]
    }

    /// The number of frames of a zone that a request must leave free.
    fn last_reserve(&self, step: Step, zone: usize) -> u64 {
        let marks = self.marks(zone);
        step.share_of_min(marks.min) + marks.protection[self.highest(step)]
    }

    fn highest(&self, step: Step) -> usize {
        step.placement().of(step.request()).highest() as usize
    }

    /// Counts a request on a CPU. `zone` served it, and it preferred `preferred`.
    pub(super) fn count(&mut self, zone: usize, by: u16, preferred: usize) {
        let by_node = self.memory.node_of(cpu(by));
        let served_by = self.oracle.zones[zone].node;
        let is_hit = served_by == self.oracle.zones[preferred].node;
        let by = usize::from(by);
        self.tally.unsure |= self.tally.stale[by];
        self.tally.count(zone, by, |counts| {
            *(if served_by == by_node { &mut counts.local } else { &mut counts.other }) += 1;
            *(if is_hit { &mut counts.hit } else { &mut counts.miss }) += 1;
        });
        if !is_hit {
            self.tally.count(preferred, by, |counts| counts.foreign += 1);
        }
    }

    // ---- after a request ------------------------------------------------------------------------

    /// The number of refills from all zones, and the number of single blocks taken from them.
    pub(super) fn zone_traffic(&self) -> (u64, u64) {
        let stats = self.memory.stats();
        (stats.refills, stats.zone_allocs)
    }

    /// Checks after an allocation that the request left as many frames free in the zone as it must.
    pub(super) fn check_watermark(&self, step: Step, zone: usize) {
        let (free, reserve) =
            (self.memory.zone(self.ids[zone]).unwrap().free, self.last_reserve(step, zone));
        assert!(
            free >= reserve,
            "{free} frames are free after a request that must leave {reserve}"
        );
    }

    /// Checks that no zone could have served a refused request. If the request may wait, all lists
    /// must be empty, too.
    pub(super) fn check_refusal(&self, step: Step, eligible: &[usize], error: AllocError) {
        let request = step.request();
        if request.may_wait() && !eligible.is_empty() {
            assert!(self.lists_are_empty(), "{request:?} was refused while CPUs hold free frames");
        }
        if self.lists_are_empty() {
            let why = self.why(step, error);
            assert_eq!(self.predict(step, eligible), Err(why), "{request:?} of {eligible:?}");
        }
        let serves = |zone: usize| self.last_reserve(step, zone);
        let able = eligible.iter().find(|z| self.can_serve(step.order(), **z, serves(**z)));
        assert_eq!(able, None, "{request:?} was refused by a zone that could serve it: {error}");
    }

    // ---- after every step -----------------------------------------------------------------------

    /// Checks that zones and watermarks are those of the map.
    pub(super) fn check_marks(&self) {
        let zones = &self.oracle.zones;
        for (index, (zone, info)) in zones.iter().zip(self.memory.zones()).enumerate() {
            assert_eq!((info.node, info.kind), (zone.node, zone.kind));
            let span = info.start.get()..info.start.get() + info.spanned;
            assert_eq!(span, zone.span());
            let expected = Marks::expected(zones, index, self.memory.tuning());
            assert_eq!(Marks::of(&info), expected, "{info:?}");
        }
    }

    pub(super) fn check(&mut self) {
        let memory = self.memory;
        memory.check().unwrap_or_else(|violation| panic!("{violation}"));
        let reports = memory.platform().take_reports();
        assert!(reports.is_empty(), "valid frees were reported as bad: {reports:?}");
        for (index, zone) in self.oracle.zones.iter().enumerate() {
            self.check_zone(index, zone);
        }
        self.check_tally();
        assert_eq!(memory.managed(), self.oracle.managed());
        if self.lists_are_empty() {
            assert_eq!(memory.free(), self.oracle.zones.iter().map(ZoneTruth::free).sum::<u64>());
            let largest =
                Order::all().rev().find(|o| self.oracle.zones.iter().any(|z| z.has_block(*o)));
            assert_eq!(memory.largest_free_order(), largest);
        }
    }

    fn check_zone(&self, index: usize, zone: &ZoneTruth) {
        let info = self.memory.zone(self.ids[index]).unwrap();
        let counts = self.memory.block_counts(self.ids[index]);
        let stats = self.memory.zone_stats(self.ids[index]);
        let used = zone.count(Frame::Used);
        assert_eq!(info.managed, zone.managed());
        let held = info.held_by_cpus + info.in_depot;
        assert_eq!(
            counts.free_frames() + held + used,
            info.managed,
            "frames do not add up: {info:?}"
        );
        assert_eq!(
            stats.pgalloc - stats.pgfree,
            used,
            "allocated frames are counted wrongly: {info:?}"
        );
        if held > 0 {
            return;
        }
        assert_eq!(info.free, zone.free(), "free frames are counted wrongly: {info:?}");
        let isolated = counts.free[MigrateType::Isolate as usize];
        assert_eq!(isolated, zone.blocks(true), "lost blocks in isolated pageblocks: {info:?}");
        let listed = Order::all().map(|order| counts.free_of_order(order)).zip(isolated);
        let listed: Vec<u64> = listed.map(|(all, isolated)| all - isolated).collect();
        assert_eq!(listed, zone.blocks(false), "unmerged or lost blocks: {info:?}");
    }

    fn check_tally(&mut self) {
        let memory = self.memory;
        let of_zones = self.ids.iter().map(|id| Numa::of(&memory.zone_stats(*id)));
        let of_cpus = (0..memory.cpu_count()).map(|i| memory.cpu_stats(cpu(i)).unwrap());
        let of_cpus = of_cpus.map(|stats| Numa::of(&stats));
        let expected = self.tally.zones.iter_mut().chain(&mut self.tally.cpus);
        for (expected, numa) in expected.zip(of_zones.chain(of_cpus)) {
            if self.tally.unsure && numa.is_like(expected) {
                *expected = numa;
            }
            assert_eq!(numa, *expected, "the NUMA counters are wrong");
        }
        self.tally.unsure = false;
    }

    /// Frees all frames, and checks that they merge.
    pub(super) fn end(mut self) {
        while let Some(last) = self.isolated.len().checked_sub(1) {
            self.step(Step::simple(Action::UndoIsolate, last as u16));
        }
        while !self.extents.is_empty() {
            self.step(Step::simple(Action::FreeExtent, 0));
        }
        while !self.blocks.is_empty() {
            self.step(Step::simple(Action::Free, 0));
        }
        self.tokens.clear();
        self.drain_all();
        self.check();
        assert_eq!(self.memory.free(), self.oracle.managed());
    }
}
