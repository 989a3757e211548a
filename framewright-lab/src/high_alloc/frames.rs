//! The contents and state of each frame.

use std::cell::Cell;

use framewright::Order;

/// The page is dirty.
pub(super) const DIRTY: u8 = 1;
/// The page is under writeback.
pub(super) const WRITEBACK: u8 = 2;
/// Locked by reclaim or migration.
pub(super) const LOCKED: u8 = 4;
/// Claimed by migration.
pub(super) const CLAIMED: u8 = 8;
/// Released by its owner while claimed: the end of the claim frees the frame.
pub(super) const GONE: u8 = 16;
/// The page was on the active list when it was claimed.
pub(super) const ACTIVE: u8 = 32;
/// The program has accessed the page since the last scan.
pub(super) const YOUNG: u8 = 64;
/// The page of a program is in no page table: it is being written to swap.
pub(super) const UNMAPPED: u8 = 128;

/// The use of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Holds {
    /// Free, or owned by the library.
    #[default]
    Nothing,
    /// A page of a file.
    Cached { file: u32, index: u32 },
    /// A page of a builder's program.
    Anonymous { builder: u32, index: u32 },
    /// Slab, page table or stack: kernel memory, which is unmovable.
    Kernel,
    /// Part of a huge page that the pass holds.
    Huge,
}

/// One frame: twelve bytes, because a machine may have 2^26 frames.
#[derive(Default)]
pub(super) struct Frame {
    kind: Cell<Kind>,
    flags: Cell<u8>,
    /// The owner of the page, and the page's index.
    owner: Cell<u32>,
    index: Cell<u32>,
}

const _: () = assert!(size_of::<Frame>() == 12);

/// [`Holds`] without numbers.
#[derive(Clone, Copy, Default)]
enum Kind {
    #[default]
    Nothing,
    Cached,
    Anonymous,
    Kernel,
    Huge,
}

impl Frame {
    /// The use of the frame.
    pub(super) fn holds(&self) -> Holds {
        let (owner, index) = (self.owner.get(), self.index.get());
        match self.kind.get() {
            Kind::Nothing => Holds::Nothing,
            Kind::Cached => Holds::Cached { file: owner, index },
            Kind::Anonymous => Holds::Anonymous { builder: owner, index },
            Kind::Kernel => Holds::Kernel,
            Kind::Huge => Holds::Huge,
        }
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.flags.get() & flag != 0
    }

    pub(super) fn mark(&self, flag: u8) {
        self.flags.set(self.flags.get() | flag);
    }

    pub(super) fn unmark(&self, flag: u8) {
        self.flags.set(self.flags.get() & !flag);
    }

    /// Sets use and flags.
    pub(super) fn set(&self, holds: Holds, flags: u8) {
        let (kind, owner, index) = match holds {
            Holds::Nothing => (Kind::Nothing, 0, 0),
            Holds::Cached { file, index } => (Kind::Cached, file, index),
            Holds::Anonymous { builder, index } => (Kind::Anonymous, builder, index),
            Holds::Kernel => (Kind::Kernel, 0, 0),
            Holds::Huge => (Kind::Huge, 0, 0),
        };
        self.kind.set(kind);
        self.flags.set(flags);
        self.owner.set(owner);
        self.index.set(index);
    }

    /// Marks the frame as owned by the library.
    pub(super) fn clear(&self) {
        self.set(Holds::Nothing, 0);
    }

    pub(super) fn flags(&self) -> u8 {
        self.flags.get()
    }
}

/// All frames.
pub(super) struct Frames(Vec<Frame>);

impl Frames {
    pub(super) fn new(frames: u64) -> Self {
        Self((0..frames).map(|_| Frame::default()).collect())
    }

    pub(super) fn at(&self, frame: u32) -> &Frame {
        &self.0[frame as usize]
    }

    /// Sets the use of 2^order frames.
    pub(super) fn set_block(&self, first: u32, order: Order, holds: Holds) {
        for frame in 0..order.frames() as u32 {
            self.at(first + frame).set(holds, 0);
        }
    }

    /// The frames of each pageblock.
    pub(super) fn pageblocks(&self) -> impl Iterator<Item = &[Frame]> {
        self.0.chunks_exact(framewright::frame::PAGEBLOCK_FRAMES)
    }

    /// The number of frames.
    pub(super) fn count_all(&self) -> u64 {
        self.0.len() as u64
    }

    /// The number of frames whose use `matches`.
    pub(super) fn count(&self, matches: impl Fn(Holds) -> bool) -> u64 {
        self.0.iter().filter(|frame| matches(frame.holds())).count() as u64
    }

    /// A frame with a leftover claim or lock, or one that was released and never freed, if there is
    /// any.
    pub(super) fn left_behind(&self) -> Option<usize> {
        self.0.iter().position(|frame| frame.is(CLAIMED | LOCKED | GONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_returns_the_use_that_was_set() {
        let frame = Frame::default();
        assert_eq!(frame.holds(), Holds::Nothing);
        let of = [
            Holds::Cached { file: 7, index: u32::MAX },
            Holds::Anonymous { builder: u32::MAX, index: 7 },
            Holds::Kernel,
            Holds::Huge,
            Holds::Nothing,
        ];
        for holds in of {
            frame.set(holds, DIRTY | CLAIMED);
            assert_eq!((frame.holds(), frame.flags()), (holds, DIRTY | CLAIMED));
        }
    }
}
