//! Frames that direct reclaim keeps for its own request.
//!
//! Without this module, a request that reclaims would free the frames to the zone and then allocate
//! them again. It would take the contended zone lock twice, and other requests could take the
//! frames first, so that the request has to reclaim again. Instead, the request announces that it
//! will take frames. Then some of the frames that its CPU reclaims are kept in the state of that
//! CPU, until the request puts them on its lists. Linux frees reclaimed frames to the lists of the
//! CPU directly. Here those lists belong to the holder of the CPU's token, which is the request.

use crate::types::Pfn;

/// The maximum number of kept frames: twice the number that a request asks reclaim for.
const CAPACITY: usize = 64;

/// Frames kept for a CPU.
#[derive(Clone, Copy)]
pub(crate) struct KeptFrames {
    /// Whether a request will take the frames.
    open: bool,
    len: u8,
    frames: [Pfn; CAPACITY],
}

impl KeptFrames {
    pub(crate) fn new() -> Self {
        Self { open: false, len: 0, frames: [Pfn::new(0); CAPACITY] }
    }

    pub(crate) fn open(&mut self) {
        self.open = true;
    }

    /// Keeps the first of `frames`, as many as there is space for, if a request will take them.
    /// Returns the number of kept frames.
    pub(crate) fn keep(&mut self, frames: &[Pfn]) -> usize {
        let start = usize::from(self.len);
        let count = if self.open { frames.len().min(CAPACITY - start) } else { 0 };
        self.frames[start..start + count].copy_from_slice(&frames[..count]);
        self.len += count as u8;
        count
    }

    /// Removes all frames and returns them, and ends the announcement.
    pub(crate) fn close(&mut self) -> Self {
        let all = *self;
        (self.open, self.len) = (false, 0);
        all
    }

    /// The frames kept.
    pub(crate) fn frames(&self) -> &[Pfn] {
        &self.frames[..usize::from(self.len)]
    }
}

#[cfg(all(test, not(any(framewright_loom, framewright_tso))))]
mod tests {
    use super::*;

    #[test]
    fn frames_are_kept_only_for_an_announced_request() {
        let frames: [Pfn; 40] = core::array::from_fn(|i| Pfn::new(i as u64));
        let mut kept = KeptFrames::new();
        assert_eq!(kept.keep(&frames), 0);
        kept.open();
        assert_eq!((kept.keep(&frames), kept.keep(&frames)), (40, CAPACITY - 40));
        assert_eq!(kept.keep(&frames), 0, "frames were kept although the array is full");
        let taken = kept.close();
        assert_eq!(taken.frames()[..40], frames);
        assert_eq!(taken.frames()[40..], frames[..CAPACITY - 40]);
        assert_eq!((kept.frames().len(), kept.keep(&frames)), (0, 0));
    }
}
