//! Segments and the task-state segment, which names the stacks that interrupts come on.

use core::arch::asm;

use super::{
    control::TablePointer,
    stacks::{IST_STACKS, Stack},
};

const CODE: u16 = 0x08;
const DATA: u16 = 0x10;
const TSS: u16 = 0x18;

/// The task-state segment: all that is left of it in 64-bit mode is stacks.
#[repr(C, packed(4))]
struct TaskState {
    reserved: u32,
    rings: [u64; 3],
    reserved_too: u64,
    interrupts: [u64; 7],
    reserved_at_last: u64,
    reserved_word: u16,
    /// Where the map of allowed ports begins: beyond the end, so there is none.
    ports: u16,
}

/// The tables of one CPU.
#[repr(C, align(16))]
pub(super) struct Descriptors {
    segments: [u64; 5],
    task: TaskState,
}

impl Descriptors {
    /// Tables that have interrupts come on `stacks`.
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

    /// Has this CPU use them.
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
        // SAFETY: the segments say what those before said of code and data, and stay for ever; the
        // task-state segment is this CPU's own, and was not loaded before.
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
