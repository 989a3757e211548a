//! The table of interrupt controllers (MADT): which CPUs there are.

use super::{Tables, structures, word};
use crate::cpu::MAX_CPUS;

/// Bytes before its structures.
const SKIP: usize = super::HEADER + 8;
const LOCAL_APIC: u8 = 0;
const LOCAL_X2APIC: u8 = 9;
/// The CPU can be used.
const ENABLED: u32 = 1;

/// The numbers that interrupts to CPUs are addressed to.
#[derive(Clone)]
pub(crate) struct CpuList {
    apics: [u32; MAX_CPUS],
    count: usize,
}

impl CpuList {
    /// All of them, as firmware orders them.
    pub(crate) fn apics(&self) -> &[u32] {
        &self.apics[..self.count]
    }
}

/// The CPUs that can be used, as many as the kernel can have.
pub(crate) fn cpus(tables: Tables) -> CpuList {
    let mut list = CpuList { apics: [0; MAX_CPUS], count: 0 };
    let madt = tables.find(b"APIC").unwrap_or_default();
    let usable = structures(madt, SKIP).filter_map(|(kind, cpu)| match kind {
        LOCAL_APIC if word(cpu, 4) & ENABLED != 0 => Some(u32::from(cpu[3])),
        LOCAL_X2APIC if word(cpu, 8) & ENABLED != 0 => Some(word(cpu, 4)),
        _ => None,
    });
    for (slot, apic) in list.apics.iter_mut().zip(usable) {
        *slot = apic;
        list.count += 1;
    }
    list
}
