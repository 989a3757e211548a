//! Interrupts and exceptions: the table of vectors, and their handlers.
//!
//! Every class of vectors (exceptions, interrupts, NMI and machine check, double fault, page fault)
//! has its own stack, and its handlers begin with interrupts masked. Only the page-fault handler enables
//! interrupts, after a switch to the stack of the thread (`boot/boot.s`). Therefore no stack is
//! used twice at the same time.

#![allow(unsafe_code)]

mod page_fault;
mod table;

use core::{
    fmt,
    sync::atomic::{Ordering, fence},
};

use crate::{
    apic,
    cpu::{Cpu, this_cpu},
    shootdown,
    wait::{self, Event},
};

pub(crate) use page_fault::Fault;
pub(crate) use table::load_table;

/// The first vector that is not an exception.
const FIRST: u8 = 32;
/// The number of kinds of interrupts.
pub(crate) const KINDS: usize = 5;

/// Vectors of interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Vector {
    /// The timer of the CPU.
    Timer = FIRST,
    /// Another CPU requests a TLB flush.
    Shootdown = FIRST + 1,
    /// Another CPU requests a memory barrier.
    Barrier = FIRST + 2,
    /// The event that this CPU waits for may have happened.
    Wake = FIRST + 3,
    /// A spurious interrupt of the controller.
    Spurious = 0xff,
}

/// The interrupted context, as `boot.s` leaves it on the stack.
#[repr(C)]
#[allow(missing_docs, dead_code)]
pub(crate) struct TrapFrame {
    pub(crate) r15: u64,
    pub(crate) r14: u64,
    pub(crate) r13: u64,
    pub(crate) r12: u64,
    pub(crate) rbp: u64,
    pub(crate) rbx: u64,
    pub(crate) r11: u64,
    pub(crate) r10: u64,
    pub(crate) r9: u64,
    pub(crate) r8: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) rcx: u64,
    pub(crate) rax: u64,
    pub(crate) vector: u64,
    pub(crate) error: u64,
    pub(crate) rip: u64,
    pub(crate) cs: u64,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
    pub(crate) ss: u64,
}

impl fmt::Display for TrapFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rip, rsp, error, rflags, .. } = self;
        write!(f, "at {rip:#x}, stack {rsp:#x}, error {error:#x}, flags {rflags:#x}")
    }
}

/// The entry of every vector into Rust, called by `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn interrupt(frame: &mut TrapFrame) {
    const TIMER: u64 = Vector::Timer as u64;
    const SHOOTDOWN: u64 = Vector::Shootdown as u64;
    const BARRIER: u64 = Vector::Barrier as u64;
    const WAKE: u64 = Vector::Wake as u64;
    const SPURIOUS: u64 = Vector::Spurious as u64;
    match frame.vector {
        14 => return page_fault::handle(frame),
        TIMER => tick(counted(frame)),
        SHOOTDOWN => {
            counted(frame);
            shootdown::serve();
            wait::wake(Event::SERVED);
        }
        BARRIER => {
            execute_barrier(counted(frame));
            wait::wake(Event::SERVED);
        }
        WAKE => {
            counted(frame);
            wait::stay_awake();
        }
        SPURIOUS => return,
        _ => panic!("exception {} on CPU {}: {frame}", frame.vector, this_cpu().id.index()),
    }
    apic::end_of_interrupt();
}

/// Counts an interrupt; returns the CPU that takes it.
fn counted(frame: &TrapFrame) -> &'static Cpu {
    let cpu = this_cpu();
    let count = &cpu.interrupts[frame.vector as usize - usize::from(FIRST)];
    // No other CPU writes this counter.
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    cpu
}

fn tick(cpu: &Cpu) {
    cpu.ticked.set(true);
    shootdown::tick();
    #[cfg(feature = "global")]
    crate::workload::global::tick(cpu);
}

/// Executes the barriers that other CPUs have requested.
fn execute_barrier(cpu: &Cpu) {
    let [asked, executed] = &cpu.barriers;
    let number = asked.load(Ordering::Acquire);
    fence(Ordering::SeqCst);
    executed.store(number, Ordering::Release);
}
