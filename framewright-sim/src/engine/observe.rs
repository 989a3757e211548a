//! Events of a run for an observer: waits, lock acquisitions and releases, and interrupts.
//!
//! An observer changes nothing: no event costs cycles, and a run with an observer has the same fingerprint as without.

use super::{Cpu, Engine, Failure, LockClass, LockId, Machine};
use framewright::{
    CpuId,
    platform::{Section, Site},
};
use std::{cell::Cell, rc::Rc};

/// An observer of the runs of a machine ([`Machine::set_observer`]).
pub trait Observer {
    /// `event` happened on `cpu` at `clock`, in cycles of that CPU. The handler of an interrupt runs at the time of its
    /// arrival, which may be earlier than the last event of the interrupted program. The observer must not run the
    /// machine.
    fn observe(&self, cpu: CpuId, clock: u64, event: Event<'_>);
}

/// An event of a CPU.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// The program of the CPU begins.
    Begin,
    /// The program has ended. The CPU still serves interrupts.
    End,
    /// The CPU, which could run before, runs after another one. Only in schedules that ignore clocks.
    Switch,
    /// The CPU begins to wait. It serves interrupts meanwhile, unless they are masked.
    Wait(Waiting),
    /// The wait has ended.
    Continue,
    /// The CPU takes a lock.
    Acquired(LockId, LockClass),
    /// The lock that the CPU has just taken protects this section of the library's data.
    Protects(LockId, Section),
    /// The CPU releases a lock.
    Released(LockId),
    /// The CPU sends an interrupt.
    Sent {
        /// The number of the interrupt, from 1.
        interrupt: u64,
        /// The CPU that it is sent to.
        target: CpuId,
    },
    /// The CPU enters the handler of this interrupt.
    Handling(u64),
    /// The handler has returned.
    Handled,
    /// The CPU begins an activity of the kernel, possibly within another one.
    Enter(Activity),
    /// The last activity that began and has not ended ends.
    Leave,
    /// The CPU reaches a point of the library's code. Only in schedules that ignore clocks.
    Point(Site),
    /// A step of the program, in words ([`Cpu::note`]).
    Step(&'e str),
    /// The run fails.
    Failed(&'e Failure),
}

/// The reason why a CPU waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// A lock.
    Lock(LockId),
    /// The acknowledgement of the interrupts that it has sent.
    Acknowledgement,
    /// The change of a word that it has read.
    Word,
    /// Another program.
    Program,
    /// A time.
    Time,
    /// A condition that the engine cannot see.
    Condition,
}

/// Work of the kernel on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// The periodic tick.
    Tick,
    /// Reclaim for a request that found no memory.
    DirectReclaim,
    /// A step of background reclaim.
    BackgroundReclaim,
    /// Compaction for a request.
    DirectCompaction,
    /// Compaction in the background.
    BackgroundCompaction,
}

/// The observer of a machine, if there is one.
#[derive(Default)]
pub(super) struct Slot {
    observer: std::cell::RefCell<Option<Rc<dyn Observer>>>,
    /// Whether there is one: most operations check only this.
    is_set: Cell<bool>,
    /// The number of interrupts that were sent.
    pub(super) sent: Cell<u64>,
}

impl Machine {
    /// Sets the observer of further runs, or removes it.
    pub fn set_observer(&self, observer: Option<Rc<dyn Observer>>) {
        let slot = &self.engine().observer;
        slot.is_set.set(observer.is_some());
        *slot.observer.borrow_mut() = observer;
    }

    /// The number of interrupts that CPUs have sent to others since the machine was made or restarted.
    #[must_use]
    pub fn interrupts_sent(&self) -> u64 {
        self.engine().observer.sent.get()
    }

    /// The existing locks of a class, in the order of their creation.
    #[must_use]
    pub fn locks(&self, class: LockClass) -> Vec<LockId> {
        self.engine().locks.borrow().of_class(class)
    }
}

impl Engine {
    /// Reports an event to the observer, if there is one.
    #[inline(always)]
    pub(super) fn report(&self, cpu: Cpu<'_>, event: Event<'_>) {
        if self.observer.is_set.get() {
            self.tell(cpu, event);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&self, cpu: Cpu<'_>, event: Event<'_>) {
        // Programs that are unwound after a failure release their locks.
        if self.failed.get() {
            return;
        }
        let observer = self.observer.observer.borrow().clone();
        if let Some(observer) = observer {
            observer.observe(cpu.id(), cpu.now(), event);
        }
    }
}

impl Cpu<'_> {
    /// Reports an event of this CPU to the observer, if there is one.
    #[inline(always)]
    pub(crate) fn report(&self, event: Event<'_>) {
        self.engine.report(*self, event);
    }

    /// Reports a step of the program to the observer, if there is one, in a schedule that ignores clocks: a trace of a
    /// failing schedule shows it.
    #[inline]
    pub fn note(&self, step: impl FnOnce() -> String) {
        if self.engine.observer.is_set.get() && self.ignores_clocks() {
            self.report(Event::Step(&step()));
        }
    }

    /// Runs `body`, which an observer sees as this activity.
    pub fn during<R>(&self, activity: Activity, body: impl FnOnce() -> R) -> R {
        self.report(Event::Enter(activity));
        let result = body();
        self.report(Event::Leave);
        result
    }

    /// Runs `wait`, and reports its beginning ([`Event::Wait`]) and its end ([`Event::Continue`]).
    pub(super) fn waits(self, why: Waiting, wait: impl FnOnce()) {
        self.report(Event::Wait(why));
        wait();
        self.report(Event::Continue);
    }
}
