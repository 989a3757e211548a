//! Frames whose contents can be told apart.

use framewright::{Block, Pfn, Platform};
use framewright_host::HostMachine;
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A machine whose frames can be touched, so that a workload notices when a frame is handed out
/// twice, or not cleared. What a touch costs is the machine's own.
pub trait Contents: Platform {
    /// Whether the block reads as zeroes where it would be touched.
    fn is_cleared(&self, block: &Block<'_>) -> bool;

    /// Touches the block: leaves `value` in it.
    fn touch_block(&self, block: &mut Block<'_>, value: u64);

    /// Checks that the block still holds the `value` that it was touched with.
    ///
    /// # Errors
    ///
    /// What it holds instead.
    fn verify(&self, block: &Block<'_>, value: u64) -> Result<(), Overwritten>;
}

/// A block does not hold what its owner left in it: somebody else wrote there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overwritten {
    /// The block's first frame.
    pub pfn: Pfn,
    /// What it holds.
    pub found: u64,
    /// What it should hold.
    pub expected: u64,
}

impl fmt::Display for Overwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, found, expected } = self;
        write!(f, "frame {pfn} holds {found:#x} instead of {expected:#x}")
    }
}

/// Touches the first and the last word of a block: what tells owners apart without measuring
/// memory bandwidth. Frames without memory behind them hold whatever is expected.
impl Contents for HostMachine {
    fn is_cleared(&self, block: &Block<'_>) -> bool {
        ends(self.words(block)).all(|word| word.load(Relaxed) == 0)
    }

    fn touch_block(&self, block: &mut Block<'_>, value: u64) {
        ends(self.words(block)).for_each(|word| word.store(value, Relaxed));
    }

    fn verify(&self, block: &Block<'_>, value: u64) -> Result<(), Overwritten> {
        let found = ends(self.words(block)).map(|word| word.load(Relaxed));
        match found.into_iter().find(|found| *found != value) {
            None => Ok(()),
            Some(found) => Err(Overwritten { pfn: block.pfn(), found, expected: value }),
        }
    }
}

fn ends(words: &[AtomicU64]) -> impl Iterator<Item = &AtomicU64> {
    words.first().into_iter().chain(words.last())
}
