//! Typed arrays in the metadata buffer.

#![allow(unsafe_code)]

use core::mem::{MaybeUninit, align_of, size_of};

use crate::{
    buddy::{Bundle, Gigablock, Heads, Pageblock, PresentMap},
    hardening::Waiting,
    pcp::Slot,
    reclaim::{LruFlags, LruLink},
    sync::{AtomicU8, AtomicU32, AtomicU64},
    types::ZoneId,
    zone::Chunk,
};

/// A type whose values may be repeated by copying their bytes.
///
/// # Safety
///
/// A copy of the bytes of a value is a value. The type is not dropped, and refers to nothing.
pub(super) unsafe trait Plain: Sized {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: the type consists of integers and of atomics of integers. (The atomics of the model checkers are
        // others, but their tests create no memory.)
        unsafe impl Plain for $type {}
    )*};
}

plain!(u32, u64, [u32; 2], AtomicU8, AtomicU32, AtomicU64, ZoneId, Slot, Bundle, Chunk, Waiting);
plain!(Pageblock, Heads, Gigablock, PresentMap, LruLink, LruFlags);

/// A buffer that arrays are carved from, front to back.
pub(super) struct Carver<'m> {
    rest: &'m mut [MaybeUninit<u8>],
}

impl<'m> Carver<'m> {
    pub(super) fn new(buffer: &'m mut [MaybeUninit<u8>]) -> Self {
        Self { rest: buffer }
    }

    /// Carves an array of `count` copies of a value; `None` if the rest of the buffer is too small.
    pub(super) fn repeat<T: Plain>(&mut self, count: usize, value: &T) -> Option<&'m mut [T]> {
        let bytes = core::ptr::from_ref(value).cast::<MaybeUninit<u8>>();
        // SAFETY: these are the bytes of `value`, and `MaybeUninit<u8>` may hold any bytes.
        let bytes = unsafe { core::slice::from_raw_parts(bytes, size_of::<T>()) };
        let start = self.copies(count, bytes, align_of::<T>())?.as_mut_ptr().cast::<T>();
        // SAFETY: `start` is aligned for `T`, and `count` copies of a value follow it. Each copy is a value, because
        // `T` is plain. The bytes are borrowed exclusively for 'm.
        Some(unsafe { core::slice::from_raw_parts_mut(start, count) })
    }

    /// Carves `count` copies of the bytes of a value. Not generic, so that the code exists once for all types.
    #[inline(never)]
    fn copies(
        &mut self,
        count: usize,
        value: &[MaybeUninit<u8>],
        align: usize,
    ) -> Option<&'m mut [MaybeUninit<u8>]> {
        let array = self.cut(count.checked_mul(value.len())?, align)?;
        let mut done = value.len().min(array.len());
        array[..done].copy_from_slice(&value[..done]);
        // Each step doubles the part that is written.
        while done < array.len() {
            let (written, rest) = array.split_at_mut_checked(done)?;
            let more = done.min(rest.len());
            rest[..more].copy_from_slice(&written[..more]);
            done += more;
        }
        Some(array)
    }

    /// Carves an array of `count` values that `make` returns; `None` if the rest of the buffer is
    /// too small. The values are never dropped: they are plain data with the lifetime of the
    /// buffer.
    #[inline(never)]
    pub(super) fn array<T>(
        &mut self,
        count: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> Option<&'m mut [T]> {
        let array = self.space(count)?;
        for (at, slot) in array.iter_mut().enumerate() {
            slot.write(make(at));
        }
        // SAFETY: every element was written just now.
        Some(unsafe { initialised(array) })
    }

    /// As [`Carver::array`], for values that are too large for a kernel's stack: `init` initialises each in its place,
    /// and returns it. `None` also if `init` returns another value, or none.
    pub(super) fn in_place<T>(
        &mut self,
        count: usize,
        mut init: impl FnMut(usize, &mut MaybeUninit<T>) -> Option<&mut T>,
    ) -> Option<&'m mut [T]> {
        let array = self.space(count)?;
        for (at, slot) in array.iter_mut().enumerate() {
            let place = slot.as_ptr();
            if !core::ptr::eq(init(at, slot)?, place) {
                return None;
            }
        }
        // SAFETY: `init` returned a reference to each element, so each is a value.
        Some(unsafe { initialised(array) })
    }

    /// As [`Carver::array`], with `count` values from an iterator; `None` also if the iterator has
    /// fewer.
    #[inline(never)]
    pub(super) fn collect<T>(
        &mut self,
        count: usize,
        mut values: impl Iterator<Item = T>,
    ) -> Option<&'m mut [T]> {
        let array = self.space(count)?;
        for slot in array.iter_mut() {
            slot.write(values.next()?);
        }
        // SAFETY: every element was written just now.
        Some(unsafe { initialised(array) })
    }

    /// Carves space for `count` values.
    fn space<T>(&mut self, count: usize) -> Option<&'m mut [MaybeUninit<T>]> {
        let bytes = count.checked_mul(size_of::<T>())?;
        let start = self.cut(bytes, align_of::<T>())?.as_mut_ptr().cast::<MaybeUninit<T>>();
        // SAFETY: `start` is aligned for `T`, and `count` values fit from there on; the bytes are
        // borrowed exclusively for 'm, and `MaybeUninit<T>` may hold any bytes.
        Some(unsafe { core::slice::from_raw_parts_mut(start, count) })
    }

    /// Carves `bytes` bytes at a multiple of `align`. Not generic, so that the code exists once for
    /// arrays of all types.
    #[inline(never)]
    fn cut(&mut self, bytes: usize, align: usize) -> Option<&'m mut [MaybeUninit<u8>]> {
        let padding = self.rest.as_ptr().addr().wrapping_neg() & (align - 1);
        let end = padding.checked_add(bytes)?;
        let (front, rest) = core::mem::take(&mut self.rest).split_at_mut_checked(end)?;
        self.rest = rest;
        front.get_mut(padding..)
    }
}

/// The values of an array. The standard library's method for this needs Rust 1.93.
///
/// # Safety
///
/// Every element is initialised.
unsafe fn initialised<T>(array: &mut [MaybeUninit<T>]) -> &mut [T] {
    // SAFETY: the caller's promise, and `MaybeUninit<T>` is laid out like `T`.
    unsafe { &mut *(core::ptr::from_mut(array) as *mut [T]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_aligned_and_apart() {
        #[repr(align(64))]
        struct Line(u8);
        let mut buffer = [MaybeUninit::uninit(); 512];
        let mut carver = Carver::new(&mut buffer);
        let bytes = carver.array(3, |i| i as u8).unwrap();
        let lines = carver.array(2, |i| Line(i as u8 + 7)).unwrap();
        let words = carver.array(4, |i| i as u64).unwrap();
        let placed = carver.in_place(2, |i, place| Some(place.write(i as u16 + 3))).unwrap();
        assert_eq!(placed, [3, 4]);
        assert_eq!(carver.in_place(1, |_, _: &mut MaybeUninit<u8>| None), None);
        for count in [0, 1, 2, 5, 8] {
            assert_eq!(carver.repeat(count, &7u32).unwrap(), &[7; 8][..count]);
        }
        assert_eq!(bytes, [0, 1, 2]);
        assert!(lines.as_ptr().addr().is_multiple_of(64) && lines[1].0 == 8);
        assert_eq!(words, [0, 1, 2, 3]);
        assert!(carver.array(512, |_| 0u8).is_none());
    }
}
