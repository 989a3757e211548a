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

/// One frame.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) holds: Cell<Holds>,
    flags: Cell<u8>,
}

impl Frame {
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
        self.holds.set(holds);
        self.flags.set(flags);
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

    /// How many hold what `matches`.
    pub(super) fn count(&self, matches: impl Fn(Holds) -> bool) -> u64 {
        self.0.iter().filter(|frame| matches(frame.holds.get())).count() as u64
    }

    /// Whether somebody has left a claim or a lock on a frame, or let go of one that nobody gave back.
    pub(super) fn left_behind(&self) -> Option<usize> {
        self.0.iter().position(|frame| frame.is(CLAIMED | LOCKED | GONE))
    }
}
