//! Stand-in for an allocator: a stack of frames under a lock. The frame that was freed last is
//! reused first, by any CPU. That is bad for caches, and exposes most stale accesses.

use std::cell::{Cell, RefCell};

use crate::{
    engine::{Cpu, ProgramLock},
    process::{FrameSource, Purpose},
};

/// Frames 0 to N, all free. Every CPU allocates through a shared reference.
pub(in crate::scenario) struct Stack {
    frames: RefCell<Vec<u32>>,
    free: Cell<usize>,
    lock: ProgramLock,
    locking: bool,
}

impl Stack {
    pub(in crate::scenario) fn new(frames: u32) -> Self {
        Self {
            frames: RefCell::new((0..frames).rev().collect()),
            free: Cell::new(frames as usize),
            lock: ProgramLock::default(),
            locking: true,
        }
    }

    /// A stack without its lock: a seeded bug.
    pub(in crate::scenario) fn unlocked(frames: u32) -> Self {
        Self { locking: false, ..Self::new(frames) }
    }

    fn locked<T>(&self, cpu: Cpu<'_>, body: impl FnOnce() -> T) -> T {
        if self.locking { self.lock.with(cpu, body) } else { body() }
    }
}

impl FrameSource for &Stack {
    fn take(&mut self, cpu: Cpu<'_>, _purpose: Purpose) -> Option<u32> {
        self.locked(cpu, || {
            cpu.step();
            let top = self.free.get().checked_sub(1)?;
            let frame = self.frames.borrow()[top];
            cpu.step();
            self.free.set(top);
            Some(frame)
        })
    }

    fn give(&mut self, cpu: Cpu<'_>, frames: &[u32]) {
        for &frame in frames {
            self.locked(cpu, || {
                cpu.step();
                let top = self.free.get();
                cpu.step();
                self.free.set(top + 1);
                let mut frames = self.frames.borrow_mut();
                let end = frames.len().max(top + 1);
                // The index exceeds the length only if the lock is missing.
                frames.resize(end, frame);
                frames[top] = frame;
            });
        }
    }
}
