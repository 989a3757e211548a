//! Access to frames by frame number.
//!
//! As on a machine, any code that has the number of a frame can write to it. So the contents of
//! frames are words that any thread may load and store with relaxed atomics. If two threads wrongly
//! use one frame, each reads the other's values: verification detects this, and the behaviour is
//! defined. Clearing and poisoning are also sequences of word stores; on x86-64 they use a string
//! instruction, which is a third faster.

#![allow(unsafe_code)]

use framewright::{FrameRange, Order, Pfn, frame::FRAME_SIZE, platform::poison_word};
use std::{
    fmt,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::mapping::Mapping;

const WORDS: usize = FRAME_SIZE / size_of::<u64>();

/// The frames of a machine.
pub(crate) struct Frames {
    range: FrameRange,
    /// `None`: frames are numbers only.
    mapping: Option<Mapping>,
}

impl Frames {
    /// `mapping`, if there is one, contains at least the frames of `range`.
    pub(crate) fn new(range: FrameRange, mapping: Option<Mapping>) -> Self {
        let needed = range.frames() as usize * FRAME_SIZE;
        let mapping = mapping.filter(|mapping| mapping.bytes() >= needed);
        Self { range, mapping }
    }

    pub(crate) fn range(&self) -> FrameRange {
        self.range
    }

    pub(crate) fn are_real(&self) -> bool {
        self.mapping.is_some()
    }

    /// The address of the 2^order frames from `pfn`; `None` if some are not of the machine, or there is
    /// no memory behind them.
    pub(crate) fn pointer(&self, pfn: Pfn, order: Order) -> Option<NonNull<u8>> {
        let mapping = self.mapping.as_ref()?;
        let offset = pfn.get().checked_sub(self.range.start().get())?;
        let end = offset.checked_add(order.frames())?;
        if end > self.range.frames() {
            return None;
        }
        // SAFETY: the mapping contains all frames of the range, so the offset is inside it.
        Some(unsafe { mapping.start().add(offset as usize * FRAME_SIZE) })
    }

    /// The words of the 2^order frames from `pfn`; none if there is no memory behind them.
    pub(crate) fn words(&self, pfn: Pfn, order: Order) -> &[AtomicU64] {
        let Some(start) = self.pointer(pfn, order) else {
            return &[];
        };
        let count = order.frames() as usize * WORDS;
        // SAFETY: the words are inside the mapping, which lives as long as `self`, is aligned to
        // pages, and was zeroed by the kernel. All accesses to frames by safe code are atomic
        // stores and loads of such words.
        unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>().as_ptr(), count) }
    }

    pub(crate) fn clear(&self, pfn: Pfn, order: Order) {
        store_all(self.words(pfn, order), 0);
    }

    /// Fills each frame with its own poison word.
    pub(crate) fn poison(&self, pfn: Pfn, order: Order) {
        for pfn in (0..order.frames()).map(|i| pfn.offset(i)) {
            store_all(self.words(pfn, Order::ZERO), poison_word(pfn));
        }
    }

    /// The offset of the first byte of a frame that differs from the pattern of [`Frames::poison`].
    pub(crate) fn first_damage(&self, pfn: Pfn) -> Option<usize> {
        let words = self.words(pfn, Order::ZERO).iter().map(|word| word.load(Relaxed));
        let mut differences = words.map(|found| found ^ poison_word(pfn)).enumerate();
        let (index, difference) = differences.find(|(_, difference)| *difference != 0)?;
        let bytes = difference.to_ne_bytes();
        Some(index * size_of::<u64>() + bytes.iter().position(|byte| *byte != 0)?)
    }

    pub(crate) fn copy(&self, to: Pfn, from: Pfn) {
        let (to, from) = (self.words(to, Order::ZERO), self.words(from, Order::ZERO));
        for (to, from) in to.iter().zip(from) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }

    /// Writes `value`, `value + 1`, … into the words.
    pub(crate) fn fill(&self, pfn: Pfn, order: Order, value: u64) {
        let mut value = value;
        for word in self.words(pfn, order) {
            word.store(value, Relaxed);
            value = value.wrapping_add(1);
        }
    }

    /// Checks that the words have the values that [`Frames::fill`] wrote.
    pub(crate) fn verify(&self, pfn: Pfn, order: Order, value: u64) -> Result<(), Mismatch> {
        let words = self.words(pfn, order).iter().map(|word| word.load(Relaxed));
        let expected = (0..).map(|i| value.wrapping_add(i));
        match words.zip(expected).enumerate().find(|(_, (found, expected))| found != expected) {
            None => Ok(()),
            Some((index, (found, expected))) => Err(Mismatch {
                pfn: pfn.offset((index / WORDS) as u64),
                word: index % WORDS,
                found,
                expected,
            }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn store_all(words: &[AtomicU64], value: u64) {
    // SAFETY: stores the value into each of the words and nowhere else; the direction flag is
    // clear, as the calling convention demands. The words may be written through a shared
    // reference because they are atomic.
    unsafe {
        std::arch::asm!(
            "rep stosq",
            inout("rcx") words.len() => _,
            inout("rdi") words.as_ptr() => _,
            in("rax") value,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn store_all(words: &[AtomicU64], value: u64) {
    for word in words {
        word.store(value, Relaxed);
    }
}

/// A frame does not contain the values written to it: another thread wrote to it, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The frame.
    pub pfn: Pfn,
    /// The word in it, from 0 to 511.
    pub word: usize,
    /// The value of the word.
    pub found: u64,
    /// The expected value.
    pub expected: u64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, word, found, expected } = self;
        write!(f, "word {word} of frame {pfn} holds {found:#x} instead of {expected:#x}")
    }
}

impl std::error::Error for Mismatch {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, PageSize, mapping::MappingSpec};

    const BASE: u64 = 1024;
    const FRAMES: u64 = 8;

    fn frames() -> Frames {
        let range = FrameRange::new(Pfn::new(BASE), Pfn::new(BASE + FRAMES)).unwrap();
        let mapping = Mapping::new(&MappingSpec {
            what: "a test",
            bytes: FRAMES as usize * FRAME_SIZE,
            backing: Backing::Anonymous,
            pages: PageSize::Small,
            populate: false,
        });
        Frames::new(range, Some(mapping.unwrap()))
    }

    fn pfn(index: u64) -> Pfn {
        Pfn::new(BASE + index)
    }

    fn order(value: u8) -> Order {
        Order::new(value).unwrap()
    }

    #[test]
    fn written_words_are_read_back_and_neighbours_do_not_change() {
        let frames = frames();
        for index in 0..FRAMES {
            frames.fill(pfn(index), Order::ZERO, index << 32);
        }
        for index in 0..FRAMES {
            assert_eq!(frames.verify(pfn(index), Order::ZERO, index << 32), Ok(()));
        }
        frames.clear(pfn(2), order(1));
        assert!(frames.words(pfn(2), order(1)).iter().all(|word| word.load(Relaxed) == 0));
        for index in [1, 4] {
            assert_eq!(frames.verify(pfn(index), Order::ZERO, index << 32), Ok(()));
        }
    }

    #[test]
    fn a_mismatch_names_frame_and_word() {
        let frames = frames();
        frames.fill(pfn(4), order(2), 7);
        frames.words(pfn(5), Order::ZERO)[3].store(99, Relaxed);
        let mismatch = frames.verify(pfn(4), order(2), 7).unwrap_err();
        let expected = Mismatch { pfn: pfn(5), word: 3, found: 99, expected: 7 + 512 + 3 };
        assert_eq!(mismatch, expected);
        assert!(mismatch.to_string().starts_with("word 3 of frame 0x405 holds 0x63"));
    }

    #[test]
    fn poison_is_a_frames_own_and_shows_the_first_byte_that_changed() {
        let frames = frames();
        frames.poison(pfn(2), order(1));
        assert_eq!((frames.first_damage(pfn(2)), frames.first_damage(pfn(3))), (None, None));
        assert_eq!(frames.first_damage(pfn(1)), Some(0), "the frame was never poisoned");
        let word = &frames.words(pfn(3), Order::ZERO)[7];
        let mut bytes = word.load(Relaxed).to_ne_bytes();
        bytes[5] ^= 1;
        word.store(u64::from_ne_bytes(bytes), Relaxed);
        assert_eq!(frames.first_damage(pfn(3)), Some(7 * 8 + 5));
        frames.copy(pfn(3), pfn(2));
        assert!(frames.first_damage(pfn(3)).is_some(), "the contents of another frame");
    }

    #[test]
    fn a_copy_is_equal() {
        let frames = frames();
        frames.fill(pfn(0), Order::ZERO, 41);
        frames.copy(pfn(7), pfn(0));
        assert_eq!(frames.verify(pfn(7), Order::ZERO, 41), Ok(()));
    }

    #[test]
    fn frames_of_another_machine_are_out_of_reach() {
        let frames = frames();
        for (outside, size) in [(BASE - 1, 0), (BASE + FRAMES, 0), (BASE + 4, 3), (u64::MAX, 1)] {
            assert!(frames.pointer(Pfn::new(outside), order(size)).is_none());
            assert!(frames.words(Pfn::new(outside), order(size)).is_empty());
        }
        frames.clear(Pfn::new(BASE + FRAMES), Order::ZERO);
    }
}
