//! What each frame holds.

use std::cell::Cell;

use framewright::Order;

/// It differs from what the store has.
pub(super) const DIRTY: u8 = 1;
/// It is on its way to the store.
pub(super) const WRITEBACK: u8 = 2;
/// Reclaim or migration does something to it that nobody else may do meanwhile.
pub(super) const LOCKED: u8 = 4;
/// Migration has claimed it.
pub(super) const CLAIMED: u8 = 8;
/// Its owner has let go of it, and somebody who has claimed it will give the frame back.
pub(super) const GONE: u8 = 16;
/// Reclaim took it for one in use when it was claimed.
pub(super) const ACTIVE: u8 = 32;
/// Its program has used it since reclaim looked last.
pub(super) const YOUNG: u8 = 64;
/// It is a program's, but in no page table: about to go to the swap area.
pub(super) const UNMAPPED: u8 = 128;

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Holds {
    /// The library's.
    #[default]
    Nothing,
    /// A page of a file.
    Cached { file: u32, index: u32 },
    /// A page of a builder's program.
    Anonymous { builder: u32, index: u32 },
    /// Small objects, a page table, a stack: the kernel's own, which does not move.
    Kernel,
    /// Part of a huge page that the pass keeps.
    Huge,
}

/// One frame: twelve bytes, since a machine may have 2^26 of them.
#[derive(Default)]
pub(super) struct Frame {
    kind: Cell<Kind>,
    flags: Cell<u8>,
    /// Whose page it is, and which of them.
    owner: Cell<u32>,
    index: Cell<u32>,
}

const _: () = assert!(size_of::<Frame>() == 12);

/// What [`Holds`] is apart from numbers.
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
    /// What it holds.
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

    /// It holds this from now on, with these flags.
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

    /// It is the library's from now on.
    pub(super) fn clear(&self) {
        self.set(Holds::Nothing, 0);
    }

    pub(super) fn flags(&self) -> u8 {
        self.flags.get()
    }
}

/// All of them.
pub(super) struct Frames(Vec<Frame>);

impl Frames {
    pub(super) fn new(frames: u64) -> Self {
        Self((0..frames).map(|_| Frame::default()).collect())
    }

    pub(super) fn at(&self, frame: u32) -> &Frame {
        &self.0[frame as usize]
    }

    /// 2^order frames hold this from now on.
    pub(super) fn set_block(&self, first: u32, order: Order, holds: Holds) {
        for frame in 0..order.frames() as u32 {
            self.at(first + frame).set(holds, 0);
        }
    }

    /// Frames, pageblock by pageblock.
    pub(super) fn pageblocks(&self) -> impl Iterator<Item = &[Frame]> {
        self.0.chunks_exact(framewright::frame::PAGEBLOCK_FRAMES)
    }

    /// How many there are.
    pub(super) fn count_all(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many hold what `matches`.
    pub(super) fn count(&self, matches: impl Fn(Holds) -> bool) -> u64 {
        self.0.iter().filter(|frame| matches(frame.holds())).count() as u64
    }

    /// Whether somebody has left a claim or a lock on a frame, or let go of one that nobody gave back.
    pub(super) fn left_behind(&self) -> Option<usize> {
        self.0.iter().position(|frame| frame.is(CLAIMED | LOCKED | GONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_it_was_told() {
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
