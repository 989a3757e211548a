//! Segments, and the task-state segment with the stacks of interrupts.

use core::arch::asm;

use super::{
    control::TablePointer,
    stacks::{IST_STACKS, Stack},
};

const CODE: u16 = 0x08;
const DATA: u16 = 0x10;
const TSS: u16 = 0x18;

/// The task-state segment, of which 64-bit mode uses only the stacks.
#[repr(C, packed(4))]
struct TaskState {
    reserved: u32,
    rings: [u64; 3],
    reserved_too: u64,
    interrupts: [u64; 7],
    reserved_at_last: u64,
    reserved_word: u16,
    /// The offset of the I/O permission map: beyond the end, so there is none.
    ports: u16,
}

/// The tables of one CPU.
#[repr(C, align(16))]
pub(super) struct Descriptors {
    segments: [u64; 5],
    task: TaskState,
}

impl Descriptors {
    /// Tables with these stacks for interrupts.
    pub(super) fn new(stacks: &[Stack; IST_STACKS]) -> Self {
        let mut interrupts = [0; 7];
        for (entry, stack) in interrupts.iter_mut().zip(stacks) {
            *entry = stack.top();
        }
        Self {
            segments: [0, 0x00af_9a00_0000_ffff, 0x00cf_9200_0000_ffff, 0, 0],
            task: TaskState {
                reserved: 0,
                rings: [0; 3],
                reserved_too: 0,
                interrupts,
                reserved_at_last: 0,
                reserved_word: 0,
                ports: size_of::<TaskState>() as u16,
            },
        }
    }

    /// Loads the tables on this CPU.
    pub(super) fn load(&'static mut self) {
        let base = &raw const self.task as u64;
        let limit = size_of::<TaskState>() as u64 - 1;
        // An available 64-bit task-state segment.
        self.segments[3] =
            limit | (base & 0xff_ffff) << 16 | 0x89 << 40 | (base >> 24 & 0xff) << 56;
        self.segments[4] = base >> 32;
        let pointer = TablePointer {
            limit: size_of_val(&self.segments) as u16 - 1,
            base: self.segments.as_ptr() as u64,
        };
        // SAFETY: code and data segments equal those loaded before, and the tables are never freed.
        // The task-state segment belongs to this CPU, and was not loaded before.
        unsafe {
            asm!(
                "lgdt [{pointer}]",
                "push {code}",
                "lea {scratch}, [rip + 2f]",
                "push {scratch}",
                "retfq",
                "2:",
                "mov ds, {data:x}",
                "mov es, {data:x}",
                "mov ss, {data:x}",
                "ltr {task:x}",
                pointer = in(reg) &raw const pointer,
                code = in(reg) u64::from(CODE),
                data = in(reg) DATA,
                task = in(reg) TSS,
                scratch = out(reg) _,
            );
        }
    }
}
