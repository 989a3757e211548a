//! The table of vectors: 256 gates, the same for all CPUs.

use core::{
    arch::asm,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::cpu::control::TablePointer;

const CODE: u64 = 0x08;
const PRESENT_INTERRUPT_GATE: u64 = 0x8e;

unsafe extern "C" {
    /// The entries of `boot.s`, 16 bytes each.
    static vectors: u8;
}

/// The gates, two words each. All CPUs write the same values.
static GATES: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// The stack of a vector, counted from 1.
fn stack_of(vector: u64) -> u64 {
    match vector {
        2 | 18 => 3,
        8 => 4,
        14 => 5,
        0..32 => 1,
        _ => 2,
    }
}

/// Loads the table on this CPU.
pub(crate) fn load_table() {
    for (vector, gate) in (0..).zip(GATES.chunks_exact(2)) {
        let entry = &raw const vectors as u64 + vector * 16;
        let low = entry & 0xffff
            | CODE << 16
            | stack_of(vector) << 32
            | PRESENT_INTERRUPT_GATE << 40
            | (entry >> 16 & 0xffff) << 48;
        gate[0].store(low, Ordering::Relaxed);
        gate[1].store(entry >> 32, Ordering::Relaxed);
    }
    let pointer =
        TablePointer { limit: size_of_val(&GATES) as u16 - 1, base: GATES.as_ptr() as u64 };
    // SAFETY: every gate leads to its entry, on a stack of the task-state segment; the table is
    // never freed.
    unsafe { asm!("lidt [{}]", in(reg) &raw const pointer, options(readonly, nostack)) };
}
