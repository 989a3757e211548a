//! The seam to machines: time, what a CPU does beside allocating, and what is in frames.

use framewright::Pfn;
use std::fmt;

/// What a CPU does beside allocating. Real machines do some of it, simulated ones charge for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Takes a page fault and maps a page, but for getting and clearing it.
    Fault,
    /// Adds so many pages to the lists of pages in use.
    LruAdd(u32),
    /// Unmaps so many pages and takes them off the lists of pages in use.
    Unmap(u32),
    /// Runs for so many cycles.
    Compute(u64),
}

/// The machine around one CPU, holding blocks `B`.
pub(crate) trait World<B> {
    /// Whether the CPU shall begin another round of its work.
    fn goes_on(&mut self) -> bool;

    /// Whether the CPU shall give back what it has, in the middle of a round.
    fn is_over(&self) -> bool;

    /// The CPU's time in nanoseconds, where reading it costs nothing; else 0.
    fn now(&self) -> u64 {
        0
    }

    /// Does, or charges for, a task.
    fn does(&self, task: Task);

    /// Whether the block reads as zeroes where it would be touched.
    fn is_cleared(&self, block: &B) -> bool;

    /// Touches the block: leaves `value` in it.
    fn touch(&self, block: &mut B, value: u64);

    /// Checks that the block still holds the `value` that it was touched with.
    ///
    /// # Errors
    ///
    /// What it holds instead.
    fn verify(&self, block: &B, value: u64) -> Result<(), Overwritten>;

    /// Copies a message made from `value` into all of the block, `hot` frames of which are in
    /// this CPU's cache.
    fn copy_in(&self, block: &mut B, value: u64, hot: u32);

    /// Copies the message made from `value` out of the block.
    ///
    /// # Errors
    ///
    /// What it holds instead.
    fn copy_out(&self, block: &B, value: u64, hot: u32) -> Result<(), Overwritten>;
}

/// A block does not hold what its owner left in it: somebody else wrote there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overwritten {
    /// The block's first frame.
    pub(crate) pfn: Pfn,
    /// What it holds.
    pub(crate) found: u64,
    /// What it should hold.
    pub(crate) expected: u64,
}

impl fmt::Display for Overwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pfn, found, expected } = self;
        write!(f, "frame {pfn} holds {found:#x} instead of {expected:#x}")
    }
}
