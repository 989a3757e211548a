//! Threads of the model: OS threads, of which only one runs at a time (`Machine::baton` is its
//! number). Every change of the running thread is a choice of the explorer.

use core::cell::RefCell;
use std::{
    any::Any,
    boxed::Box,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    string::{String, ToString},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    vec::Vec,
};

use super::{
    machine::{Machine, Operation},
    path::{Location, ThreadId},
};

std::thread_local! {
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// A model thread's view of its execution.
#[derive(Clone)]
pub(super) struct Handle {
    shared: Arc<Shared>,
    pub(super) thread: ThreadId,
}

pub(super) struct Shared {
    machine: Mutex<Machine>,
    running: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The panic payload with which model threads unwind when their execution is cut short.
struct Ended;

impl Shared {
    pub(super) fn new(machine: Machine) -> Arc<Self> {
        Arc::new(Self { machine: Mutex::new(machine), running: Mutex::new(Vec::new()) })
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn into_machine(self: Arc<Self>) -> Option<Machine> {
        let shared = Arc::into_inner(self)?;
        Some(shared.machine.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn running(&self) -> MutexGuard<'_, Vec<thread::JoinHandle<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `body` as the first model thread, on this OS thread, with all threads that it spawns.
    pub(super) fn run(self: &Arc<Self>, body: &(dyn Fn() + Sync)) {
        let thread = self.machine().add_thread(thread::current());
        Handle { shared: Arc::clone(self), thread }.live(body);
        while let Some(other) = { self.running().pop() } {
            // Model threads catch their panics.
            let _ = other.join();
        }
    }
}

impl Handle {
    /// The execution that the calling OS thread takes part in.
    pub(super) fn current() -> Option<Handle> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// The execution that the calling OS thread takes part in, if it uses the model's memory: from
    /// the spawn of the second thread on.
    pub(super) fn modelled() -> Option<Handle> {
        Handle::current().filter(|handle| !handle.machine().is_alone())
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.shared.machine()
    }

    /// Waits until the explorer chooses this thread for `operation`, then applies `effect`.
    pub(super) fn step<R>(
        &self,
        operation: impl FnOnce(&mut Machine) -> Operation,
        effect: impl FnOnce(&mut Machine, Operation) -> R,
    ) -> R {
        let mut machine = self.machine();
        let operation = operation(&mut machine);
        if !machine.ending {
            machine.request(self.thread, operation);
            machine = self.wait_for_baton(machine);
        }
        if machine.ending && !thread::panicking() {
            drop(machine);
            resume_unwind(Box::new(Ended));
        }
        effect(&mut machine, operation)
    }

    fn wait_for_baton<'h>(
        &'h self,
        mut machine: MutexGuard<'h, Machine>,
    ) -> MutexGuard<'h, Machine> {
        while !machine.ending && machine.baton != self.thread {
            drop(machine);
            thread::park();
            machine = self.machine();
        }
        machine
    }

    /// Runs a model thread from start to end.
    fn live(self, body: impl FnOnce()) {
        CURRENT.set(Some(self.clone()));
        let result = catch_unwind(AssertUnwindSafe(|| {
            body();
            self.step(|_| Operation::Exit, |machine, _| machine.fence(self.thread));
        }));
        CURRENT.set(None);
        let mut machine = self.machine();
        machine.finish(self.thread);
        match result {
            Err(panic) if !panic.is::<Ended>() => machine.fail(message_of(&*panic)),
            _ => machine.pass_on(self.thread),
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

/// A handle to wait for a model thread.
pub struct JoinHandle<T> {
    thread: ThreadId,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// The thread's number.
    #[must_use]
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Waits for the thread to end; its stores have all reached memory then.
    ///
    /// # Panics
    ///
    /// Outside of an exploration.
    pub fn join(self) -> T {
        let handle = Handle::current().expect("model threads are joined inside of explore()");
        handle.step(|_| Operation::Join(self.thread), |_, _| ());
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        result.take().expect("a thread that ended without panic has left its result")
    }
}

/// Starts a model thread. The caller's stores have reached memory before it runs.
///
/// # Panics
///
/// Outside of an exploration.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let handle = Handle::current().expect("model threads are spawned inside of explore()");
    handle.step(|_| Operation::Fence, |machine, _| machine.fence(handle.thread));
    let result = Arc::new(Mutex::new(None));
    let (slot, shared) = (Arc::clone(&result), Arc::clone(&handle.shared));
    // The thread is registered before the OS creates it, so that its number does not depend on the
    // OS.
    let thread = handle.machine().add_thread(thread::current());
    let os = thread::spawn(move || {
        let this = Handle { shared, thread };
        this.clone().live(move || {
            this.begin();
            let value = body();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
    });
    handle.machine().set_os_thread(thread, os.thread().clone());
    handle.shared.running().push(os);
    JoinHandle { thread, result }
}

impl Handle {
    /// Waits for the first turn of a new thread. Its parent has registered the operation `Start`.
    fn begin(&self) {
        let machine = self.wait_for_baton(self.machine());
        if machine.ending {
            drop(machine);
            resume_unwind(Box::new(Ended));
        }
    }
}

/// The number of the calling model thread; `None` outside of an exploration.
#[must_use]
pub fn current() -> Option<ThreadId> {
    Handle::current().map(|handle| handle.thread)
}

/// The body of a loop that waits for another thread: returns when the value that this thread read
/// last has changed. (So endless loops are not explored, and deadlocks are found.) Outside of an
/// exploration it yields to other threads.
pub fn yield_now() {
    let Some(handle) = Handle::current() else {
        return thread::yield_now();
    };
    let thread = handle.thread;
    handle.step(|machine| machine.yielding(thread), |machine, _| machine.yielded(thread));
}

/// A critical section, to check that one thread at a time is inside. It is a variable of the
/// checker, not of the modelled memory: all threads see its current value, and it orders no other
/// access.
#[derive(Debug, Default)]
pub struct Section(u8);

/// Proof of being inside a [`Section`], until it is dropped.
pub struct Inside<'s>(&'s Section);

impl Section {
    /// An empty section.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Enters.
    ///
    /// # Panics
    ///
    /// In an exploration, if another thread is inside.
    #[must_use = "the section is left when this is dropped"]
    pub fn enter(&self) -> Inside<'_> {
        if let Some(before) = self.set(|thread| thread as u64 + 1) {
            assert!(before == 0, "thread {} is inside already", before - 1);
        }
        Inside(self)
    }

    fn set(&self, value: impl Fn(ThreadId) -> u64) -> Option<u64> {
        let handle = Handle::modelled()?;
        let thread = handle.thread;
        Some(handle.step(
            |machine| Operation::Section(self.locate(machine)),
            |machine, _| {
                let location = self.locate(machine);
                machine.section(thread, location, value(thread))
            },
        ))
    }

    fn locate(&self, machine: &mut Machine) -> Location {
        machine.locate(core::ptr::from_ref(&self.0).addr(), 0)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set(|_| 0);
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if let Some(handle) = Handle::current() {
            handle.machine().forget(core::ptr::from_ref(&self.0).addr());
        }
    }
}
