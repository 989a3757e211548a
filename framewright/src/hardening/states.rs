//! A byte per frame: marks of allocated blocks, of allocated extents, and of poisoned free frames.
//!
//! An allocated block is marked in the byte of its first frame only, so taking and giving a block of any order
//! changes one byte. A search for the allocated block that contains another frame reads one byte per order: that
//! of the frame at which a block of this order would start. Each frame of an extent is marked, because any part of
//! an extent can be freed.

use core::ops::Range;

use crate::{
    sync::{AtomicU8, Ordering},
    types::{Order, Pfn, Refusal},
};

/// No block starts here.
const NONE: u8 = 0;
/// An allocated block starts here; its order is in the low bits.
const HEAD: u8 = 0x80;
/// The frame is free and filled with poison.
const POISONED: u8 = 0x40;
/// The frame belongs to an extent, not to a block.
const EXTENT: u8 = 0x10;
/// The block that starts here is being split, and cannot be freed during the split.
const SPLITTING: u8 = 0x20;

/// The states of the frames of one zone, by their numbers in it.
#[derive(Clone, Copy)]
pub(crate) struct States<'m> {
    bytes: &'m [AtomicU8],
    /// The frame with number 0.
    base: Pfn,
}

impl<'m> States<'m> {
    /// States in `bytes`, which are zeroes, so nothing is allocated. The zone starts at `base`.
    pub(crate) fn new(bytes: &'m [AtomicU8], base: Pfn) -> Self {
        Self { bytes, base }
    }

    /// Marks the block at `frame` as allocated. The caller has just taken it from the zone.
    pub(crate) fn own(&self, frame: u32, order: Order) {
        self.at(frame).store(head(order), Ordering::Release);
    }

    /// Clears the mark of a block that is freed. Only one of several racing callers gets `Ok`. That
    /// caller then owns the frames.
    pub(crate) fn disown(&self, frame: u32, order: Order) -> Result<(), Refusal> {
        self.change(frame, head(order), NONE)
    }

    /// Checks that a block of exactly `order` starts at `frame`.
    pub(crate) fn expect(&self, frame: u32, order: Order) -> Result<(), Refusal> {
        match self.at(frame).load(Ordering::Acquire) {
            found if found == head(order) => Ok(()),
            found => Err(self.refusal(frame, found)),
        }
    }

    /// Marks a block that is about to be split: it cannot be freed until [`States::split`].
    pub(crate) fn begin_split(&self, frame: u32, order: Order) -> Result<(), Refusal> {
        self.change(frame, head(order), SPLITTING)
    }

    /// Marks the two blocks of order `half` that the block at `frame` was split into.
    pub(crate) fn split(&self, frame: u32, half: Order) {
        self.own(frame + half.frames() as u32, half);
        self.own(frame, half);
    }

    /// Marks frames as an allocated extent. The caller has just taken them from the zone.
    pub(crate) fn own_extent(&self, frames: Range<u32>) {
        for byte in self.range(frames) {
            byte.store(EXTENT, Ordering::Release);
        }
    }

    /// Clears the mark of a frame of an extent that is freed, as [`States::disown`] does.
    pub(crate) fn disown_of_extent(&self, frame: u32) -> Result<(), Refusal> {
        self.change(frame, EXTENT, NONE)
    }

    /// Checks that all frames belong to extents. Returns the first that does not.
    pub(crate) fn expect_extent(&self, frames: Range<u32>) -> Result<(), (u32, Refusal)> {
        (frames.start..).zip(self.range(frames)).try_for_each(|(frame, byte)| {
            match byte.load(Ordering::Acquire) {
                EXTENT => Ok(()),
                found => Err((frame, self.refusal(frame, found))),
            }
        })
    }

    /// Marks each frame of a part of an extent as an allocated block. If a frame is not part of an extent, returns
    /// it, and nothing has changed.
    pub(crate) fn split_extent(&self, frames: Range<u32>) -> Result<(), (u32, Refusal)> {
        for frame in frames.clone() {
            if let Err(why) = self.change(frame, EXTENT, head(Order::ZERO)) {
                self.own_extent(frames.start..frame);
                return Err((frame, why));
            }
        }
        Ok(())
    }

    /// Marks free frames as filled with poison.
    pub(crate) fn mark_poisoned(&self, frames: Range<u32>) {
        for byte in self.range(frames) {
            byte.store(POISONED, Ordering::Relaxed);
        }
    }

    /// Unmarks free frames, and returns those that were marked as filled with poison.
    pub(crate) fn take_poisoned(&self, frames: Range<u32>) -> impl Iterator<Item = u32> {
        (frames.start..).zip(self.range(frames)).filter_map(|(frame, byte)| {
            let is_poisoned = byte.load(Ordering::Relaxed) == POISONED;
            is_poisoned.then(|| byte.store(NONE, Ordering::Relaxed)).map(|()| frame)
        })
    }

    /// Number of frames of all allocated blocks and extents.
    pub(crate) fn owned_frames(&self) -> u64 {
        let bytes = self.bytes.iter().map(|byte| byte.load(Ordering::Relaxed));
        let frames = bytes.map(|byte| match order_of(byte) {
            Some(order) => order.frames(),
            None => u64::from(byte == EXTENT),
        });
        frames.sum()
    }

    fn at(&self, frame: u32) -> &AtomicU8 {
        &self.bytes[frame as usize]
    }

    fn range(&self, frames: Range<u32>) -> &[AtomicU8] {
        &self.bytes[frames.start as usize..frames.end as usize]
    }

    fn change(&self, frame: u32, from: u8, to: u8) -> Result<(), Refusal> {
        let changed =
            self.at(frame).compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        changed.map(|_| ()).map_err(|found| self.refusal(frame, found))
    }

    /// The reason to refuse a free at a frame with the byte `found`.
    #[cold]
    fn refusal(&self, frame: u32, found: u8) -> Refusal {
        if found == SPLITTING || order_of(found).is_some() {
            return Refusal::WrongOrder;
        }
        if found == EXTENT {
            return Refusal::NotAllocated;
        }
        let pfn = self.base.offset(u64::from(frame));
        let inside = |order: Order| {
            // Blocks are aligned to physical frame numbers, but zones only to pageblocks.
            let behind = (pfn.get() - pfn.align_down(order).get()) as u32;
            let head = frame.checked_sub(behind).map(|head| self.at(head).load(Ordering::Relaxed));
            head.and_then(order_of).is_some_and(|block| u64::from(behind) < block.frames())
        };
        if Order::all().any(inside) { Refusal::NotAllocated } else { Refusal::AlreadyFree }
    }
}

/// The byte of the first frame of an allocated block.
fn head(order: Order) -> u8 {
    HEAD | order.get()
}

/// The order of the block that starts at a frame with this byte, if one does.
fn order_of(byte: u8) -> Option<Order> {
    (byte & HEAD != 0).then(|| Order::new(byte & !HEAD))?
}

#[cfg(all(test, not(framewright_loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn order(value: u8) -> Order {
        Order::new(value).unwrap()
    }

    fn with_states(test: impl FnOnce(States<'_>)) {
        let bytes: Vec<AtomicU8> = (0..1024).map(|_| AtomicU8::new(0)).collect();
        test(States::new(&bytes, Pfn::new(0x600)));
    }

    #[test]
    fn only_the_block_that_was_handed_out_can_be_freed_and_only_once() {
        with_states(|states| {
            states.own(512, order(9));
            states.own(16, order(3));
            for (frame, of, why) in [
                (512, 8, Refusal::WrongOrder),
                (16, 4, Refusal::WrongOrder),
                (16, 0, Refusal::WrongOrder),
                (1023, 0, Refusal::NotAllocated),
                (768, 8, Refusal::NotAllocated),
                (20, 2, Refusal::NotAllocated),
                (24, 3, Refusal::AlreadyFree),
                (0, 9, Refusal::AlreadyFree),
            ] {
                assert_eq!(states.disown(frame, order(of)), Err(why), "{frame} {of}");
                assert_eq!(states.expect(frame, order(of)), Err(why), "{frame} {of}");
            }
            assert_eq!(states.owned_frames(), 512 + 8);
            assert_eq!(states.expect(16, order(3)), Ok(()));
            assert_eq!(states.disown(16, order(3)), Ok(()));
            assert_eq!(states.disown(16, order(3)), Err(Refusal::AlreadyFree));
        });
    }

    #[test]
    fn while_a_block_is_split_it_cannot_be_freed() {
        with_states(|states| {
            states.own(8, order(1));
            assert_eq!(states.begin_split(8, order(1)), Ok(()));
            assert_eq!(states.disown(8, order(1)), Err(Refusal::WrongOrder));
            assert_eq!(states.begin_split(8, order(1)), Err(Refusal::WrongOrder));
            states.split(8, order(0));
            assert_eq!(states.disown(9, order(0)), Ok(()));
            assert_eq!(states.disown(8, order(0)), Ok(()));
            assert_eq!(states.owned_frames(), 0);
        });
    }

    #[test]
    fn poison_is_checked_once() {
        with_states(|states| {
            states.mark_poisoned(4..6);
            assert!(states.take_poisoned(0..8).eq([4, 5]));
            assert_eq!(states.take_poisoned(0..8).count(), 0);
            states.mark_poisoned(4..6);
            assert_eq!(states.disown(4, order(1)), Err(Refusal::AlreadyFree));
        });
    }

    #[test]
    fn a_frame_of_an_extent_is_not_freed_as_a_block_and_a_block_not_as_an_extent() {
        with_states(|states| {
            states.own_extent(8..11);
            states.own(16, order(1));
            assert_eq!(states.owned_frames(), 3 + 2);
            for frame in 8..11 {
                assert_eq!(states.disown(frame, order(0)), Err(Refusal::NotAllocated));
            }
            assert_eq!(states.disown_of_extent(16), Err(Refusal::WrongOrder));
            assert_eq!(states.disown_of_extent(17), Err(Refusal::NotAllocated));
            assert_eq!(states.expect_extent(8..11), Ok(()));
            assert_eq!(states.expect_extent(8..12), Err((11, Refusal::AlreadyFree)));
            assert_eq!(states.disown_of_extent(9), Ok(()));
            assert_eq!(states.disown_of_extent(9), Err(Refusal::AlreadyFree));
            assert_eq!(states.owned_frames(), 2 + 2);
        });
    }
}

#[cfg(all(test, framewright_loom))]
mod loom_tests {
    use super::*;
    use loom::{sync::Arc, thread};

    #[test]
    fn loom_of_two_frees_that_race_one_is_refused() {
        loom::model(|| {
            let bytes = Arc::new([AtomicU8::new(head(Order::ZERO))]);
            let free = |bytes: &[AtomicU8]| States::new(bytes, Pfn::new(0)).disown(0, Order::ZERO);
            let other = Arc::clone(&bytes);
            let theirs = thread::spawn(move || free(&other[..]));
            let ours = free(&bytes[..]);
            assert_ne!(ours.is_ok(), theirs.join().unwrap().is_ok());
        });
    }
}
