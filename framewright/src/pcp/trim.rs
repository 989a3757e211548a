//! The rule of trims: frames that the lists of a CPU have not needed for some time return to the zone.
//!
//! The store behind the rings keeps the minimum of its frames since the last trim: these were free all the time. A trim
//! returns half of them. The embedder trims about once a second. Lists that nobody trims are trimmed by their traffic,
//! a batch at each spill.

/// Lists that nobody trims are trimmed when the CPU has allocated this many times as many frames as they may hold: mixed
/// traffic has then replaced about half of the CPU's share of the zone.
const TRIM_AFTER: u64 = 4;

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
        if least >= 64 { least.div_ceil(2) } else { 0 }
    }

    /// Whether traffic trims the lists, which may hold `high_max` frames, now that the CPU has allocated `allocated` in
    /// all.
    pub(super) fn is_due(&self, allocated: u64, high_max: u64) -> bool {
        allocated - self.allocated >= TRIM_AFTER * high_max
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
