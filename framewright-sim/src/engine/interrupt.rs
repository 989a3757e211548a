//! Interrupts from one CPU to others.

use super::Cpu;
use framewright::CpuId;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

/// What an interrupted CPU does.
pub type Handler = Rc<dyn Fn(Cpu<'_>)>;

struct Interrupt {
    handler: Handler,
    sender: u16,
    unacknowledged: Rc<Cell<u32>>,
}

/// What has been sent to a CPU and not been served.
#[derive(Default)]
pub(super) struct Mailbox(RefCell<VecDeque<Interrupt>>);

impl Mailbox {
    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Cpu<'_> {
    /// Makes each target run `handler`, and waits until all have. Serves its own interrupts
    /// meanwhile.
    ///
    /// # Panics
    ///
    /// If interrupts are masked: two CPUs that do this to each other would wait for ever.
    pub fn interrupt(&self, targets: impl IntoIterator<Item = CpuId>, handler: &Handler) {
        assert!(!self.state().masked.get(), "who waits for interrupts must serve its own");
        self.step();
        let unacknowledged = Rc::new(Cell::new(0));
        for target in targets {
            unacknowledged.set(unacknowledged.get() + 1);
            let interrupt = Interrupt {
                handler: Rc::clone(handler),
                sender: self.number(),
                unacknowledged: Rc::clone(&unacknowledged),
            };
            self.engine.cpus[target.index()].mailbox.0.borrow_mut().push_back(interrupt);
            self.engine.wake(target.get(), self.now());
        }
        while unacknowledged.get() > 0 {
            self.park();
        }
    }

    /// Serves the interrupts that have arrived, unless they are masked.
    pub(super) fn serve(&self) {
        if self.state().masked.get() {
            return;
        }
        loop {
            let next = self.state().mailbox.0.borrow_mut().pop_front();
            let Some(interrupt) = next else { return };
            self.state().masked.set(true);
            (interrupt.handler)(*self);
            self.state().masked.set(false);
            interrupt.unacknowledged.set(interrupt.unacknowledged.get() - 1);
            self.engine.wake(interrupt.sender, self.now());
        }
    }
}
