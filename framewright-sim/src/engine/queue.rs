//! Waiting for other programs.

use super::Cpu;
use std::{cell::RefCell, collections::VecDeque};

/// CPUs that wait for something that programs have agreed on: room in a buffer, a message.
#[derive(Default, Debug)]
pub struct WaitQueue(RefCell<VecDeque<u16>>);

impl WaitQueue {
    /// Makes everybody who waits go on, now.
    pub fn wake_all(&self, cpu: Cpu<'_>) {
        let waiting = std::mem::take(&mut *self.0.borrow_mut());
        for other in waiting {
            cpu.engine.wake(other, cpu.now());
        }
    }
}

impl Cpu<'_> {
    /// As [`Cpu::wait_on`], but only until `time`. A schedule that ignores clocks ignores this one.
    pub fn wait_on_until(&self, queue: &WaitQueue, time: u64) {
        if !self.engine.hunts.get() {
            self.engine.ready(self.number(), time.max(self.now()));
        }
        self.wait_on(queue);
    }

    /// Waits until somebody wakes `queue`. May return early: look again whether what this CPU waits
    /// for has come. Between that look and this call no other CPU goes first.
    pub fn wait_on(&self, queue: &WaitQueue) {
        let mut waiting = queue.0.borrow_mut();
        if !waiting.contains(&self.number()) {
            waiting.push_back(self.number());
        }
        drop(waiting);
        self.park();
    }
}
