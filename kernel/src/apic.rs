//! The interrupt controller of each CPU: interrupts to other CPUs, and the timer.
//!
//! With an x2APIC, its registers are model-specific registers. Otherwise (xAPIC) they are in a
//! page, in which every CPU sees its own registers.

#![allow(unsafe_code)]

use core::{
    arch::x86_64::__cpuid,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{
    clock::{Clock, MILLISECOND},
    cpu::control::{self, read_msr, write_msr},
    interrupts::Vector,
};

/// The default address of the registers, which is not changed.
const REGISTERS: u64 = 0xfee0_0000;

const MSR_BASE: u32 = 0x1b;
const BASE_ENABLED: u64 = 1 << 11;
const BASE_X2APIC: u64 = 1 << 10;
/// The number of the model-specific register with offset 0. Each further 16 bytes of offset add 1.
const MSR_REGISTERS: u32 = 0x800;

const ID: u32 = 0x20;
const END_OF_INTERRUPT: u32 = 0xb0;
const SPURIOUS: u32 = 0xf0;
const COMMAND: u32 = 0x300;
const COMMAND_HIGH: u32 = 0x310;
const TIMER: u32 = 0x320;
const TIMER_COUNT: u32 = 0x380;
const TIMER_NOW: u32 = 0x390;
const TIMER_DIVIDE: u32 = 0x3e0;

const SOFTWARE_ENABLED: u32 = 1 << 8;
const TIMER_PERIODIC: u32 = 1 << 17;
const TIMER_MASKED: u32 = 1 << 16;
const DIVIDE_BY_16: u32 = 3;

const INIT: u32 = 5 << 8;
const STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
const PENDING: u32 = 1 << 12;
const ALL_BUT_SELF: u32 = 3 << 18;

/// The period of the timer, in nanoseconds.
pub(crate) const TICK: u64 = 4 * MILLISECOND;

/// Whether there is an x2APIC.
static X2APIC: AtomicBool = AtomicBool::new(false);
/// The timer's count for one period.
static TICK_COUNT: AtomicU64 = AtomicU64::new(0);

/// Enables the controller of this CPU.
pub(crate) fn enable() {
    let has_x2apic = __cpuid(1).ecx & 1 << 21 != 0;
    X2APIC.store(has_x2apic, Ordering::Relaxed);
    // SAFETY: every x86-64 CPU has this register; only the enable bit changes.
    unsafe {
        let mode = BASE_ENABLED | if has_x2apic { BASE_X2APIC } else { 0 };
        write_msr(MSR_BASE, read_msr(MSR_BASE) | mode);
    }
    write(SPURIOUS, SOFTWARE_ENABLED | Vector::Spurious as u32);
}

/// Masks all interrupts of the legacy controller (8259).
pub(crate) fn silence_pic() {
    // SAFETY: masks all of its lines.
    unsafe {
        control::write_port(0x21, 0xff);
        control::write_port(0xa1, 0xff);
    }
}

/// The APIC number of this CPU.
pub(crate) fn own_number() -> u32 {
    let id = read(ID);
    if is_x2apic() { id } else { id >> 24 }
}

/// Signals the end of an interrupt.
#[inline]
pub(crate) fn end_of_interrupt() {
    write(END_OF_INTERRUPT, 0);
}

/// Interrupts the CPU with this APIC number.
pub(crate) fn send(apic: u32, vector: Vector) {
    command(apic, ASSERT | vector as u32);
}

/// Interrupts all other CPUs.
pub(crate) fn send_to_others(vector: Vector) {
    command(0, ALL_BUT_SELF | ASSERT | vector as u32);
}

/// Sends INIT to all other CPUs: they wait for a start-up interrupt.
pub(crate) fn send_init_to_others() {
    command(0, ALL_BUT_SELF | ASSERT | INIT);
}

/// Starts the CPU with this APIC number, in real mode at the start of this page.
pub(crate) fn send_startup(apic: u32, page: u8) {
    command(apic, ASSERT | STARTUP | u32::from(page));
}

/// Measures the frequency of the timer. Called by the first CPU after its clock was started.
pub(crate) fn measure_timer() {
    write(TIMER_DIVIDE, DIVIDE_BY_16);
    write(TIMER, TIMER_MASKED);
    write(TIMER_COUNT, u32::MAX);
    let start = Clock::now();
    Clock::wait(MILLISECOND);
    let counted = u64::from(u32::MAX - read(TIMER_NOW));
    let took = Clock::now() - start;
    write(TIMER_COUNT, 0);
    TICK_COUNT.store((counted * TICK / took.max(1)).max(1), Ordering::Relaxed);
}

/// Divides the period of timers that are started later.
#[cfg(feature = "global")]
pub(crate) fn divide_period(by: u64) {
    let count = TICK_COUNT.load(Ordering::Relaxed) / by;
    TICK_COUNT.store(count.max(1), Ordering::Relaxed);
}

/// Starts the periodic timer of this CPU.
pub(crate) fn start_timer() {
    write(TIMER_DIVIDE, DIVIDE_BY_16);
    write(TIMER, TIMER_PERIODIC | Vector::Timer as u32);
    write(TIMER_COUNT, TICK_COUNT.load(Ordering::Relaxed).min(u64::from(u32::MAX)) as u32);
}

fn is_x2apic() -> bool {
    X2APIC.load(Ordering::Relaxed)
}

fn command(apic: u32, low: u32) {
    let enabled = control::interrupts_enabled();
    // Both halves must be written together.
    control::disable_interrupts();
    if is_x2apic() {
        // The interrupted CPU must see earlier stores; these register writes do not wait for them.
        core::sync::atomic::fence(Ordering::SeqCst);
        // SAFETY: there is an x2APIC, and this is its command register.
        unsafe {
            write_msr(MSR_REGISTERS + (COMMAND >> 4), u64::from(apic) << 32 | u64::from(low));
        }
    } else {
        write(COMMAND_HIGH, apic << 24);
        write(COMMAND, low);
        while read(COMMAND) & PENDING != 0 {
            core::hint::spin_loop();
        }
    }
    if enabled {
        control::enable_interrupts();
    }
}

fn read(register: u32) -> u32 {
    if is_x2apic() {
        // SAFETY: there is an x2APIC, which has these registers.
        unsafe { read_msr(MSR_REGISTERS + (register >> 4)) as u32 }
    } else {
        // SAFETY: the registers are mapped, like all of the first 4 GiB.
        unsafe { ((REGISTERS + u64::from(register)) as *const u32).read_volatile() }
    }
}

fn write(register: u32, value: u32) {
    if is_x2apic() {
        // SAFETY: as in `read`.
        unsafe { write_msr(MSR_REGISTERS + (register >> 4), u64::from(value)) };
    } else {
        // SAFETY: as in `read`.
        unsafe { ((REGISTERS + u64::from(register)) as *mut u32).write_volatile(value) };
    }
}
