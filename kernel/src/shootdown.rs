//! The library's [`Shootdown`] on hardware: TLB flushes on this CPU and on others.

use core::sync::atomic::{AtomicBool, Ordering};

use framewright::{
    CpuId, Memory,
    tlb::{CpuMask, Flusher, Scope, Shootdown},
};

use crate::{
    apic,
    cpu::{self, control, this_cpu},
    interrupts::Vector,
    memory,
    paging::{self, AddressSpace},
    platform::Machine,
};

/// Seeded bug for `tlb-proof`: CPUs acknowledge requests without flushing.
pub(crate) static SKIPS_FLUSHES: AtomicBool = AtomicBool::new(false);

/// The TLBs of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hardware;

impl Shootdown for Hardware {
    /// The CPU reads the entry again to set its dirty bit.
    fn clean_stores_fault(&self) -> bool {
        true
    }

    fn invalidate(&self, cpu: CpuId, scope: Scope) {
        assert!(cpu == this_cpu().id, "a CPU invalidates only its own translations");
        if SKIPS_FLUSHES.load(Ordering::Relaxed) {
            return;
        }
        let loaded = AddressSpace::loaded_on(this_cpu());
        match scope {
            Scope::Everything => paging::flush_everything(),
            Scope::Pages { space, first, pages } => {
                // Only the loaded address space is cached: loading another one flushes everything.
                if loaded.is_some_and(|loaded| u64::from(loaded.number()) == space) {
                    let pages = first..first + u64::from(pages);
                    pages.map(paging::address_of).for_each(control::invalidate_page);
                }
            }
        }
    }

    fn interrupt(&self, _: CpuId, targets: &CpuMask) {
        if targets.count() as usize + 1 == cpu::online() {
            apic::send_to_others(Vector::Shootdown);
            return;
        }
        for cpu in targets.iter().filter_map(cpu::by_number) {
            apic::send(cpu.apic, Vector::Shootdown);
        }
    }

    fn is_lazy(&self, cpu: CpuId) -> bool {
        cpu::by_number(cpu).is_none_or(|cpu| cpu.lazy.load(Ordering::SeqCst))
    }
}

/// The flusher of the CPU that this runs on.
#[inline]
pub(crate) fn flusher() -> Flusher<'static, 'static, Machine> {
    flusher_of(memory::memory())
}

#[inline]
#[allow(unsafe_code)]
fn flusher_of(memory: &'static Memory<'static, Machine>) -> Flusher<'static, 'static, Machine> {
    // SAFETY: there is only one memory. Only the TLBs of CPUs cache translations, and `Hardware`
    // flushes them.
    unsafe { memory.flusher(this_cpu().id, &Hardware) }
}

/// Does the flushes that other CPUs have requested from this CPU. Interrupts are masked.
pub(crate) fn serve() {
    if let Some(memory) = memory::get() {
        flusher_of(memory).serve();
    }
}

/// Flushes this CPU's TLB if that saves a later interrupt. Called at each tick.
pub(crate) fn tick() {
    if let Some(memory) = memory::get() {
        flusher_of(memory).tick();
    }
}
