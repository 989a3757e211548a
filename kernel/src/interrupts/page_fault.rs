//! Page faults: maps the page, or reports the fault.

use core::sync::atomic::Ordering;

use super::TrapFrame;
use crate::{
    cpu::{
        control::{self, RFLAGS_IF},
        this_cpu,
    },
    kthread, paging,
};

unsafe extern "C" {
    static probe_read: u8;
    static probe_write: u8;
    static try_write: u8;
    static probe_failed: u8;
}

/// A page fault.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) address: u64,
    pub(crate) write: bool,
}

const WRITE: u64 = 1 << 1;

/// The handler. It runs on the stack of the faulting code, and enables interrupts if they were
/// enabled there.
pub(super) fn handle(frame: &mut TrapFrame) {
    let fault = Fault { address: control::fault_address(), write: frame.error & WRITE != 0 };
    let takes_interrupts = frame.rflags & RFLAGS_IF != 0;
    if takes_interrupts {
        control::enable_interrupts();
    }
    let cpu = this_cpu();
    cpu.faults.store(cpu.faults.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if [&raw const probe_read, &raw const probe_write].iter().any(|&at| frame.rip == at as u64) {
        // The faulting code is a probe, which only reports the fault.
        frame.rip = &raw const probe_failed as u64;
        return;
    }
    let served = takes_interrupts && paging::serve(cpu, fault);
    if !served {
        // The faulting code handles a failed fault.
        assert!(
            frame.rip == &raw const try_write as u64,
            "unhandled page fault on CPU {}: {:#x} {frame}",
            cpu.id.index(),
            fault.address
        );
        frame.rip = &raw const probe_failed as u64;
    }
    if cpu.ticked.take() || kthread::any_runnable() {
        kthread::run();
    }
}
