//! What a run is to do: on so much memory, for so long.

use framewright::frame::PAGEBLOCK_FRAMES;

use super::Flags;

/// A builder for so many frames, and one more: 400 MiB each.
const BUILDER_FRAMES: u64 = 400 << 8;
/// A second, in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;
/// How long builders build before anybody asks for huge pages.
pub(super) const WARM_UP_NS: u64 = 30 * SECOND;
/// How long they build after each pass.
pub(super) const REST_NS: [u64; 2] = [5 * SECOND, 25 * SECOND];

/// How many build on so much memory.
pub(super) const fn builders_for(frames: u64) -> u64 {
    frames / BUILDER_FRAMES + 1
}

/// How many huge pages a pass asks for: 95 % of memory.
pub(super) const fn requests_for(frames: u64) -> u64 {
    frames / PAGEBLOCK_FRAMES as u64 * 95 / 100
}

/// What is asked for, and by what pace.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) flags: Flags,
    pub(super) quick: bool,
    pub(super) watched: bool,
    /// CPUs that builders have.
    pub(super) builders: u16,
    /// The kernel's own work has no CPU of its own.
    pub(super) shares: bool,
    pub(super) seed: u64,
}

impl Course {
    /// How long it takes what usually takes so many nanoseconds.
    pub(super) const fn shortened(&self, nanos: u64) -> u64 {
        if self.quick { nanos / 5 } else { nanos }
    }
}
