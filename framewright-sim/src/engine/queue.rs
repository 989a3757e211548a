//! Waiting for other programs.

use super::{Cpu, Waiting};
use std::{cell::RefCell, collections::VecDeque};

/// CPUs that wait for a condition of the programs: space in a buffer, a message.
#[derive(Default, Debug)]
pub struct WaitQueue(RefCell<VecDeque<u16>>);

impl WaitQueue {
    /// Wakes all waiting CPUs, at the current time of `cpu`.
    pub fn wake_all(&self, cpu: Cpu<'_>) {
        let waiting = std::mem::take(&mut *self.0.borrow_mut());
        for other in waiting {
            cpu.engine.wake(other, cpu.now());
        }
    }
}

impl Cpu<'_> {
    /// As [`Cpu::wait_on`], but only until `time`. A schedule that ignores clocks ignores `time`.
    pub fn wait_on_until(&self, queue: &WaitQueue, time: u64) {
        if !self.engine.ignores_clocks.get() {
            self.engine.ready(self.number(), time.max(self.now()));
        }
        self.wait_on(queue);
    }

    /// Waits until another CPU wakes `queue`. May return early, so the caller checks its condition
    /// again. No other CPU runs between that check and this call.
    pub fn wait_on(&self, queue: &WaitQueue) {
        let mut waiting = queue.0.borrow_mut();
        if !waiting.contains(&self.number()) {
            waiting.push_back(self.number());
        }
        drop(waiting);
        self.waits(Waiting::Program, || self.park());
    }
}
