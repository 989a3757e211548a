//! Records the loads, stores and compare-exchanges of the owner protocol as steps for the memory
//! model.

#![allow(unsafe_code)]

use std::{
    collections::VecDeque,
    sync::{Mutex, OnceLock},
    vec::Vec,
};

use super::model::{Act, Step, Value};
use crate::{
    platform::{BarrierTarget, OwnerLock, Platform, Probe, Wait},
    sync::{Ordering, RawWord, SpinFlag},
    types::{Corruption, Order, Pfn},
};

/// A machine that logs the accesses to its words.
#[derive(Default)]
pub(super) struct Recorder(Mutex<Log>);

#[derive(Default)]
struct Log {
    /// Words used so far.
    places: usize,
    /// The values that the next loads return.
    answers: VecDeque<Find>,
    steps: Vec<Step>,
}

/// The value that a recorded load returned, and whether the path depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Find {
    /// The path is taken only for this value.
    Only(u32),
    /// Any value gives the same path.
    Any(u32),
}

impl Recorder {
    /// Records the steps of `run` when its loads return `answers`.
    pub(super) fn record(&self, answers: &[Find], run: impl FnOnce(&Self)) -> Vec<Step> {
        self.0.lock().unwrap().answers.extend(answers);
        run(self);
        let mut log = self.0.lock().unwrap();
        assert!(log.answers.is_empty(), "fewer loads than expected");
        std::mem::take(&mut log.steps)
    }

    fn log(&self, word: &Word, act: Act, order: Ordering) -> u32 {
        let mut log = self.0.lock().unwrap();
        let place = *word.0.get_or_init(|| log.places);
        log.places = log.places.max(place + 1);
        let (loads, stores) = (act.loads(), act.stores());
        let find = loads.then(|| log.answers.pop_front().expect("an answer for each load"));
        let acquire = loads && !matches!(order, Ordering::Relaxed | Ordering::Release);
        let release = stores && !matches!(order, Ordering::Relaxed | Ordering::Acquire);
        let only = find.and_then(|find| if let Find::Only(v) = find { Some(v) } else { None });
        log.steps.push(Step { act, place, only, acquire, release });
        find.map_or(0, |find| match find {
            Find::Only(value) | Find::Any(value) => value,
        })
    }
}

/// A word. It gets its number at its first use.
pub(super) struct Word(OnceLock<usize>);

// SAFETY: a single thread records, so nothing relies on these words to exclude other threads.
unsafe impl RawWord<Recorder> for Word {
    fn new(_: u32) -> Self {
        Self(OnceLock::new())
    }

    fn load(&self, recorder: &Recorder, order: Ordering) -> u32 {
        recorder.log(self, Act::Load, order)
    }

    fn store(&self, recorder: &Recorder, value: u32, order: Ordering) {
        recorder.log(self, Act::Store(Value::Is(value)), order);
    }

    fn compare_exchange(
        &self,
        recorder: &Recorder,
        current: u32,
        new: u32,
        success: Ordering,
        _: Ordering,
    ) -> Result<u32, u32> {
        let found = recorder.log(self, Act::Swap(new), success);
        if found == current { Ok(found) } else { Err(found) }
    }
}

// SAFETY: no `Memory` is made on this machine, so nothing relies on its promises.
unsafe impl Platform for Recorder {
    type Lock = SpinFlag;
    type Word = Word;
    type Irq = ();

    fn irq_save(&self) {}
    fn irq_restore(&self, (): ()) {}

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, _: BarrierTarget) {}

    fn wait(&self, _: Wait, _: u32) {
        panic!("a recorded path does not wait");
    }

    unsafe fn clear(&self, _: Pfn, _: Order) {}
    unsafe fn copy(&self, _: Pfn, _: Pfn) {}

    fn now(&self) -> u64 {
        0
    }

    fn corruption(&self, report: &Corruption) {
        panic!("{report}");
    }
}

impl Probe for Recorder {}
