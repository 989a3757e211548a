//! The library with a page cache on a machine, and what one CPU of it does for both.

use std::cell::Cell;

use framewright::{
    CpuId, CpuToken, Memory, NodeId, Order, Pfn, Request, ZoneId, ZoneKind,
    platform::{Need, Relief},
    reclaim::{Kswapd, PageKind, PageOwner, Reclaim, Rest, Shadow, WriteError},
    tlb::{BatchSlot, Flusher, Shootdown},
};

use super::{
    AreaId, FileId, FileTrouble, FlushCosts, PageCache, StoreError, Supply, Touched, Written,
    owner::{self, Owner},
    shootdown::Counted,
};
use crate::{
    engine::{Cpu, Machine, WaitQueue},
    platform::{LentRelief, Simulated},
    process::{Access, FrameSource, SpaceId},
};

/// Pages that are made clean with one flush.
const CLEANED_AT_ONCE: usize = 32;
/// Cycles that are spent on writing at a time, about: 0.4 ms.
const WRITES: u64 = 1_000_000;
/// One frame in so many may be dirty before somebody writes in the background: Linux's
/// `dirty_background_ratio` of 10 %.
const BACKGROUND_SHARE: u64 = 10;

/// What CPUs share. Made outside a run, lent to the machine for one.
pub struct Keep<'k, 'm> {
    machine: &'k Machine,
    memory: &'k Memory<'m, Simulated>,
    cache: &'k PageCache,
    shootdown: &'k Counted<'k, 'm>,
    reclaim: Reclaim<'k, 'm, Simulated>,
    /// CPUs that have nothing to do, by number.
    idle: Vec<WaitQueue>,
    /// By node.
    backgrounds: Vec<Background<'k, 'm>>,
    /// Requests that had to reclaim themselves.
    stalls: Cell<u64>,
}

/// Parts of a [`Keep`] that it borrows.
pub struct Parts<'p, 'm> {
    /// The machine.
    pub machine: &'p Machine,
    /// Its memory, made with LRU lists.
    pub memory: &'p Memory<'m, Simulated>,
    /// The cache above it.
    pub cache: &'p PageCache,
    /// The place where the memory's platform looks for relief.
    pub relief: &'p LentRelief,
}

impl<'p, 'm> Parts<'p, 'm> {
    /// Runs `body` with the parts put together: interrupts are served, and requests that are short
    /// of memory reclaim.
    ///
    /// # Panics
    ///
    /// If the memory has no LRU lists.
    pub fn together<R>(&self, body: impl FnOnce(&Keep<'_, 'm>) -> R) -> R {
        let owner = Owner::new(self.cache, self.machine);
        let owner: &dyn PageOwner<Simulated> = &owner;
        let shootdown = Counted::new(self.memory, self.cache.mmu());
        let dynamic: &dyn Shootdown = &shootdown;
        let reclaim = Reclaim::new(self.memory, owner, dynamic).expect("LRU lists");
        let nodes = &self.machine.model().nodes;
        let last = nodes.iter().max().copied().unwrap_or_default();
        let keep = Keep {
            machine: self.machine,
            memory: self.memory,
            cache: self.cache,
            shootdown: &shootdown,
            reclaim,
            idle: nodes.iter().map(|_| WaitQueue::default()).collect(),
            backgrounds: (0..=last).map(|node| Background::new(reclaim, nodes, node)).collect(),
            stalls: Cell::new(0),
        };
        self.relief.lend(&keep, || body(&keep))
    }
}

impl<'k, 'm> Keep<'k, 'm> {
    /// The seat of a CPU.
    ///
    /// # Panics
    ///
    /// If somebody has it.
    #[must_use]
    pub fn seat(&self, cpu: CpuId) -> Seat<'_, 'k, 'm> {
        let serves = |background: &&Background<'_, '_>| background.cpus.contains(&cpu);
        let background = self.backgrounds.iter().find(serves);
        let token = self.memory.cpu(cpu).expect("a CPU of its own");
        Seat { hands: Hands { keep: self, token }, background, running: None }
    }

    /// Reclaim, for who wants to look at its books.
    #[must_use]
    pub fn reclaim(&self) -> Reclaim<'k, 'm, Simulated> {
        self.reclaim
    }

    /// What flushes took so far.
    #[must_use]
    pub fn flush_costs(&self) -> FlushCosts {
        self.shootdown.costs()
    }

    /// Requests that had to reclaim themselves.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls.get()
    }

    fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'm, Simulated> {
        self.memory.flusher(cpu, self.shootdown)
    }

    fn current(&self) -> Cpu<'_> {
        self.machine.current().expect("on a CPU")
    }
}

impl Relief for Keep<'_, '_> {
    fn reclaims_in_background(&self) -> bool {
        true
    }

    fn wake(&self, node: NodeId, order: Order, highest: ZoneKind) {
        let Some(background) = self.backgrounds.get(node.index()) else { return };
        if self.reclaim.wake(node, order, highest) {
            let cpu = self.current();
            background.due.set(cpu.now());
            self.idle[background.turn().index()].wake_all(cpu);
        }
    }

    fn reclaim(&self, need: &Need, frames: u64) -> u64 {
        self.stalls.set(self.stalls.get() + 1);
        self.reclaim.direct(need, frames)
    }

    fn reclaimable(&self, zone: ZoneId) -> Option<u64> {
        Some(self.reclaim.reclaimable(zone))
    }
}

/// Background reclaim of a node. It wanders from one of its CPUs to the next, a step on each, as a
/// scheduler would move it that has as many programs as CPUs besides.
struct Background<'k, 'm> {
    /// None while a CPU is at it.
    kswapd: Cell<Option<Kswapd<'k, 'm, Simulated>>>,
    cpus: Vec<CpuId>,
    turn: Cell<usize>,
    /// When there is something to do for it.
    due: Cell<u64>,
}

impl<'k, 'm> Background<'k, 'm> {
    /// That of a node: on its CPUs, or on the machine's first if it has none.
    fn new(reclaim: Reclaim<'k, 'm, Simulated>, nodes: &[u8], node: u8) -> Self {
        let near = (0..).zip(nodes).filter(|&(_, &of)| of == node);
        let mut cpus: Vec<CpuId> = near.map(|(cpu, _)| CpuId::new(cpu)).collect();
        if cpus.is_empty() {
            cpus.push(CpuId::new(0));
        }
        let kswapd = NodeId::new(node).and_then(|node| reclaim.kswapd(node));
        Self { kswapd: Cell::new(kswapd), cpus, turn: Cell::new(0), due: Cell::new(u64::MAX) }
    }

    /// The CPU whose turn it is.
    fn turn(&self) -> CpuId {
        self.cpus[self.turn.get()]
    }

    fn wants(&self, cpu: CpuId, now: u64) -> bool {
        self.due.get() <= now && self.turn() == cpu
    }

    /// A step on `cpu`, whose turn it is.
    fn step(&self, cpu: Cpu<'_>, token: &mut CpuToken<'_, 'm, Simulated>) {
        let Some(mut kswapd) = self.kswapd.take() else { return };
        // Whoever wakes it from now on, wakes it for something new.
        self.due.set(u64::MAX);
        let rest = kswapd.step(token);
        self.kswapd.set(Some(kswapd));
        let nap = Kswapd::<Simulated>::NAP * 1000 / cpu.model().nanos_per_1000_cycles.max(1);
        let due = match rest {
            Rest::None => cpu.now(),
            Rest::Nap => cpu.now() + nap,
            Rest::Sleep => u64::MAX,
        };
        self.due.set(self.due.get().min(due));
        self.turn.set((self.turn.get() + 1) % self.cpus.len());
    }
}

/// What a CPU has to serve faults with.
struct Hands<'s, 'k, 'm> {
    keep: &'s Keep<'k, 'm>,
    token: CpuToken<'k, 'm, Simulated>,
}

/// One CPU.
pub struct Seat<'s, 'k, 'm> {
    hands: Hands<'s, 'k, 'm>,
    /// Background reclaim of the node.
    background: Option<&'s Background<'k, 'm>>,
    /// The address space of the program that it runs; none while the kernel does something of its own.
    running: Option<SpaceId>,
}

impl Seat<'_, '_, '_> {
    /// The program that the CPU runs touches page `page` of an area.
    ///
    /// # Errors
    ///
    /// [`FileTrouble`].
    #[inline]
    pub fn touch(
        &mut self,
        cpu: Cpu<'_>,
        area: AreaId,
        page: u32,
        access: Access,
    ) -> Result<Touched, FileTrouble> {
        let cache = self.hands.keep.cache;
        let space = cache.space(area);
        if self.running != Some(space.id()) {
            let masked = cpu.mask_interrupts();
            self.hands.keep.flusher(cpu.id()).caught_up(|| space.load(cpu));
            cpu.restore_interrupts(masked);
            self.running = Some(space.id());
        }
        cache.touch(cpu, area, page, access, &mut self.hands)
    }

    /// Does what the kernel has to do on this CPU now, a little of it; whether there was anything.
    pub fn tend(&mut self, cpu: Cpu<'_>) -> bool {
        self.hear_of_writes(cpu);
        let reclaims = self.wants_kswapd(cpu);
        let writes = self.wants_writer(cpu.id());
        if reclaims || writes {
            self.rest(cpu);
        }
        if reclaims && let Some(background) = self.background {
            background.step(cpu, &mut self.hands.token);
            // The CPU whose turn it is now may have nothing else to do.
            self.hands.keep.idle[background.turn().index()].wake_all(cpu);
        }
        let until = cpu.now() + WRITES;
        while cpu.now() < until && self.wants_writer(cpu.id()) {
            self.write_back(cpu);
            self.hear_of_writes(cpu);
        }
        reclaims || writes
    }

    /// Whether the kernel has something to do here that should not wait.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self, cpu: Cpu<'_>) -> bool {
        self.wants_kswapd(cpu) || self.wants_writer(cpu.id())
    }

    /// Does nothing until `time`, or until the kernel is wanted here, or a write has ended.
    pub fn idle(&mut self, cpu: Cpu<'_>, time: u64) {
        if self.is_wanted(cpu) {
            return;
        }
        self.rest(cpu);
        let mine = self.background.filter(|background| background.turn() == cpu.id());
        let due = mine.map_or(u64::MAX, |background| background.due.get());
        let written = self.hands.keep.cache.next_write_ends().unwrap_or(u64::MAX);
        let queue = &self.hands.keep.idle[cpu.id().index()];
        cpu.wait_on_until(queue, time.min(due).min(written));
    }

    /// Reclaims up to `frames` frames of the CPU's node, whether anybody is short of them or not; how
    /// many.
    pub fn shrink(&mut self, cpu: Cpu<'_>, frames: u64) -> u64 {
        self.rest(cpu);
        let keep = self.hands.keep;
        keep.reclaim.shrink_node(cpu.id(), keep.memory.node_of(cpu.id()), frames)
    }

    /// Wakes all CPUs that do nothing.
    pub fn wake_all(&self, cpu: Cpu<'_>) {
        self.hands.keep.idle.iter().for_each(|queue| queue.wake_all(cpu));
    }

    /// Pages that were brought into memory so far, on all CPUs.
    #[must_use]
    pub fn brought(&self) -> u64 {
        self.hands.keep.cache.stats().cached
    }

    /// Gives all frames of the cache back when no program runs any more; other CPUs still serve
    /// interrupts.
    pub fn clear_away(&mut self, cpu: Cpu<'_>) {
        let keep = self.hands.keep;
        let lru = keep.reclaim.lru();
        lru.drain_all();
        let frames = keep.cache.dissolve();
        for &frame in &frames {
            lru.remove(Pfn::new(frame.into()));
        }
        self.hands.give(cpu, &frames);
        let mut parked = Vec::new();
        keep.flusher(cpu.id()).unpark_all(&mut |frames| parked.extend_from_slice(frames));
        let parked: Vec<u32> = parked.iter().map(|frame| frame.get() as u32).collect();
        self.hands.give(cpu, &parked);
    }

    /// No program runs: its address space stays loaded, and nobody has to interrupt for it.
    fn rest(&mut self, cpu: Cpu<'_>) {
        if self.running.take().is_some() {
            self.hands.keep.cache.mmu().rest(cpu);
        }
    }

    fn wants_kswapd(&self, cpu: Cpu<'_>) -> bool {
        self.background.is_some_and(|background| background.wants(cpu.id(), cpu.now()))
    }

    /// The first CPU writes back what is dirty: when much is, or reclaim is in want of clean pages.
    fn wants_writer(&self, cpu: CpuId) -> bool {
        let Keep { cache, memory, .. } = self.hands.keep;
        let much = memory.managed() / BACKGROUND_SHARE;
        cpu.index() == 0 && cache.dirty_pages() > if cache.wants_writers() { 0 } else { much }
    }

    /// Makes pages clean that became dirty first, flushes what is cached of them, and sends them.
    pub fn write_back(&mut self, cpu: Cpu<'_>) {
        let keep = self.hands.keep;
        let picked = keep.cache.pick_dirty(CLEANED_AT_ONCE, 0);
        if picked.is_empty() {
            keep.cache.writers_done();
        }
        let mut slots = [BatchSlot::default(); CLEANED_AT_ONCE];
        keep.shootdown.for_writes(cpu.id(), || {
            let mut batch = keep.flusher(cpu.id()).batch(&mut slots);
            keep.cache.clean(cpu, &picked, &mut |gone| owner::note(cpu, &mut batch, &gone));
            batch.flush();
        });
        keep.cache.write_back(cpu, &picked);
    }

    /// Tells the library of pages that were written, or could not be.
    pub fn hear_of_writes(&self, cpu: Cpu<'_>) {
        let keep = self.hands.keep;
        while let Some(Written { frame, result }) = keep.cache.next_written(cpu) {
            let result = result.map_err(|error| match error {
                StoreError::Io => WriteError::Io,
                StoreError::Full => WriteError::NoSpace,
            });
            keep.reclaim.written(cpu.id(), Pfn::new(frame.into()), result);
        }
    }
}

impl Hands<'_, '_, '_> {
    fn take(&mut self, cpu: Cpu<'_>, request: Request) -> Option<u32> {
        let block = self.token.alloc(request).ok()?;
        let frame = block.into_raw().0.get() as u32;
        self.keep.cache.taken(cpu, frame);
        Some(frame)
    }
}

impl Supply for Hands<'_, '_, '_> {
    fn entered(&mut self, cpu: Cpu<'_>) {
        self.keep.reclaim.catch_up(cpu.id());
    }

    fn page(&mut self, cpu: Cpu<'_>, cleared: bool, needs: bool) -> Option<u32> {
        const PAGE: Request = Request::new(Order::ZERO, framewright::MigrateType::Movable);
        let request = if cleared { PAGE.zeroed() } else { PAGE };
        self.take(cpu, if needs { request } else { request.no_retry() })
    }

    fn table(&mut self, cpu: Cpu<'_>) -> Option<u32> {
        const TABLE: Request = Request::new(Order::ZERO, framewright::MigrateType::Unmovable);
        self.take(cpu, TABLE.zeroed())
    }

    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]) {
        if let Some(oracle) = self.keep.cache.mmu().oracle() {
            frames.iter().for_each(|&frame| oracle.freed(cpu, frame));
        }
        FrameSource::give(&mut self.token, cpu, frames);
    }

    fn cached(&mut self, cpu: Cpu<'_>, frame: u32, shadow: Option<u64>) {
        let (lru, pfn) = (self.keep.reclaim.lru(), Pfn::new(frame.into()));
        match shadow {
            None => lru.add(cpu.id(), pfn, PageKind::File),
            Some(shadow) => {
                let shadow = Shadow::from_raw(shadow);
                lru.add_refaulted(cpu.id(), pfn, PageKind::File, shadow)
            }
        };
    }

    fn becomes_writable(&mut self, cpu: Cpu<'_>, file: FileId) {
        self.keep.flusher(cpu.id()).settle(self.keep.cache.owed(file));
    }
}
