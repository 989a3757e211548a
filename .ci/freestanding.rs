//! The start and the end of a program for x86-64 Linux without standard library and C library. The
//! including program must define a function `run` that returns a `Result<_, u8>`. The exit code is
//! 0 for `Ok`, and the value of `Err` otherwise.

use core::{arch::asm, panic::PanicInfo};

/// The entry of the process.
#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    exit(crate::run().err().unwrap_or(0))
}

core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "    xor %ebp, %ebp",
    "    and $-16, %rsp",
    "    call start",
    options(att_syntax)
);

/// Ends the process.
pub(crate) fn exit(code: u8) -> ! {
    // SAFETY: system call 60 ends the process and touches no memory.
    unsafe {
        asm!("syscall", in("rax") 60, in("rdi") u64::from(code), options(noreturn, nostack));
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(255)
}

// Functions that the compiler calls. Other programs get them from the C library.

/// # Safety
///
/// As in C: `to` and `from` are `bytes` long and do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: by the contract of this function; the ABI keeps the direction flag clear.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
             options(nostack, preserves_flags));
    }
    to
}

/// # Safety
///
/// As in C: `to` and `from` are `bytes` long.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= bytes {
        // SAFETY: by the contract of this function. Copying upwards reads every byte before it is
        // overwritten.
        return unsafe { memcpy(to, from, bytes) };
    }
    // SAFETY: copying downwards also reads every byte before it is overwritten. Both last bytes
    // exist, because `bytes` is not 0 here.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") bytes => _,
             inout("rdi") to.add(bytes - 1) => _, inout("rsi") from.add(bytes - 1) => _,
             options(nostack));
    }
    to
}

/// # Safety
///
/// As in C: `to` is `bytes` long.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    // SAFETY: by the contract of this function; the ABI keeps the direction flag clear.
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8,
             options(nostack, preserves_flags));
    }
    to
}

/// # Safety
///
/// As in C: `left` and `right` are `bytes` long.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, bytes: usize) -> i32 {
    for i in 0..bytes {
        // SAFETY: the index is within both.
        if unsafe { left.add(i).read_volatile() != right.add(i).read_volatile() } {
            return 1;
        }
    }
    0
}

/// The unwind tables of `core` refer to this function. It is never called, because a panic ends the
/// process.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
