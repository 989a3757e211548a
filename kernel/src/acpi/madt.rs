//! The table of interrupt controllers (MADT): the CPUs of the machine.

use super::{Tables, structures, word};
use crate::cpu::MAX_CPUS;

/// Bytes before the structures.
const SKIP: usize = super::HEADER + 8;
const LOCAL_APIC: u8 = 0;
const LOCAL_X2APIC: u8 = 9;
/// Flag: the CPU is usable.
const ENABLED: u32 = 1;

/// The APIC numbers of CPUs, to which interrupts are addressed.
#[derive(Clone)]
pub(crate) struct CpuList {
    apics: [u32; MAX_CPUS],
    count: usize,
}

impl CpuList {
    /// The numbers, in the order of the firmware.
    pub(crate) fn apics(&self) -> &[u32] {
        &self.apics[..self.count]
    }
}

/// The usable CPUs, up to the limit of the kernel.
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
