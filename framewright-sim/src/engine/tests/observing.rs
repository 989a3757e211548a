//! An observer sees every event of a run, and changes nothing.

use std::{cell::RefCell, rc::Rc};

use super::*;
use crate::engine::{Event, Observer, Waiting};

/// Events as text, each with its CPU and time.
#[derive(Default)]
struct Events(RefCell<Vec<(u16, u64, String)>>);

impl Observer for Events {
    fn observe(&self, cpu: CpuId, clock: u64, event: Event<'_>) {
        self.0.borrow_mut().push((cpu.get(), clock, format!("{event:?}")));
    }
}

impl Events {
    fn count(&self, start: &str) -> u64 {
        self.0.borrow().iter().filter(|(_, _, event)| event.starts_with(start)).count() as u64
    }
}

/// Three CPUs take a lock in turn, and CPU 0 interrupts the others.
fn run(observer: Option<Rc<dyn Observer>>) -> Machine {
    let machine = Machine::from(&Spec::uniform(3).unwrap());
    machine.set_observer(observer);
    let lock = machine.new_lock(LockClass::Program);
    let handler: Handler = Rc::new(|cpu| cpu.work(100));
    let program = |_| -> Program<'_> {
        let handler = Rc::clone(&handler);
        Box::new(move |cpu| {
            for _ in 0..5 {
                cpu.lock(lock);
                cpu.work(1_000);
                cpu.unlock(lock);
            }
            if cpu.id() == CpuId::new(0) {
                cpu.interrupt([1, 2].map(CpuId::new), &handler);
            }
        })
    };
    machine.run((0..3).map(program).collect()).unwrap();
    machine
}

#[test]
fn an_observer_sees_each_event_once_and_changes_nothing() {
    let events = Rc::new(Events::default());
    let observer: Rc<dyn Observer> = Rc::<Events>::clone(&events);
    let (with, without) = (run(Some(observer)), run(None));
    assert_eq!(with.fingerprint(), without.fingerprint());
    assert_eq!(with.lock_stats(), without.lock_stats());
    let stats = with.lock_stats();
    assert_eq!((events.count("Acquired"), events.count("Released")), (15, 15));
    assert_eq!(stats.acquisitions, 15);
    assert!(stats.contended > 0);
    assert_eq!(
        events
            .count(&format!("{:?}", Event::Wait(Waiting::Lock(with.locks(LockClass::Program)[0])))),
        stats.contended
    );
    assert_eq!(events.count("Wait"), events.count("Continue"));
    assert_eq!((events.count("Begin"), events.count("End")), (3, 3));
    let interrupts = ["Sent", "Handling", "Handled"].map(|event| events.count(event));
    assert_eq!((interrupts, with.interrupts_sent()), ([2; 3], 2));
    assert_eq!(without.interrupts_sent(), 2);
}

#[test]
fn nothing_is_reported_after_a_failure() {
    let machine = Machine::new(2, Options::default());
    let events = Rc::new(Events::default());
    let observer: Rc<dyn Observer> = Rc::<Events>::clone(&events);
    machine.set_observer(Some(observer));
    let program = || -> Program<'_> { Box::new(|cpu| cpu.fail("wrong")) };
    machine.run(vec![program(), program()]).unwrap_err();
    let events = events.0.borrow();
    assert!(events.last().unwrap().2.starts_with("Failed"), "{events:?}");
}
