//! The steps of a migration, and the events at them.

use crate::scenario::{Point, Tally};

/// The step of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The page is claimed, and may have a target.
    Claim,
    /// The page is being locked and unmapped.
    Unmap,
    /// The page waits for the flush and the copy.
    Flush,
    /// The page is being copied, or was.
    Copy,
    /// The page is being mapped in its new frame.
    Remap,
    /// The page is being mapped in its old frame again.
    Undo,
    /// The claim is about to end.
    Release,
}

/// An event during a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The owner refuses the migration.
    Refused,
    /// The page is pinned for a short time.
    Pinned,
    /// The page is being written, and the write fails.
    WriteFails,
    /// The program unmaps the page.
    Unmapped,
    /// The frame after the target is freed.
    Neighbour,
}

const NAMES: [&str; 7] = ["claim", "unmap", "flush", "copy", "remap", "undo", "release"];

/// Counts of refusals: the owner is asked at these steps only.
pub(in crate::scenario) const REFUSED: Tally = Tally {
    what: "the owner refuses to migrate the page",
    points: &points(
        &[Step::Flush, Step::Copy, Step::Undo, Step::Release],
        "its owner is not called",
    ),
};

/// Counts of pins.
pub(in crate::scenario) const PINNED: Tally = Tally {
    what: "a pin of the page is requested; it waits while the page is unmapped",
    points: &points(&[], ""),
};

/// Counts of failed writes.
pub(in crate::scenario) const FAILED: Tally =
    Tally { what: "the write of the page fails", points: &points(&[], "") };

/// Counts of unmappings.
pub(in crate::scenario) const UNMAPPED: Tally = Tally {
    what: "the program starts to unmap the page, and waits while it is being migrated",
    points: &points(&[], ""),
};

/// Counts of frames next to a target that are freed.
pub(in crate::scenario) const NEIGHBOUR_FREED: Tally = Tally {
    what: "a frame beside the page's target is merged (at claim, the target may have been freed before)",
    points: &points(&[Step::Release], "the target has been freed"),
};

/// The steps; `why` is the reason why runs never reach the steps in `never`.
const fn points(never: &[Step], why: &'static str) -> [Point; NAMES.len()] {
    let mut points = [Point { name: "", never: None }; NAMES.len()];
    let mut at = 0;
    while at < NAMES.len() {
        points[at].name = NAMES[at];
        at += 1;
    }
    let mut at = 0;
    while at < never.len() {
        points[never[at] as usize].never = Some(why);
        at += 1;
    }
    points
}
