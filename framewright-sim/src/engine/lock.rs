//! Locks: first come, first served; a hand-over costs what moving the line costs.

use super::{
    Cpu, Engine,
    lines::{Access, Family, Line, Miss},
};
use std::{
    collections::VecDeque,
    ops::{AddAssign, Sub},
};

/// A lock, numbered in the order of their making.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockId(pub(crate) u32);

/// What a lock protects: statistics are kept per class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockClass {
    /// The free frames of a zone.
    Zone,
    /// The lists of a CPU, which others rarely want: by the clock, their order with what others do
    /// is as exact as [`Model::slack`](super::Model::slack) says.
    Cpu,
    /// The LRU lists of a node, or frames that wait for a flush.
    Lru,
    /// Anything of the programs' own.
    Program,
}

const CLASSES: usize = 4;

/// What happened at locks. A wait or hold counts once it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockStats {
    /// Times that one was taken.
    pub acquisitions: u64,
    /// Times that it had to be waited for.
    pub contended: u64,
    /// Cycles of waiting.
    pub wait_cycles: u64,
    /// Cycles of holding.
    pub hold_cycles: u64,
    /// Of these, cycles of waiting for cache lines; the others are work.
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

/// What happened since an earlier look.
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
    holder: Option<u16>,
    since: u64,
    /// What the holder had waited for cache lines before.
    missed: u64,
    /// Since when the holder has waited, until it runs again.
    granted: Option<u64>,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    cpu: u16,
    since: u64,
}

/// All locks of a machine.
#[derive(Default)]
pub(super) struct Locks {
    locks: Vec<LockState>,
    stats: [LockStats; CLASSES],
}

impl Locks {
    pub(super) fn create(&mut self, class: LockClass) -> LockId {
        let queue = VecDeque::new();
        self.locks.push(LockState {
            class,
            holder: None,
            since: 0,
            missed: 0,
            granted: None,
            queue,
        });
        LockId(self.locks.len() as u32 - 1)
    }

    pub(super) fn classify(&mut self, id: LockId, class: LockClass) {
        self.get(id).class = class;
    }

    pub(super) fn stats(&self, class: LockClass) -> LockStats {
        self.stats[class as usize]
    }

    pub(super) fn total(&self) -> LockStats {
        let mut total = LockStats::default();
        self.stats.iter().for_each(|stats| total += *stats);
        total
    }

    /// Cycles of waiting for locks of a class, or of any, that is not over at `now`.
    pub(super) fn waiting(&self, class: Option<LockClass>, now: u64) -> u64 {
        let locks = self.locks.iter().filter(|lock| class.is_none_or(|class| class == lock.class));
        let since = locks.flat_map(|lock| {
            let queued = lock.queue.iter().map(|waiter| waiter.since);
            queued.chain(lock.granted)
        });
        since.map(|since| now.saturating_sub(since)).sum()
    }

    pub(super) fn open_all(&mut self) {
        for lock in &mut self.locks {
            (lock.holder, lock.granted) = (None, None);
            lock.queue.clear();
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.locks.clear();
        self.stats = Default::default();
    }

    /// A lock that is held, and by whom.
    pub(super) fn held(&self) -> Option<(LockId, u16)> {
        let held = |(number, lock): (u32, &LockState)| Some((LockId(number), lock.holder?));
        (0..).zip(&self.locks).find_map(held)
    }

    fn get(&mut self, LockId(number): LockId) -> &mut LockState {
        self.locks.get_mut(number as usize).expect("a lock of before the machine was restarted")
    }

    fn grant(&mut self, id: LockId, cpu: u16) {
        let lock = self.get(id);
        lock.holder = Some(cpu);
        let class = lock.class;
        self.stats[class as usize].acquisitions += 1;
    }
}

impl Engine {
    fn lock_line(LockId(number): LockId) -> Line {
        Line { family: Family::LOCKS, member: 0, index: number }
    }
}

impl Cpu<'_> {
    pub(crate) fn new_lock(&self) -> LockId {
        self.engine.locks.borrow_mut().create(LockClass::Program)
    }

    /// Others may go first, who may want the same lock.
    #[inline]
    fn approach(&self, id: LockId) {
        let class = self.engine.locks.borrow_mut().get(id).class;
        match class {
            LockClass::Cpu => self.glance(),
            LockClass::Zone | LockClass::Lru | LockClass::Program => self.step(),
        }
        self.fence();
    }

    /// Takes a lock, waiting in line for it.
    pub fn lock(&self, id: LockId) {
        self.approach(id);
        if self.take_if_free(id) {
            return;
        }
        let (me, since) = (self.number(), self.now());
        self.engine.locks.borrow_mut().get(id).queue.push_back(Waiter { cpu: me, since });
        while self.engine.locks.borrow_mut().get(id).holder != Some(me) {
            self.park();
        }
        let mut locks = self.engine.locks.borrow_mut();
        let lock = locks.get(id);
        lock.granted = None;
        let class = lock.class;
        let stats = &mut locks.stats[class as usize];
        stats.contended += 1;
        stats.wait_cycles += self.now() - since;
        drop(locks);
        self.begin_hold(id);
    }

    /// Takes a lock if nobody has it; says whether it did.
    pub fn try_lock(&self, id: LockId) -> bool {
        self.approach(id);
        self.take_if_free(id)
    }

    /// Whether somebody holds a lock.
    pub(crate) fn is_held(&self, id: LockId) -> bool {
        self.approach(id);
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
    }

    /// Gives a lock back, or to the first who waits.
    ///
    /// # Panics
    ///
    /// If another CPU holds it, or none.
    pub fn unlock(&self, id: LockId) {
        self.approach(id);
        let (now, missed) = (self.now(), self.state().missed.get());
        let next = {
            let mut locks = self.engine.locks.borrow_mut();
            let lock = locks.get(id);
            let holder = lock.holder.take();
            assert!(holder == Some(self.number()), "{id:?} is given back, and {holder:?} holds it");
            let (held, missed) = (now - lock.since, missed - lock.missed);
            let (class, next) = (lock.class, lock.queue.pop_front());
            locks.stats[class as usize].hold_cycles += held;
            locks.stats[class as usize].hold_miss_cycles += missed;
            next.map(|Waiter { cpu, since }| {
                locks.get(id).granted = Some(since);
                locks.grant(id, cpu);
                cpu
            })
        };
        if let Some(next) = next {
            self.engine.take_line(Engine::lock_line(id), next);
            self.engine.wake(next, now + self.engine.model.handoff(self.number(), next));
        }
        self.engine.progress();
    }
}
