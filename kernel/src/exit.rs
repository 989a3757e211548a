//! The end of a run: QEMU's `isa-debug-exit`, and panics.

#![allow(unsafe_code)]

use core::{
    panic::PanicInfo,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{cpu::control, serial};

const PORT: u16 = 0xf4;

/// The result of a run. QEMU exits with twice this value plus one: 33, 35 and 37. No result is 0,
/// which is QEMU's exit code after a triple fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Outcome {
    Passed = 0x10,
    Failed = 0x11,
    /// The command line is invalid, or impossible on this machine.
    Refused = 0x12,
}

/// Ends the machine. Without the device it halts this CPU.
pub(crate) fn exit(outcome: Outcome) -> ! {
    // SAFETY: only `isa-debug-exit` uses this port of a virtual machine.
    unsafe { control::write_port_32(PORT, outcome as u32) };
    control::halt_forever()
}

/// Ends the machine because of an invalid command line or configuration.
pub(crate) fn refuse(why: core::fmt::Arguments<'_>) -> ! {
    serial::print_at_last(format_args!("error: {why}\n"));
    exit(Outcome::Refused)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    static PANICKING: AtomicBool = AtomicBool::new(false);
    control::disable_interrupts();
    if PANICKING.swap(true, Ordering::AcqRel) {
        control::halt_forever();
    }
    serial::print_at_last(format_args!("\nerror: {info}\n"));
    exit(Outcome::Failed)
}
