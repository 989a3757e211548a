//! Locks: first come, first served; a hand-over costs what moving the line costs.

use super::Cpu;
use std::collections::VecDeque;

/// A lock, numbered by first use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockId(pub(crate) u32);

/// What happened at locks.
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
}

#[derive(Default)]
struct LockState {
    holder: Option<u16>,
    since: u64,
    queue: VecDeque<u16>,
    stats: LockStats,
}

/// All locks of a machine.
#[derive(Default)]
pub(super) struct Locks(Vec<LockState>);

impl Locks {
    pub(super) fn stats(&self) -> LockStats {
        let mut sum = LockStats::default();
        for LockState { stats, .. } in &self.0 {
            sum.acquisitions += stats.acquisitions;
            sum.contended += stats.contended;
            sum.wait_cycles += stats.wait_cycles;
            sum.hold_cycles += stats.hold_cycles;
        }
        sum
    }

    pub(super) fn open_all(&mut self) {
        for lock in &mut self.0 {
            lock.holder = None;
            lock.queue.clear();
        }
    }

    fn grant(&mut self, id: LockId, cpu: u16, now: u64) {
        let lock = &mut self.0[id.0 as usize];
        lock.holder = Some(cpu);
        lock.since = now;
        lock.stats.acquisitions += 1;
    }
}

impl Cpu<'_> {
    pub(crate) fn new_lock(&self) -> LockId {
        let mut locks = self.engine.locks.borrow_mut();
        locks.0.push(LockState::default());
        LockId(locks.0.len() as u32 - 1)
    }

    pub(crate) fn lock(&self, id: LockId) {
        self.step();
        let me = self.number();
        let free = {
            let mut locks = self.engine.locks.borrow_mut();
            let free = locks.0[id.0 as usize].holder.is_none();
            if free {
                locks.grant(id, me, self.now());
            } else {
                locks.0[id.0 as usize].queue.push_back(me);
            }
            free
        };
        if free {
            return;
        }
        let since = self.now();
        while self.engine.locks.borrow().0[id.0 as usize].holder != Some(me) {
            self.park();
        }
        let mut locks = self.engine.locks.borrow_mut();
        let stats = &mut locks.0[id.0 as usize].stats;
        stats.contended += 1;
        stats.wait_cycles += self.now() - since;
    }

    pub(crate) fn unlock(&self, id: LockId) {
        self.step();
        let now = self.now();
        let next = {
            let mut locks = self.engine.locks.borrow_mut();
            let lock = &mut locks.0[id.0 as usize];
            lock.stats.hold_cycles += now - lock.since;
            lock.holder = None;
            let next = lock.queue.pop_front();
            if let Some(next) = next {
                locks.grant(id, next, now);
            }
            next
        };
        if let Some(next) = next {
            self.engine.wake(next, now);
        }
    }
}
