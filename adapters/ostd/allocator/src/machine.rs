//! [`Machine`]: OSTD as a [`Platform`].

#![expect(unsafe_code)]

use core::sync::atomic::{Ordering, fence};

use framewright::{
    CpuId, Order, Pfn, Platform,
    frame::FRAME_SIZE,
    global::{Mapped, Pinning},
    observe::Corruption,
    platform::{BarrierTarget, OwnerLock, Probe, Wait},
    sync::{PlainWord, SpinFlag},
};
use ostd::{
    arch,
    cpu::{CpuSet, PinCurrentCpu, num_cpus},
    irq::{self, DisabledLocalIrqGuard},
    smp::inter_processor_call,
    task::{DisabledPreemptGuard, disable_preempt},
};

/// The address at which OSTD maps all physical memory. OSTD does not export this constant.
const LINEAR_MAPPING: usize = 0xffff_8000_0000_0000;

/// OSTD as a [`Platform`]. Only this crate can make a value.
#[derive(Debug)]
pub struct Machine;

// SAFETY: lock and word are the library's own. An interrupt is a full barrier on the CPU that takes it, and its handler
// executes one. Tokens are claimed and used on their own CPU by `Global`.
unsafe impl Platform for Machine {
    type Lock = SpinFlag;
    type Word = PlainWord;
    type Irq = DisabledLocalIrqGuard;

    #[inline]
    fn irq_save(&self) -> DisabledLocalIrqGuard {
        irq::disable_local()
    }

    #[inline]
    fn irq_restore(&self, irq: DisabledLocalIrqGuard) {
        drop(irq);
    }

    fn owner_lock(&self) -> OwnerLock {
        OwnerLock::Biased
    }

    fn remote_barrier(&self, target: BarrierTarget) {
        fence(Ordering::SeqCst);
        let mut targets = match target {
            BarrierTarget::All => CpuSet::new_full(),
            BarrierTarget::Cpu(cpu) => ostd_cpu(cpu).map_or(CpuSet::new_empty(), CpuSet::from),
        };
        targets.remove(disable_preempt().current_cpu());
        // OSTD sends no interrupts before the other CPUs run.
        if num_cpus() > 1 && !targets.is_empty() {
            inter_processor_call(&targets, || fence(Ordering::SeqCst)).wait();
        }
        fence(Ordering::SeqCst);
    }

    fn wait(&self, _: Wait, _: u32) {
        core::hint::spin_loop();
    }

    unsafe fn clear(&self, pfn: Pfn, order: Order) {
        let bytes = order.frames() as usize * FRAME_SIZE;
        // SAFETY: the caller owns the frames, which OSTD maps at `address`.
        unsafe { self.address(pfn).write_bytes(0, bytes) }
    }

    unsafe fn copy(&self, to: Pfn, from: Pfn) {
        // SAFETY: the caller owns both frames, which are distinct. OSTD maps them at `address`.
        unsafe { self.address(to).copy_from_nonoverlapping(self.address(from), FRAME_SIZE) }
    }

    /// Only reclaim needs the clock.
    fn now(&self) -> u64 {
        nanoseconds()
    }

    #[cfg(feature = "reclaim")]
    fn relief(&self) -> &dyn framewright::platform::Relief {
        &crate::reclaim::OwnerRelief
    }

    fn corruption(&self, report: &Corruption) {
        ostd::error!("{report}");
    }
}

impl Probe for Machine {}

/// The time since reset.
pub(crate) fn nanoseconds() -> u64 {
    let ticks = u128::from(arch::read_tsc());
    // The frequency is unknown while OSTD boots.
    (ticks * 1_000_000_000 / u128::from(arch::tsc_freq().max(1))) as u64
}

fn ostd_cpu(cpu: CpuId) -> Option<ostd::cpu::CpuId> {
    ostd::cpu::CpuId::try_from(cpu.index()).ok()
}

// SAFETY: while preemption is disabled no other task runs on the CPU, and the caller stays there.
unsafe impl Pinning for Machine {
    type Pin = DisabledPreemptGuard;

    #[inline]
    fn pin(&self) -> (CpuId, DisabledPreemptGuard) {
        let guard = disable_preempt();
        let cpu = u32::from(guard.current_cpu());
        // The number fits in 16 bits, because no machine has more CPUs. `pieces::start` relies on that, too.
        (CpuId::new(cpu as u16), guard)
    }

    #[inline]
    fn unpin(&self, guard: DisabledPreemptGuard) {
        drop(guard);
    }
}

// SAFETY: OSTD maps all usable memory at this address before it hands over frames, and keeps the mapping. `pieces.rs`
// makes the only memory, of the frames that OSTD hands over. Code outside of this crate can neither name nor copy the
// type.
unsafe impl Mapped for Machine {
    fn address(&self, pfn: Pfn) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(LINEAR_MAPPING + pfn.address() as usize)
    }
}
