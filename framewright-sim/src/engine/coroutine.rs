//! The coroutines behind the CPUs. No other module knows how a switch is made.
//!
//! Stacks are reused by the next run, because mapping one takes longer than a short program.

#![allow(unsafe_code)]

use super::{Cpu, Engine, Failure, Program, failure::Reported};
use crate::host_memory::prefetch_at;
use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use framewright::CpuId;
use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    rc::Rc,
};

/// Bytes of address space for a CPU's stack. In release builds the library and its workloads need a
/// few KiB; panics and debug builds need far more.
const STACK_BYTES: usize = 256 << 10;

/// Stacks that no coroutine uses.
#[derive(Default)]
pub(super) struct Stacks(RefCell<Vec<DefaultStack>>);

impl Stacks {
    fn take(&self) -> DefaultStack {
        let kept = self.0.borrow_mut().pop();
        kept.unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("address space for a stack"))
    }
}

/// The suspension point of a program.
#[derive(Default)]
pub(super) struct Switch {
    yielder: Cell<Option<NonNull<Yielder<(), ()>>>>,
    /// An address near the top of the stack at the suspension.
    left_at: Cell<Option<NonNull<u8>>>,
}

impl Switch {
    /// Suspends the running program of this CPU until it is resumed. Only that program may call
    /// this.
    pub(super) fn suspend(&self) {
        let yielder = self.yielder.get().expect("only a running program suspends");
        let here = 0_u8;
        self.left_at.set(Some(NonNull::from(&here)));
        // SAFETY: `Coroutines::start` stores the yielder of the coroutine before its program
        // begins. The yielder lives at the base of the coroutine's stack until the program returns,
        // and only that program, which is running right now, calls this.
        unsafe { yielder.as_ref() }.suspend(());
    }

    /// Prefetches the top of the stack of a program that will soon be resumed.
    #[inline]
    pub(super) fn prefetch(&self) {
        /// Bytes of the stack: the innermost calls.
        const FRAMES_OF_CALLS: usize = 512;
        if let Some(address) = self.left_at.get() {
            prefetch_at(address.as_ptr(), FRAMES_OF_CALLS);
        }
    }
}

type Running = Coroutine<(), (), (), DefaultStack>;

/// The programs of one run.
pub(super) struct Coroutines(Vec<Running>);

impl Coroutines {
    /// Prepares the programs; none runs yet.
    pub(super) fn start(engine: &Rc<Engine>, programs: Vec<Program<'_>>) -> Self {
        let start = |(number, program): (usize, Program<'_>)| {
            // SAFETY: only the lifetime changes. The coroutine that takes the program is ended by
            // `Coroutines::end` or dropped with `self`. Both happen before `Engine::run` returns,
            // and so before the borrows of the program end.
            let program: Program<'static> = unsafe { std::mem::transmute(program) };
            let engine = Rc::clone(engine);
            Coroutine::with_stack(engine.stacks.take(), move |yielder: &Yielder<(), ()>, ()| {
                engine.cpus[number].switch.yielder.set(Some(NonNull::from(yielder)));
                Cpu::new(&engine, number as u16).run(program);
            })
        };
        Self(programs.into_iter().enumerate().map(start).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the program of a CPU has returned.
    pub(super) fn is_done(&self, number: u16) -> bool {
        self.0[usize::from(number)].done()
    }

    /// Runs the program of a CPU until it suspends or ends.
    pub(super) fn resume(&mut self, number: u16) -> Result<(), Failure> {
        let coroutine = &mut self.0[usize::from(number)];
        let resumed = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
        match resumed {
            Ok(CoroutineResult::Yield(()) | CoroutineResult::Return(())) => Ok(()),
            Err(payload) if payload.is::<Reported>() => Ok(()),
            Err(payload) => {
                Err(Failure::Panicked { cpu: CpuId::new(number), message: message(&*payload) })
            }
        }
    }

    /// Unwinds the suspended programs, and keeps all stacks for the next run.
    pub(super) fn end(self, stacks: &Stacks) {
        for mut coroutine in self.0 {
            if !coroutine.done() {
                coroutine.force_unwind();
            }
            stacks.0.borrow_mut().push(coroutine.into_stack());
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no message)".to_owned())
}
