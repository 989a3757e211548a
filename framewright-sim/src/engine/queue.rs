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
