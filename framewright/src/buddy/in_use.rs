//! The allocated frames of a pageblock.

use super::{Buddy, FRAMES, gigablock::spans};
use crate::types::PAGEBLOCK_ORDER;

impl Buddy<'_> {
    /// Calls `run` with the first frame and the end of every run of allocated frames between
    /// `start` and `end`, which lie in one pageblock. Frames on the lists of CPUs count as
    /// allocated. A pageblock has at most half as many runs as frames.
    pub(crate) fn frames_in_use(&self, start: u32, end: u32, run: &mut dyn FnMut(u32, u32)) {
        let index = start >> PAGEBLOCK_ORDER;
        let first = index << PAGEBLOCK_ORDER;
        let block = &self.blocks[index as usize];
        let folded = self.lists.gigablocks.is_folded(index);
        let mut from = None;
        for (word, mask) in spans(start - first..end - first) {
            let free = if folded { 0 } else { block.map[word as usize] };
            for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
                let frame = first + word * 64 + bit;
                let whole = u32::from(block.present) == FRAMES;
                let used = free >> bit & 1 == 0 && (whole || !self.is_hole(frame));
                match (from, used) {
                    (None, true) => from = Some(frame),
                    (Some(at), false) => {
                        run(at, frame);
                        from = None;
                    }
                    _ => {}
                }
            }
        }
        if let Some(at) = from {
            run(at, end);
        }
    }
}
