//! The contents of frames: all memory is mapped at its physical address.

#![allow(unsafe_code)]

use core::arch::asm;

use framewright::{Order, Pfn};

/// Bytes of a frame.
pub(crate) const BYTES: u64 = 4096;
/// Words of a frame.
pub(crate) const WORDS: usize = 512;

/// The address of a frame.
#[inline(always)]
pub(crate) fn address(pfn: Pfn) -> u64 {
    pfn.get() * BYTES
}

/// Fills frames with a word.
#[inline(always)]
pub(crate) fn fill(pfn: Pfn, order: Order, word: u64) {
    // SAFETY: the caller owns the frames; they are mapped, and no Rust object is in them.
    unsafe {
        asm!("rep stosq", inout("rcx") order.frames() * WORDS as u64 => _,
             inout("rdi") address(pfn) => _, in("rax") word, options(nostack, preserves_flags));
    }
}

/// Copies a frame.
pub(crate) fn copy(to: Pfn, from: Pfn) {
    // SAFETY: the caller owns both frames, which are mapped and hold no Rust objects.
    unsafe {
        asm!("rep movsq", inout("rcx") WORDS => _, inout("rdi") address(to) => _,
             inout("rsi") address(from) => _, options(nostack, preserves_flags));
    }
}

/// Reads a word of a frame that other CPUs may be writing to.
#[inline(always)]
pub(crate) fn read(pfn: Pfn, word: usize) -> u64 {
    // SAFETY: mapped, aligned, and within the frame; volatile, because other CPUs write through
    // other addresses.
    unsafe { (address(pfn) as *const u64).add(word % WORDS).read_volatile() }
}

/// Writes a word of a frame.
#[inline(always)]
pub(crate) fn write(pfn: Pfn, word: usize, value: u64) {
    // SAFETY: as in `read`; the caller owns the frame.
    unsafe { (address(pfn) as *mut u64).add(word % WORDS).write_volatile(value) }
}

/// The words of a frame.
pub(crate) fn words(pfn: Pfn) -> impl Iterator<Item = u64> {
    (0..WORDS).map(move |word| read(pfn, word))
}
