//! The rule of trims: frames that the lists of a CPU have not needed for some time return to the zone.
//!
//! The store behind the rings keeps the minimum of its frames since the last trim: these were free all the time. A trim
//! returns half of them. The embedder trims about once a second. Lists that nobody trims are trimmed by their traffic,
//! a batch at each spill.
//!
//! **How often traffic trims.** The returned frames merge in the zone, but a few of them will be missing on the lists
//! later: refills take about as many. A refill takes a batch, and delays one request. So the time between two trims is
//! measured in allocated frames, and is a multiple of the minimum
//! ([`PcpTuning::trim_after`](crate::tuning::PcpTuning::trim_after)): then trims cause one refill in a number of requests
//! that hardly depends on the size of the lists: with the default at most about one in a thousand.

/// Added to the minimum, so that short lists are not trimmed all the time.
const FEW: u64 = 256;

/// The maximum number of frames that one spill returns for such a trim.
const TRIM_AT_ONCE: u64 = 256;

/// The state of the trims of one CPU's lists for one zone.
#[derive(Default)]
pub(super) struct Trims {
    /// The minimum of the frames in the store since the last trim.
    least_stored: u64,
    /// The count of frames allocated, at the last trim.
    allocated: u64,
    /// Frames that the last trim by traffic has still to return.
    left: u64,
}

impl Trims {
    /// Records that the store has `stored` frames now.
    pub(super) fn observe(&mut self, stored: u64) {
        self.least_stored = self.least_stored.min(stored);
    }

    /// Begins a trim while the store has `stored` frames and the CPU has allocated `allocated` in all. Returns half of the
    /// frames that the store has held ever since the last trim, because no allocation needed them. Fewer than a word of
    /// them stay: the store returns whole words, and so would return frames that were needed. Rings are not counted:
    /// they hold little.
    pub(super) fn begin(&mut self, stored: u64, allocated: u64) -> u64 {
        self.allocated = allocated;
        let least = core::mem::replace(&mut self.least_stored, stored);
        if least >= 64 { least / 2 } else { 0 }
    }

    /// Whether traffic trims the lists, now that the CPU has allocated `allocated` frames in all: since the last trim
    /// `after` times as many as the minimum.
    pub(super) fn is_due(&self, allocated: u64, after: u32) -> bool {
        allocated - self.allocated >= u64::from(after) * (self.least_stored + FEW)
    }

    /// Sets the frames that a trim by traffic returns, a batch at each spill.
    pub(super) fn spread(&mut self, frames: u64) {
        self.left = frames;
    }

    /// Frames that the next spill returns. Frames that were needed after the trim began stay.
    pub(super) fn next_batch(&mut self) -> u64 {
        let frames = self.left.min(TRIM_AT_ONCE).min(self.least_stored);
        self.left -= frames;
        frames
    }
}
