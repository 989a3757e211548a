//! Locks in first-come, first-served order. A hand-over costs the transfer of the lock's cache
//! line.

use super::{
    Cpu, Engine, Event, Waiting,
    lines::{Access, Family, Line, Miss},
};
use std::{
    cell::OnceCell,
    collections::VecDeque,
    ops::{AddAssign, Sub},
};

/// A lock. Locks are numbered in the order of their creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockId(pub(crate) u32);

impl LockId {
    /// Its number, from 0.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The kind of data that a lock protects. Statistics are kept per lock, and summed per class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockClass {
    /// The free frames of a zone.
    Zone,
    /// The lists of a CPU, which other CPUs rarely lock. If CPUs are scheduled by their clocks,
    /// operations of different CPUs on this lock may be reordered by up to
    /// [`Model::slack`](super::Model::slack) cycles.
    Cpu,
    /// The LRU lists of a node, or frames that wait for a flush.
    Lru,
    /// Data of the programs themselves.
    Program,
}

/// Statistics of locks. A wait or a hold is added when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockStats {
    /// Acquisitions.
    pub acquisitions: u64,
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// Cycles of waiting for locks.
    pub wait_cycles: u64,
    /// Cycles of holding locks.
    pub hold_cycles: u64,
    /// Part of `hold_cycles`: waiting for cache lines. The rest is work.
    pub hold_miss_cycles: u64,
}

impl AddAssign for LockStats {
    fn add_assign(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.contended += other.contended;
        self.wait_cycles += other.wait_cycles;
        self.hold_cycles += other.hold_cycles;
        self.hold_miss_cycles += other.hold_miss_cycles;
    }
}

/// The difference from an earlier sample.
impl Sub for LockStats {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            acquisitions: self.acquisitions - before.acquisitions,
            contended: self.contended - before.contended,
            wait_cycles: self.wait_cycles - before.wait_cycles,
            hold_cycles: self.hold_cycles - before.hold_cycles,
            hold_miss_cycles: self.hold_miss_cycles - before.hold_miss_cycles,
        }
    }
}

struct LockState {
    class: LockClass,
    /// The number of the zone that the lock protects, if any.
    zone: u32,
    holder: Option<u16>,
    since: u64,
    /// The holder's `missed` cycles at the start of the hold.
    missed: u64,
    /// Set while the holder has the lock but has not run yet: the start of its wait.
    granted: Option<u64>,
    queue: VecDeque<Waiter>,
    stats: LockStats,
}

impl LockState {
    /// Cycles of unfinished waits at `now`.
    fn waiting(&self, now: u64) -> u64 {
        let since = self.queue.iter().map(|waiter| waiter.since).chain(self.granted);
        since.map(|since| now.saturating_sub(since)).sum()
    }
}

struct Waiter {
    cpu: u16,
    since: u64,
}

/// All locks of a machine.
#[derive(Default)]
pub(super) struct Locks {
    locks: Vec<LockState>,
}

impl Locks {
    pub(super) fn create(&mut self, class: LockClass) -> LockId {
        // Programs create the locks of their zones in order. Other locks are not counted: a program may have many.
        let is_zone = class == LockClass::Zone;
        let zone = if is_zone { self.of(Some(class)).count() as u32 } else { 0 };
        self.locks.push(LockState {
            class,
            zone,
            holder: None,
            since: 0,
            missed: 0,
            granted: None,
            queue: VecDeque::new(),
            stats: LockStats::default(),
        });
        LockId(self.locks.len() as u32 - 1)
    }

    pub(super) fn classify(&mut self, id: LockId, class: LockClass, zone: u32) {
        let lock = self.get(id);
        (lock.class, lock.zone) = (class, zone);
    }

    /// The locks of a class, or all, in the order of their creation.
    fn of(&self, class: Option<LockClass>) -> impl Iterator<Item = &LockState> {
        self.locks.iter().filter(move |lock| class.is_none_or(|class| class == lock.class))
    }

    /// Statistics of the locks of a class, or of all.
    pub(super) fn stats(&self, class: Option<LockClass>) -> LockStats {
        let mut total = LockStats::default();
        self.of(class).for_each(|lock| total += lock.stats);
        total
    }

    /// Cycles of unfinished waits at `now`, for locks of a class or of all.
    pub(super) fn waiting(&self, class: Option<LockClass>, now: u64) -> u64 {
        self.of(class).map(|lock| lock.waiting(now)).sum()
    }

    /// Cycles of waiting for the lock of each zone until `now`, unfinished waits included.
    pub(super) fn zone_waits(&self, now: u64) -> Vec<u64> {
        let mut waits = Vec::new();
        for lock in self.of(Some(LockClass::Zone)) {
            let zone = lock.zone as usize;
            waits.resize(waits.len().max(zone + 1), 0);
            waits[zone] += lock.stats.wait_cycles + lock.waiting(now);
        }
        waits
    }

    pub(super) fn unlock_all(&mut self) {
        for lock in &mut self.locks {
            (lock.holder, lock.granted) = (None, None);
            lock.queue.clear();
        }
    }

    pub(super) fn clear_all(&mut self) {
        self.locks.clear();
    }

    /// A held lock and its holder.
    pub(super) fn held(&self) -> Option<(LockId, u16)> {
        let held = |(number, lock): (u32, &LockState)| Some((LockId(number), lock.holder?));
        (0..).zip(&self.locks).find_map(held)
    }

    /// The locks of a class, in the order of their creation.
    pub(super) fn of_class(&self, class: LockClass) -> Vec<LockId> {
        let all = (0..).map(LockId).zip(&self.locks);
        all.filter(|(_, lock)| lock.class == class).map(|(id, _)| id).collect()
    }

    fn get(&mut self, LockId(number): LockId) -> &mut LockState {
        self.locks.get_mut(number as usize).expect("a lock that was created after the last restart")
    }

    fn grant(&mut self, id: LockId, cpu: u16) {
        let lock = self.get(id);
        lock.holder = Some(cpu);
        lock.stats.acquisitions += 1;
    }
}

impl Engine {
    fn lock_line(LockId(number): LockId) -> Line {
        Line { family: Family::LOCKS, member: 0, index: number }
    }
}

/// A lock of programs, which is created when it is first taken.
#[derive(Clone, Default)]
pub(crate) struct ProgramLock(OnceCell<LockId>);

impl ProgramLock {
    /// Takes the lock, and returns it for its release.
    pub(crate) fn lock(&self, cpu: Cpu<'_>) -> LockId {
        let lock = *self.0.get_or_init(|| cpu.new_lock());
        cpu.lock(lock);
        lock
    }

    /// Runs `body` under the lock.
    pub(crate) fn with<T>(&self, cpu: Cpu<'_>, body: impl FnOnce() -> T) -> T {
        let lock = self.lock(cpu);
        let result = body();
        cpu.unlock(lock);
        result
    }
}

impl Cpu<'_> {
    pub(crate) fn new_lock(&self) -> LockId {
        self.engine.locks.borrow_mut().create(LockClass::Program)
    }

    /// Lets CPUs with earlier clocks run first; they may take the same lock.
    #[inline]
    fn yield_before(&self, id: LockId) {
        let class = self.engine.locks.borrow_mut().get(id).class;
        match class {
            LockClass::Cpu => self.step_if_due(),
            LockClass::Zone | LockClass::Lru | LockClass::Program => self.step(),
        }
        self.fence();
    }

    /// Takes a lock. Waiters get it in order of arrival.
    pub fn lock(&self, id: LockId) {
        self.yield_before(id);
        if self.take_if_free(id) {
            return;
        }
        let (me, since) = (self.number(), self.now());
        self.engine.locks.borrow_mut().get(id).queue.push_back(Waiter { cpu: me, since });
        self.waits(Waiting::Lock(id), || {
            while self.engine.locks.borrow_mut().get(id).holder != Some(me) {
                self.park();
            }
        });
        let mut locks = self.engine.locks.borrow_mut();
        let lock = locks.get(id);
        lock.granted = None;
        lock.stats.contended += 1;
        lock.stats.wait_cycles += self.now() - since;
        drop(locks);
        self.begin_hold(id);
    }

    /// Takes a lock if it is free. Returns whether it did.
    pub fn try_lock(&self, id: LockId) -> bool {
        self.yield_before(id);
        self.take_if_free(id)
    }

    /// Whether a CPU holds the lock.
    pub(crate) fn is_held(&self, id: LockId) -> bool {
        self.yield_before(id);
        self.engine.locks.borrow_mut().get(id).holder.is_some()
    }

    fn take_if_free(&self, id: LockId) -> bool {
        {
            let mut locks = self.engine.locks.borrow_mut();
            if locks.get(id).holder.is_some() {
                return false;
            }
            locks.grant(id, self.number());
        }
        self.work(self.engine.model.atomic);
        self.touch(Engine::lock_line(id), Access::Write, Miss::Dependent);
        self.begin_hold(id);
        true
    }

    fn begin_hold(&self, id: LockId) {
        let (now, missed) = (self.now(), self.state().missed.get());
        self.engine.note(u64::from(id.0) << 48 ^ now);
        let mut locks = self.engine.locks.borrow_mut();
        let lock = locks.get(id);
        (lock.since, lock.missed) = (now, missed);
        let class = lock.class;
        drop(locks);
        self.report(Event::Acquired(id, class));
    }

    /// Releases a lock, and hands it over to the first waiter.
    ///
    /// # Panics
    ///
    /// If this CPU does not hold it.
    pub fn unlock(&self, id: LockId) {
        self.yield_before(id);
        let (now, missed) = (self.now(), self.state().missed.get());
        let next = {
            let mut locks = self.engine.locks.borrow_mut();
            let lock = locks.get(id);
            let holder = lock.holder.take();
            assert!(holder == Some(self.number()), "{id:?} is released, but {holder:?} holds it");
            lock.stats.hold_cycles += now - lock.since;
            lock.stats.hold_miss_cycles += missed - lock.missed;
            lock.queue.pop_front().map(|Waiter { cpu, since }| {
                locks.get(id).granted = Some(since);
                locks.grant(id, cpu);
                cpu
            })
        };
        self.report(Event::Released(id));
        if let Some(next) = next {
            self.engine.take_line(Engine::lock_line(id), next);
            self.engine.wake(next, now + self.engine.model.handoff(self.number(), next));
        }
        self.engine.progress();
    }
}
