//! Instructions that have no name in Rust: control registers, ports, model-specific registers.

use core::arch::asm;

/// The operand of `lgdt` and `lidt`: the address of a table, and the offset of its last byte.
#[repr(C, packed)]
pub(crate) struct TablePointer {
    pub(crate) limit: u16,
    pub(crate) base: u64,
}

/// Interrupt flag of `rflags`.
pub(crate) const RFLAGS_IF: u64 = 1 << 9;

/// Reads `rflags`.
#[inline(always)]
pub(crate) fn rflags() -> u64 {
    let flags;
    // SAFETY: reads a register; the stack pointer is back where it was.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags
}

/// Whether this CPU takes interrupts.
#[inline(always)]
pub(crate) fn interrupts_enabled() -> bool {
    rflags() & RFLAGS_IF != 0
}

/// Enables interrupts on this CPU.
#[inline(always)]
pub(crate) fn enable_interrupts() {
    // SAFETY: a CPU has its descriptor tables before this call, so every vector has a handler. Not
    // `nomem`: nothing may be moved across it.
    unsafe { asm!("sti", options(nostack)) };
}

/// Disables interrupts on this CPU.
#[inline(always)]
pub(crate) fn disable_interrupts() {
    // SAFETY: only delays interrupts. Not `nomem`: nothing may be moved across it.
    unsafe { asm!("cli", options(nostack)) };
}

/// Enables interrupts, halts until one arrives, and disables interrupts again. An interrupt that is
/// pending ends the halt at once: the instruction after `sti` is executed before any interrupt is
/// taken.
#[inline(always)]
pub(crate) fn halt_once() {
    // SAFETY: as `enable_interrupts`.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
}

/// Stops this CPU forever.
pub(crate) fn halt_forever() -> ! {
    loop {
        // SAFETY: only a non-maskable interrupt can wake the CPU; then it halts again.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// Reads the counter of cycles; under `-icount`, of instructions of the whole machine.
#[inline(always)]
pub(crate) fn timestamp() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter. Not `nomem`: the measured code must not be moved across it.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Does nothing; an external instruction counter (`linux/counter`) counts from here to
/// [`mark_end`].
#[inline(always)]
pub(crate) fn mark_begin() {
    // SAFETY: does nothing. Not `nomem`: the counted code must not be moved across it.
    unsafe { asm!("nop dword ptr [rax + 0x46574b31]", options(nostack, preserves_flags)) };
}

/// The end of the counted code.
#[inline(always)]
pub(crate) fn mark_end() {
    // SAFETY: as in `mark_begin`.
    unsafe { asm!("nop dword ptr [rax + 0x46574b32]", options(nostack, preserves_flags)) };
}

/// The root of the loaded page tables.
#[inline(always)]
pub(crate) fn page_table_root() -> u64 {
    let root;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack, preserves_flags)) };
    root
}

/// Loads page tables. This flushes all cached translations of this CPU that are not global.
///
/// # Safety
///
/// The new page tables map the kernel as the previous ones do.
#[inline(always)]
pub(crate) unsafe fn load_page_table_root(root: u64) {
    // SAFETY: by the contract of this function.
    unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags)) };
}

/// Flushes the translation of one page on this CPU.
#[inline(always)]
pub(crate) fn invalidate_page(address: u64) {
    // SAFETY: a flushed translation only costs another page walk.
    unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) };
}

/// The address of the last page fault.
#[inline(always)]
pub(crate) fn fault_address() -> u64 {
    let address;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// Reads a model-specific register.
///
/// # Safety
///
/// There is such a register.
pub(crate) unsafe fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller guarantees that the register exists; reading it has no effect.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high,
             options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
///
/// The register exists and takes `value`, and the effect of the write is safe.
pub(crate) unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: by the contract of this function.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32,
             options(nostack, preserves_flags));
    }
}

/// Writes a byte to a port.
///
/// # Safety
///
/// The effect on the device at the port is safe.
pub(crate) unsafe fn write_port(port: u16, value: u8) {
    // SAFETY: by the contract of this function.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// Writes a double word to a port.
///
/// # Safety
///
/// The effect on the device at the port is safe.
pub(crate) unsafe fn write_port_32(port: u16, value: u32) {
    // SAFETY: by the contract of this function.
    unsafe {
        asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags));
    };
}

/// Reads a byte from a port.
///
/// # Safety
///
/// The effect of the read on the device at the port is safe.
pub(crate) unsafe fn read_port(port: u16) -> u8 {
    let value;
    // SAFETY: by the contract of this function.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) };
    value
}
