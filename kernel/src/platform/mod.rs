//! The library's [`Platform`] on hardware.

#![allow(unsafe_code)]

mod lock;
pub(crate) mod masked;

use core::sync::atomic::{AtomicU64, Ordering, fence};

use framewright::{
    Order, Pfn, Platform,
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Relief, Wait, poison_word},
    sync::PlainWord,
};

#[cfg(feature = "global")]
use framewright::{
    CpuId,
    global::{Mapped, Pinning},
};

use crate::{
    apic,
    clock::Clock,
    cpu::{self, Cpu, control, this_cpu},
    frames,
    interrupts::Vector,
    reclaim,
    serial::println,
    wait::{self, Event},
};

pub(crate) use lock::QueuedLock;

/// The machine. Its state is in other modules.
#[derive(Debug)]
pub(crate) struct Machine;

/// The number of corruption reports: bad frees, and frames that were written to while they were free.
pub(crate) static CORRUPTIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the lock excludes (see `lock`), the word is an atomic, and a barrier runs on the targeted
// CPUs (see `interrupts`). Tokens stay on the CPU that they name (`memory::with_token`).
unsafe impl Platform for Machine {
    type Lock = QueuedLock;
    type Word = PlainWord;
    /// Whether interrupts were enabled before, and the time of the masking.
    type Irq = (bool, masked::Since);

    #[inline(always)]
    fn irq_save(&self) -> Self::Irq {
        let enabled = control::interrupts_enabled();
        control::disable_interrupts();
        (enabled, masked::Since::now())
    }

    #[inline(always)]
    fn irq_restore(&self, (enabled, since): Self::Irq) {
        since.end();
        if enabled {
            control::enable_interrupts();
        }
    }

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, target: BarrierTarget) {
        fence(Ordering::SeqCst);
        let me = this_cpu().id;
        let concerns = |cpu: &&Cpu| {
            cpu.id != me && (target == BarrierTarget::All || target == BarrierTarget::Cpu(cpu.id))
        };
        let mut asked = [0; cpu::MAX_CPUS];
        for cpu in cpu::all().filter(concerns) {
            asked[cpu.id.index()] = cpu.barriers[0].fetch_add(1, Ordering::SeqCst) + 1;
            apic::send(cpu.apic, Vector::Barrier);
        }
        for cpu in cpu::all().filter(concerns) {
            wait::until(Event::SERVED, || {
                cpu.barriers[1].load(Ordering::Acquire) >= asked[cpu.id.index()]
            });
        }
    }

    fn wait(&self, why: Wait, spins: u32) {
        let event = match why {
            Wait::Flush => Event::SERVED,
            Wait::Lock | Wait::Owner | Wait::Memory => Event::ANY,
        };
        wait::once(event, spins);
    }

    #[inline(always)]
    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        frames::fill(pfn, order, 0);
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        frames::copy(to, from);
    }

    unsafe fn poison(&self, pfn: Pfn, order: Order) {
        for frame in 0..order.frames() {
            let pfn = pfn.offset(frame);
            frames::fill(pfn, Order::ZERO, poison_word(pfn));
        }
    }

    unsafe fn verify_poison(&self, pfn: Pfn) -> Option<usize> {
        let wanted = poison_word(pfn);
        frames::words(pfn).position(|word| word != wanted).map(|at| at * 8)
    }

    fn now(&self) -> u64 {
        Clock::now()
    }

    fn relief(&self) -> &dyn Relief {
        &reclaim::Kernel
    }

    fn corruption(&self, report: &Corruption) {
        CORRUPTIONS.fetch_add(1, Ordering::Relaxed);
        println!("corruption on CPU {}: {report}", this_cpu().id.index());
    }
}

impl Probe for Machine {}

// SAFETY: a thread of this kernel is preempted by interrupt handlers only, and stays on its CPU.
#[cfg(feature = "global")]
unsafe impl Pinning for Machine {
    type Pin = ();

    #[inline(always)]
    fn pin(&self) -> (CpuId, ()) {
        (this_cpu().id, ())
    }

    #[inline(always)]
    fn unpin(&self, (): ()) {}
}

// SAFETY: all memory is mapped at its own address. `workload/global.rs` initialises the only `Global`, with frames that it
// has taken from the kernel's allocator for good.
#[cfg(feature = "global")]
unsafe impl Mapped for Machine {
    fn address(&self, pfn: Pfn) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(frames::address(pfn) as usize)
    }
}
