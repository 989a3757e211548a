//! The console: the first serial port.

#![allow(unsafe_code)]

use core::{
    fmt::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::cpu::control::{self, read_port, write_port};

const PORT: u16 = 0x3f8;
const LINE_STATUS: u16 = PORT + 5;
const CAN_SEND: u8 = 1 << 5;

static LOCK: AtomicBool = AtomicBool::new(false);

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: if there is no serial port, reads return all ones, and writes have no effect.
            unsafe {
                while read_port(LINE_STATUS) & CAN_SEND == 0 {}
                write_port(PORT, byte);
            }
        }
        Ok(())
    }
}

/// Sets the port to 115200 baud, 8 bits, no parity.
pub(crate) fn init() {
    for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 0xc7), (4, 3)] {
        // SAFETY: these are the registers of a serial port.
        unsafe { write_port(PORT + register, value) };
    }
}

/// Prints under a lock. Interrupts are masked: a handler that prints must not wait for its own CPU.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    let enabled = control::interrupts_enabled();
    control::disable_interrupts();
    while LOCK.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        core::hint::spin_loop();
    }
    let _ = Serial.write_fmt(text);
    LOCK.store(false, Ordering::Release);
    if enabled {
        control::enable_interrupts();
    }
}

/// Prints without the lock, before the end of the machine.
pub(crate) fn print_at_last(text: fmt::Arguments<'_>) {
    let _ = Serial.write_fmt(text);
}

/// Prints a line.
macro_rules! println {
    ($($text:tt)*) => { $crate::serial::write(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use println;

/// Prints without ending the line.
macro_rules! print {
    ($($text:tt)*) => { $crate::serial::write(format_args!($($text)*)) };
}
pub(crate) use print;
