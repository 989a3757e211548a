//! The spin lock under the C11 memory model.

use std::vec::Vec;

use loom::{model::Builder, sync::Arc, thread};

use super::SpinLock;
use crate::{
    platform::{Section, model::Machine},
    sync::{AtomicU32, Ordering},
    types::ZoneId,
};

/// Threads that each add 1 to a number under the lock, in two relaxed steps. An addition is lost if
/// two threads hold the lock at once, or if a thread does not see the previous holder's store.
fn count_to(threads: u32, preemptions: usize) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let lock: Arc<SpinLock<Machine, AtomicU32>> =
            Arc::new(SpinLock::new(Section::Zone(ZoneId::default()), AtomicU32::new(0)));
        let add = |lock: &SpinLock<Machine, AtomicU32>| {
            lock.with(&Machine::TRYLOCK, |number| {
                number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            });
        };
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || add(&lock))
            })
            .collect();
        add(&lock);
        others.into_iter().for_each(|other| other.join().unwrap());
        let sum = lock.with(&Machine::TRYLOCK, |number| number.load(Ordering::Relaxed));
        assert_eq!(sum, threads, "an addition was lost");
    });
}

#[test]
fn loom_the_lock_excludes_and_orders() {
    count_to(2, 3);
}
