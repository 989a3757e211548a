//! Requests and epochs under the C11 memory model.
//!
//! A page-table entry is a flag; what a CPU has cached is what it read of it when it last forgot.
//! All of both is accessed without any order of its own: what is shown is that the protocol
//! orders it.

use loom::{model::Builder, sync::Arc, thread};

use super::{CpuFlushes, Scope, epoch::Epoch};
use crate::{
    platform::model::Machine,
    sync::{AtomicU32, Ordering::Relaxed},
};

struct Model {
    epoch: Epoch,
    state: CpuFlushes<Machine>,
    /// Present or not.
    entries: [AtomicU32; 3],
    cached: [AtomicU32; 3],
}

const ON: &Machine = &Machine::TRYLOCK;

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            epoch: Epoch::new(),
            state: CpuFlushes::new(),
            entries: std::array::from_fn(|_| AtomicU32::new(1)),
            cached: std::array::from_fn(|_| AtomicU32::new(1)),
        })
    }

    fn refresh(&self, page: usize) {
        self.cached[page].store(self.entries[page].load(Relaxed), Relaxed);
    }

    /// The CPU's handler. It runs in the thread that sends the interrupt, so several may run at
    /// once.
    fn interrupt(&self) {
        self.state.serve(ON, |scope| match scope {
            Scope::Everything => (0..3).for_each(|page| self.refresh(page)),
            Scope::Pages { first, .. } => self.refresh(first as usize),
        });
    }

    /// Unmaps a page, and flushes it as `scope` says.
    fn unmap(&self, page: usize, scope: Scope) {
        self.entries[page].store(0, Relaxed);
        let number = self.ask(page, scope);
        while !self.state.has_served(ON, number) {
            thread::yield_now();
        }
        assert_eq!(self.cached[page].load(Relaxed), 0, "page {page} is still reached");
    }

    /// Asks the CPU to flush a page; the number of the request.
    fn ask(&self, page: usize, scope: Scope) -> u64 {
        if self.state.post(ON, scope) {
            self.interrupt();
        }
        let number = self.state.posted();
        if self.state.has_served(ON, number) {
            assert_eq!(self.cached[page].load(Relaxed), 0, "page {page} is still reached");
        }
        number
    }
}

fn explore(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

fn two_flushes(scopes: [Scope; 2]) {
    explore(3, move || {
        let model = Model::new();
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || other.unmap(0, scopes[0]));
        model.unmap(1, scopes[1]);
        thread.join().unwrap();
    });
}

#[test]
fn loom_a_request_that_joins_another_is_served() {
    two_flushes([Scope::Everything, Scope::Everything]);
}

#[test]
fn loom_requests_for_pages_that_meet_are_served() {
    two_flushes([Scope::page(0, 0), Scope::page(0, 1)]);
}

#[test]
fn loom_a_request_for_everything_joins_one_for_pages() {
    two_flushes([Scope::page(0, 0), Scope::Everything]);
}

/// The first is still writing which pages it is for when the second widens it, the CPU takes it up,
/// and the third begins anew. Nobody waits; in the end all was served.
#[test]
fn loom_a_request_belongs_to_who_writes_it() {
    explore(2, || {
        let model = Model::new();
        let unmap = |model: &Model, page: usize, scope: Scope| {
            model.entries[page].store(0, Relaxed);
            model.ask(page, scope);
        };
        let others = [(0, Scope::page(0, 0)), (1, Scope::Everything)].map(|(page, scope)| {
            let other = Arc::clone(&model);
            thread::spawn(move || unmap(&other, page, scope))
        });
        // An interrupt that comes late, for something long served.
        model.interrupt();
        unmap(&model, 2, Scope::page(0, 2));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!((0..3).all(|page| model.cached[page].load(Relaxed) == 0));
    });
}

#[test]
fn loom_who_has_forgotten_since_reaches_nothing() {
    explore(3, || {
        let model = Model::new();
        let cpu = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let epoch = cpu.epoch.read();
            cpu.refresh(0);
            cpu.state.set_flushed_epoch(epoch);
        });
        model.entries[0].store(0, Relaxed);
        let epoch = model.epoch.advance();
        if model.state.has_flushed(epoch) {
            assert_eq!(model.cached[0].load(Relaxed), 0);
        }
        thread.join().unwrap();
    });
}

#[test]
fn loom_whoever_begins_the_epoch_that_is_waited_for() {
    explore(3, || {
        let model = Model::new();
        let (cpu, flusher) = (Arc::clone(&model), Arc::clone(&model));
        let cpu = thread::spawn(move || {
            let epoch = cpu.epoch.read();
            cpu.refresh(0);
            cpu.state.set_flushed_epoch(epoch);
        });
        let flusher = thread::spawn(move || {
            flusher.epoch.advance();
        });
        model.entries[0].store(0, Relaxed);
        let epoch = model.epoch.next();
        if model.state.has_flushed(epoch) {
            assert_eq!(model.cached[0].load(Relaxed), 0);
        }
        cpu.join().unwrap();
        flusher.join().unwrap();
    });
}
