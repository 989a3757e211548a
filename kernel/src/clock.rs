//! Time: the CPU's cycle counter, calibrated with the timer of the PC (PIT).

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::cpu::control::{read_port, timestamp, write_port};

/// Nanoseconds in a microsecond.
pub(crate) const MICROSECOND: u64 = 1_000;
/// Nanoseconds in a millisecond.
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// Ticks of the PIT per second.
const PIT_HERTZ: u64 = 1_193_182;
/// Ticks of one calibration: 3 ms.
const PIT_TICKS: u64 = 3 * PIT_HERTZ / 1000;
const PIT_CHANNEL_2: u16 = 0x42;
const PIT_COMMAND: u16 = 0x43;
/// The port with the gate of channel 2 and its output.
const PIT_GATE: u16 = 0x61;

/// Nanoseconds per cycle, times 2^32.
static SCALE: AtomicU64 = AtomicU64::new(1 << 32);
static START: AtomicU64 = AtomicU64::new(0);

/// The clock, which starts with the kernel.
pub(crate) struct Clock;

impl Clock {
    /// Starts the clock. Called by the first CPU.
    pub(crate) fn start() {
        START.store(timestamp(), Ordering::Relaxed);
        // A disturbed measurement is too long, never too short.
        let cycles = (0..3).map(|_| measure()).min().unwrap_or(1).max(1);
        let nanos = u128::from(PIT_TICKS) * 1_000_000_000 / u128::from(PIT_HERTZ);
        SCALE.store(((nanos << 32) / u128::from(cycles)) as u64, Ordering::Relaxed);
    }

    /// Nanoseconds since the start.
    pub(crate) fn now() -> u64 {
        let cycles = timestamp().wrapping_sub(START.load(Ordering::Relaxed));
        let nanos = u128::from(cycles) * u128::from(SCALE.load(Ordering::Relaxed));
        (nanos >> 32) as u64
    }

    /// Waits by spinning: only for devices.
    pub(crate) fn wait(nanos: u64) {
        Self::wait_until(nanos, || false);
    }

    /// Waits for a condition by spinning, at most `nanos` nanoseconds. Returns whether it became
    /// true.
    pub(crate) fn wait_until(nanos: u64, condition: impl Fn() -> bool) -> bool {
        let end = Self::now() + nanos;
        loop {
            if condition() {
                return true;
            }
            if Self::now() >= end {
                return false;
            }
            core::hint::spin_loop();
        }
    }
}

/// Cycles during [`PIT_TICKS`].
fn measure() -> u64 {
    // SAFETY: channel 2 belongs to the loudspeaker, which stays off.
    unsafe {
        let gate = read_port(PIT_GATE) & !2;
        write_port(PIT_GATE, gate & !1);
        // Channel 2, both bytes, one shot.
        write_port(PIT_COMMAND, 0xb0);
        write_port(PIT_CHANNEL_2, PIT_TICKS as u8);
        write_port(PIT_CHANNEL_2, (PIT_TICKS >> 8) as u8);
        write_port(PIT_GATE, gate | 1);
        let start = timestamp();
        while read_port(PIT_GATE) & 1 << 5 == 0 {}
        let took = timestamp() - start;
        write_port(PIT_GATE, gate & !1);
        took
    }
}
