//! Inter-processor interrupts, and the periodic tick.

use super::{Activity, Cpu, Engine, Event, Waiting};
use framewright::CpuId;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

/// The handler that an interrupted CPU runs.
pub type Handler = Rc<dyn Fn(Cpu<'_>)>;

/// The acknowledgements that a sender waits for.
struct Acknowledgements {
    sender: u16,
    missing: Cell<u32>,
    /// The time at which the last one has reached the sender.
    at: Cell<u64>,
}

struct Interrupt {
    /// Its number, from 1.
    number: u64,
    handler: Handler,
    arrival: u64,
    acknowledgements: Rc<Acknowledgements>,
}

/// The pending interrupts of a CPU, in order of arrival.
#[derive(Default)]
pub(super) struct Mailbox(RefCell<VecDeque<Interrupt>>);

impl Mailbox {
    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// The arrival of the first interrupt; `u64::MAX` if there is none.
    pub(super) fn arrival(&self) -> u64 {
        self.0.borrow().front().map_or(u64::MAX, |first| first.arrival)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Inserts an interrupt in order of arrival, after others with the same time.
    fn post(&self, interrupt: Interrupt) {
        let mut queue = self.0.borrow_mut();
        let place = queue.partition_point(|other| other.arrival <= interrupt.arrival);
        queue.insert(place, interrupt);
    }

    fn take_due(&self, now: u64) -> Option<Interrupt> {
        let mut queue = self.0.borrow_mut();
        queue.pop_front_if(|first| first.arrival <= now)
    }
}

impl Engine {
    /// Makes a CPU serve an interrupt at `arrival`, even if the clock of the CPU is later.
    fn interrupt_at(&self, number: u16, arrival: u64) {
        let state = &self.cpus[usize::from(number)];
        let time = arrival.max(state.unmasked_at.get());
        state.alarm_at(time);
        if state.parked.get() {
            self.wake(number, time);
        } else if !self.ignores_clocks.get() {
            self.ready(number, time);
        }
    }
}

impl Cpu<'_> {
    /// Masks interrupts. Returns whether they were masked before. In a schedule by clocks, CPUs
    /// with earlier clocks run first, and interrupts that have arrived are served.
    pub fn mask_interrupts(&self) -> bool {
        let state = self.state();
        if state.masked.get() {
            return true;
        }
        if !self.engine.ignores_clocks.get() {
            self.step();
        }
        state.mask();
        false
    }

    /// Restores the state that [`Cpu::mask_interrupts`] returned.
    pub fn restore_interrupts(&self, were_masked: bool) {
        if were_masked {
            return;
        }
        let state = self.state();
        state.masked.set(false);
        state.unmasked_at.set(self.now());
        state.set_alarm();
        if self.engine.ignores_clocks.get() {
            self.serve_or_delay();
        } else if self.now() >= state.alarm.get() {
            self.serve(self.now());
        }
    }

    /// Makes each target run `handler`, and waits until all have run it. This CPU serves its own
    /// interrupts meanwhile. A target without a program runs nothing and acknowledges at once.
    ///
    /// # Panics
    ///
    /// If interrupts are masked: two CPUs that interrupt each other would deadlock.
    pub fn interrupt(&self, targets: impl IntoIterator<Item = CpuId>, handler: &Handler) {
        assert!(!self.state().masked.get(), "interrupts are masked while waiting for other CPUs");
        self.step();
        self.fence();
        let (sender, missing, at) = (self.number(), Cell::new(0), Cell::new(0));
        let acknowledgements = Rc::new(Acknowledgements { sender, missing, at });
        for target in targets {
            self.send(target.get(), handler, &acknowledgements);
        }
        if acknowledgements.missing.get() == 0 {
            return;
        }
        self.waits(Waiting::Acknowledgement, || {
            while acknowledgements.missing.get() > 0 {
                self.park();
            }
            let clock = &self.state().clock;
            clock.set(clock.get().max(acknowledgements.at.get()));
        });
    }

    fn send(&self, target: u16, handler: &Handler, acknowledgements: &Rc<Acknowledgements>) {
        let (engine, model) = (self.engine, &self.engine.model);
        if target >= engine.programs.get() {
            return;
        }
        self.work(model.send);
        let arrival = if engine.ignores_clocks.get() {
            0
        } else {
            self.now() + model.arrival(self.number(), target)
        };
        acknowledgements.missing.set(acknowledgements.missing.get() + 1);
        let state = &engine.cpus[usize::from(target)];
        let number = engine.observer.sent.get() + 1;
        engine.observer.sent.set(number);
        self.report(Event::Sent { interrupt: number, target: CpuId::new(target) });
        state.mailbox.post(Interrupt {
            number,
            handler: Rc::clone(handler),
            arrival,
            acknowledgements: Rc::clone(acknowledgements),
        });
        if !state.masked.get() {
            self.engine.interrupt_at(target, arrival);
        }
    }

    /// In a schedule that ignores clocks, serves pending interrupts now, or leaves them for a later
    /// step.
    pub(super) fn serve_or_delay(&self) {
        let state = self.state();
        if state.masked.get() || state.mailbox.is_empty() || self.engine.delays_interrupt() {
            return;
        }
        self.serve(self.now());
    }

    /// Serves the interrupts that are due at `time`, unless interrupts are masked.
    pub(super) fn serve(&self, time: u64) {
        let state = self.state();
        if state.masked.get() {
            return;
        }
        if time >= state.next_tick.get() {
            let (period, cost) = (self.engine.model.tick_period, self.engine.model.tick);
            let missed = (time - state.next_tick.get()) / period + 1;
            state.next_tick.set(state.next_tick.get() + missed * period);
            self.during(Activity::Tick, || self.work(cost * missed));
        }
        while let Some(interrupt) = state.mailbox.take_due(time) {
            self.handle(&interrupt);
        }
        state.set_alarm();
    }

    /// Serves one interrupt at the time of its arrival, or at the unmasking of interrupts if that
    /// is later. If the CPU's clock is past that time, the duration of the handler is added to the
    /// clock.
    fn handle(&self, interrupt: &Interrupt) {
        let (state, model) = (self.state(), &self.engine.model);
        let (ahead, at) = (self.now(), interrupt.arrival.max(state.unmasked_at.get()));
        self.fence();
        state.clock.set(at);
        self.report(Event::Handling(interrupt.number));
        self.work(model.entry);
        state.mask();
        (interrupt.handler)(*self);
        self.fence();
        state.masked.set(false);
        self.work(model.acknowledge);
        self.acknowledge(&interrupt.acknowledgements);
        state.unmasked_at.set(self.now());
        self.report(Event::Handled);
        state.clock.set(ahead + (self.now() - at));
    }

    fn acknowledge(&self, acknowledgements: &Acknowledgements) {
        let Acknowledgements { sender, missing, at } = acknowledgements;
        missing.set(missing.get() - 1);
        at.set(at.get().max(self.now() + self.engine.model.transfer(self.number(), *sender)));
        if missing.get() == 0 {
            self.engine.wake(*sender, at.get());
        }
    }
}
