//! Requests and epochs under the C11 memory model.
//!
//! A page-table entry is a flag; what a CPU has cached is what it read of it when it last forgot.
//! All of both is accessed without any order of its own: what is shown is that the protocol
//! orders it.

use loom::{
    model::Builder,
    sync::{Arc, Mutex},
    thread,
};

use super::{CpuFlushes, Scope, epoch::Epoch};
use crate::{
    platform::model::Machine,
    sync::{AtomicU32, Ordering::Relaxed},
};

struct Model {
    epoch: Epoch,
    state: CpuFlushes<Machine>,
    /// Present or not.
    entries: [AtomicU32; 2],
    cached: [AtomicU32; 2],
    /// The CPU serves one interrupt at a time.
    inside: Mutex<()>,
}

const ON: &Machine = &Machine::TRYLOCK;

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            epoch: Epoch::new(),
            state: CpuFlushes::new(),
            entries: [AtomicU32::new(1), AtomicU32::new(1)],
            cached: [AtomicU32::new(1), AtomicU32::new(1)],
            inside: Mutex::new(()),
        })
    }

    fn refresh(&self, page: usize) {
        self.cached[page].store(self.entries[page].load(Relaxed), Relaxed);
    }

    /// The CPU's handler, which runs in the thread that interrupts it.
    fn interrupt(&self) {
        let inside = self.inside.lock().unwrap();
        if let Some(scope) = self.state.take(ON) {
            let epoch = self.epoch.read();
            match scope {
                Scope::Everything => (0..2).for_each(|page| self.refresh(page)),
                Scope::Pages { first, .. } => self.refresh(first as usize),
            }
            self.state.set_served(ON, epoch);
        }
        drop(inside);
    }

    /// Unmaps a page, and flushes it as `scope` says.
    fn unmap(&self, page: usize, scope: Scope) {
        self.entries[page].store(0, Relaxed);
        let epoch = self.epoch.advance();
        if self.state.post(ON, scope) {
            self.interrupt();
        }
        while !self.state.has_served(ON, epoch) {
            thread::yield_now();
        }
        assert_eq!(self.cached[page].load(Relaxed), 0, "page {page} is still reached");
    }
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

fn two_flushes(scopes: [Scope; 2]) {
    explore(move || {
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

#[test]
fn loom_who_has_forgotten_since_reaches_nothing() {
    explore(|| {
        let model = Model::new();
        let cpu = Arc::clone(&model);
        let thread = thread::spawn(move || {
            let epoch = cpu.epoch.read();
            cpu.refresh(0);
            cpu.state.set_forgotten(epoch);
        });
        model.entries[0].store(0, Relaxed);
        let epoch = model.epoch.advance();
        if model.state.has_forgotten(epoch) {
            assert_eq!(model.cached[0].load(Relaxed), 0);
        }
        thread.join().unwrap();
    });
}

#[test]
fn loom_whoever_begins_the_epoch_that_is_waited_for() {
    explore(|| {
        let model = Model::new();
        let (cpu, flusher) = (Arc::clone(&model), Arc::clone(&model));
        let cpu = thread::spawn(move || {
            let epoch = cpu.epoch.read();
            cpu.refresh(0);
            cpu.state.set_forgotten(epoch);
        });
        let flusher = thread::spawn(move || {
            flusher.epoch.advance();
        });
        model.entries[0].store(0, Relaxed);
        let epoch = model.epoch.next();
        if model.state.has_forgotten(epoch) {
            assert_eq!(model.cached[0].load(Relaxed), 0);
        }
        cpu.join().unwrap();
        flusher.join().unwrap();
    });
}
