//! Requests and epochs under the C11 memory model.
//!
//! A page-table entry is a flag. The cached entry of a CPU is the value that it read at its last
//! flush. Both are accessed without any ordering of their own, so the models show that the protocol
//! orders them.

use loom::{model::Builder, sync::Arc, thread};

use super::{CpuFlushes, Scope, epoch::Epoch};
use crate::{
    platform::model::Machine,
    sync::{AtomicU32, Ordering::Relaxed},
};

struct Model {
    epoch: Epoch,
    state: CpuFlushes<Machine>,
    /// 1 if the page-table entry is present, else 0.
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

    /// The interrupt handler of the CPU. It runs in the thread that sends the interrupt, so several
    /// may run at once.
    fn interrupt(&self) {
        self.state.serve(ON, |scope| match scope {
            Scope::Everything => (0..3).for_each(|page| self.refresh(page)),
            Scope::Pages { first, .. } => self.refresh(first as usize),
        });
    }

    /// Unmaps a page, and flushes `scope`.
    fn unmap(&self, page: usize, scope: Scope) {
        self.entries[page].store(0, Relaxed);
        let number = self.ask(page, scope);
        while !self.state.has_served(ON, number) {
            thread::yield_now();
        }
        assert_eq!(self.cached[page].load(Relaxed), 0, "stale TLB access to unmapped page {page}");
    }

    /// Asks the CPU to flush a page. Returns the number of the request.
    fn ask(&self, page: usize, scope: Scope) -> u64 {
        if self.state.post(ON, scope) {
            self.interrupt();
        }
        let number = self.state.posted();
        if self.state.has_served(ON, number) {
            assert_eq!(
                self.cached[page].load(Relaxed),
                0,
                "stale TLB access to unmapped page {page}"
            );
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
fn loom_concurrent_requests_for_pages_are_served() {
    two_flushes([Scope::page(0, 0), Scope::page(0, 1)]);
}

#[test]
fn loom_a_request_for_everything_joins_one_for_pages() {
    two_flushes([Scope::page(0, 0), Scope::Everything]);
}

/// While the first request is still being written, the second widens it and the CPU takes it. The
/// third request then begins anew. No thread waits, and in the end all requests are served.
#[test]
fn loom_a_widened_request_is_served_after_it_is_written() {
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
        // A late interrupt for a request that was served long ago.
        model.interrupt();
        unmap(&model, 2, Scope::page(0, 2));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!((0..3).all(|page| model.cached[page].load(Relaxed) == 0));
    });
}

/// The first call that serves the CPU panics, perhaps while another request comes. The next flush
/// serves both.
#[test]
fn loom_requests_that_a_panic_left_are_served_with_the_next() {
    explore(2, || {
        let model = Model::new();
        let other = Arc::clone(&model);
        let thread = thread::spawn(move || {
            other.entries[0].store(0, Relaxed);
            if other.state.post(ON, Scope::page(0, 0)) {
                let serve = || other.state.serve(ON, |_| panic!("it is not flushed"));
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(serve));
            }
        });
        model.entries[1].store(0, Relaxed);
        model.ask(1, Scope::page(0, 1));
        thread.join().unwrap();
        model.unmap(2, Scope::page(0, 2));
        assert!((0..3).all(|page| model.cached[page].load(Relaxed) == 0));
    });
}

#[test]
fn loom_a_cpu_that_has_flushed_since_has_no_stale_entry() {
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
fn loom_any_cpu_may_begin_the_awaited_epoch() {
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
