//! Waiting: a CPU that waits halts, and takes interrupts while it does. It never spins alone.
//!
//! Before it halts it looks a few times, since most waits are short. Then it says what it waits for,
//! looks once more, and halts, unless somebody has woken it in between. Whoever makes something come
//! true clears that word and sends an interrupt; who does not is made up for by the next tick.
//!
//! Halting takes interrupts even where the caller had them masked: he waits, so he holds no lock of
//! the library that a handler could want, and what others ask of him they get.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use framewright::CpuId;

use crate::{
    apic,
    cpu::{self, MAX_CPUS, control, this_cpu},
    interrupts::Vector,
};

/// How often a CPU looks before it halts. Without `pause`, which under a hypervisor may mean to leave
/// the guest.
const LOOKS: u32 = 50;

/// What a CPU waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event(u64);

impl Event {
    /// None.
    const NONE: Self = Self(0);
    /// Another CPU has done what it was asked to.
    pub(crate) const SERVED: Self = Self(1);
    /// Something that nobody says: the next interrupt, at the latest the next tick.
    pub(crate) const ANY: Self = Self(2);

    /// Wakes pauses of reclaim.
    pub(crate) const RESUMED: Self = Self(3);

    /// A ticket of the lock at an address is served.
    pub(crate) const fn ticket(lock: u64, ticket: u32) -> Self {
        Self(lock << 16 | ticket as u64 & 0xffff)
    }
}

/// What each CPU waits for, if it is about to halt.
static AWAITED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(Event::NONE.0) }; MAX_CPUS];
/// Which of them do, a bit each: so that who has nobody to wake sees it at one glance. A bit and a word
/// that are left over from a wait that ended before the halt cost an interrupt at the most.
static SLEEPERS: AtomicU64 = AtomicU64::new(0);

/// Once around a loop that waits; `spins` counts them, from 0.
pub(crate) fn once(event: Event, spins: u32) {
    if spins < LOOKS {
        return;
    }
    let me = this_cpu().id.index();
    let awaited = &AWAITED[me];
    if (spins - LOOKS).is_multiple_of(2) {
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

/// Has this CPU, if it is about to halt, look once more for what it waits for. Where something was done since it
/// looked, and in handlers.
pub(crate) fn stay_awake() {
    AWAITED[this_cpu().id.index()].store(Event::NONE.0, Ordering::Relaxed);
}

/// Waits until a condition holds, which somebody says by an event.
pub(crate) fn until(event: Event, condition: impl Fn() -> bool) {
    let mut spins = 0u32;
    while !condition() {
        once(event, spins);
        spins = spins.wrapping_add(1).max(1);
    }
}

/// Wakes who waits for an event, which may have come.
pub(crate) fn wake(event: Event) {
    // What came is seen by who gets sleepy after this, or he is seen here.
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
