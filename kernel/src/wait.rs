//! Waits: a waiting CPU halts and takes interrupts, instead of spinning for long.
//!
//! Before it halts it checks its condition a few times, because most waits are short. Then it publishes the
//! event that it waits for, checks once more, and halts, unless another CPU has woken it in between. A CPU
//! that announces the event clears the published word and sends an interrupt. Without an announcement the
//! next tick wakes the waiter.
//!
//! A halted CPU takes interrupts even if its caller had masked them: it waits, so it holds no lock of the
//! library that a handler could need, and it must serve the requests of other CPUs.

#[cfg(feature = "global")]
use core::sync::atomic::AtomicBool;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use framewright::CpuId;

use crate::{
    apic,
    cpu::{self, MAX_CPUS, control, this_cpu},
    interrupts::Vector,
};

/// Number of checks before a CPU halts. They run without `pause`, which may cause an exit to a
/// hypervisor.
const CHECKS: u32 = 50;

/// The event that a CPU waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event(u64);

impl Event {
    /// No event.
    const NONE: Self = Self(0);
    /// Another CPU has served a request.
    pub(crate) const SERVED: Self = Self(1);
    /// A condition that no CPU announces: the next interrupt ends the wait, at the latest the next tick.
    pub(crate) const ANY: Self = Self(2);

    /// A pause of reclaim may be over.
    pub(crate) const RESUMED: Self = Self(3);

    /// A ticket of the lock at an address is served.
    pub(crate) const fn ticket(lock: u64, ticket: u32) -> Self {
        Self(lock << 16 | ticket as u64 & 0xffff)
    }
}

/// The event that each CPU waits for, if it is about to halt.
static AWAITED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(Event::NONE.0) }; MAX_CPUS];
/// The CPUs that have published an event, one bit each: if no CPU waits, [`wake`] reads only this
/// word. A wait that ends before the halt may leave its bit and its event, which cost at most one
/// interrupt.
static SLEEPERS: AtomicU64 = AtomicU64::new(0);

/// The body of a waiting loop; `spins` counts its calls, from 0.
pub(crate) fn once(event: Event, spins: u32) {
    if spins < CHECKS {
        return;
    }
    if stays_masked() {
        return core::hint::spin_loop();
    }
    let me = this_cpu().id.index();
    let awaited = &AWAITED[me];
    if (spins - CHECKS).is_multiple_of(2) {
        awaited.store(event.0, Ordering::Relaxed);
        SLEEPERS.fetch_or(1 << me, Ordering::SeqCst);
        return;
    }
    let enabled = control::interrupts_enabled();
    control::disable_interrupts();
    if awaited.load(Ordering::SeqCst) != Event::NONE.0 {
        control::halt_once();
        awaited.store(Event::NONE.0, Ordering::Relaxed);
    }
    SLEEPERS.fetch_and(!(1 << me), Ordering::SeqCst);
    if enabled {
        control::enable_interrupts();
    }
}

/// Whether CPUs that have masked interrupts do not halt, because handlers allocate.
#[cfg(feature = "global")]
static STAY_MASKED: AtomicBool = AtomicBool::new(false);

/// From now on handlers allocate. So a CPU that waits with interrupts masked leaves them masked, and spins. Otherwise
/// a handler would wait for a lock that the interrupted code is about to get, and the stack of its vector would be
/// used twice.
#[cfg(feature = "global")]
pub(crate) fn stay_masked() {
    STAY_MASKED.store(true, Ordering::Relaxed);
}

#[cfg(feature = "global")]
fn stays_masked() -> bool {
    STAY_MASKED.load(Ordering::Relaxed) && !control::interrupts_enabled()
}

#[cfg(not(feature = "global"))]
fn stays_masked() -> bool {
    false
}

/// Makes this CPU check its condition once more if it is about to halt. Called after work since the
/// last check, and in handlers.
pub(crate) fn stay_awake() {
    AWAITED[this_cpu().id.index()].store(Event::NONE.0, Ordering::Relaxed);
}

/// Waits until a condition holds. The CPU that makes it hold announces the event with [`wake`].
pub(crate) fn until(event: Event, condition: impl Fn() -> bool) {
    let mut spins = 0u32;
    while !condition() {
        once(event, spins);
        spins = spins.wrapping_add(1).max(1);
    }
}

/// Wakes all CPUs that wait for an event, so that they check their conditions.
pub(crate) fn wake(event: Event) {
    // A CPU that publishes its event after this fence sees the change. The loop below sees all
    // others.
    fence(Ordering::SeqCst);
    let mut left = SLEEPERS.load(Ordering::Relaxed);
    while left != 0 {
        let number = left.trailing_zeros() as usize;
        left &= left - 1;
        let found = AWAITED[number].compare_exchange(
            event.0,
            Event::NONE.0,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        if let (Ok(_), Some(cpu)) = (found, cpu::by_number(CpuId::new(number as u16))) {
            apic::send(cpu.apic, Vector::Wake);
        }
    }
}
