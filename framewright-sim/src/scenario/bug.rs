//! Bugs to seed.

use std::{fmt, str::FromStr};

use crate::process::Symptom;
use thiserror::Error;

/// A bug that can be seeded in a scenario. Most of them once were in a widely used kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bug {
    /// Unmapped frames are freed before the translations to them are flushed.
    FreeBeforeFlush,
    /// The mask of CPUs to flush is read before the page-table entries are cleared: a CPU that
    /// loads the address space in between is missed.
    EarlyMask,
    /// One of the CPUs to flush is skipped.
    ForgottenTarget,
    /// A CPU that loads an address space reads its generation before it sets its bit in the mask of
    /// CPUs, and misses a change in between.
    EarlyLook,
    /// A CPU that leaves lazy TLB mode uses its translations without the flush that it missed.
    LazySkipsFlush,
    /// A page is written out while a CPU may store to it through a dirty translation.
    WriteOutBeforeFlush,
    /// A page is copied to another frame while a CPU may store to the old one.
    CopyBeforeFlush,
    /// A program that unmaps a page claimed by migration frees its frame, and so does the end of
    /// the claim.
    FreedByBoth,
    /// The owner of a page refuses its migration after the entry names the new frame.
    RefusedHalfWay,
    /// A pinned page is migrated.
    PinIgnored,
    /// The claim on a page whose write failed is not ended.
    FailedStaysClaimed,
    /// The dirty state of a page whose write failed stays with its old frame when the page is
    /// migrated.
    DirtyLeftBehind,
    /// A free also frees the neighbouring frame, which is the target of a migration.
    TargetFreed,
    /// Unmapping finds a clear entry, and returns without the flush that was deferred when the
    /// entry was cleared (Linux until 2017).
    SkippedFlush,
    /// A page becomes writable while its old frame can still be read: the deferred flush is not
    /// done first.
    UnflushedWrite,
    /// The truncation of a file returns while a page whose flush was deferred can still be
    /// accessed.
    UnflushedTruncate,
    /// Addresses are reused while the old page, whose flush was deferred, can still be accessed.
    UnflushedReuse,
    /// Deferred frames are allocated again before all CPUs have flushed.
    DeferredHandedOut,
    /// A CPU records a flush epoch that is later than its flush.
    LateEpoch,
    /// An allocator takes the first free frame without a lock.
    UnlockedTake,
    /// The lists of a CPU are drained without the barrier that makes the stores of their owner
    /// visible.
    MissingBarrier,
    /// Lost wake-up: a waiter checks its condition before it is on the wait queue, and not again.
    LostWakeUp,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 22] = [
        Self::FreeBeforeFlush,
        Self::EarlyMask,
        Self::ForgottenTarget,
        Self::EarlyLook,
        Self::LazySkipsFlush,
        Self::WriteOutBeforeFlush,
        Self::CopyBeforeFlush,
        Self::FreedByBoth,
        Self::RefusedHalfWay,
        Self::PinIgnored,
        Self::FailedStaysClaimed,
        Self::DirtyLeftBehind,
        Self::TargetFreed,
        Self::SkippedFlush,
        Self::UnflushedWrite,
        Self::UnflushedTruncate,
        Self::UnflushedReuse,
        Self::DeferredHandedOut,
        Self::LateEpoch,
        Self::UnlockedTake,
        Self::MissingBarrier,
        Self::LostWakeUp,
    ];

    /// The name of the bug.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FreeBeforeFlush => "free-before-flush",
            Self::EarlyMask => "early-mask",
            Self::ForgottenTarget => "forgotten-target",
            Self::EarlyLook => "early-look",
            Self::LazySkipsFlush => "lazy-skips-flush",
            Self::WriteOutBeforeFlush => "write-out-before-flush",
            Self::CopyBeforeFlush => "copy-before-flush",
            Self::FreedByBoth => "freed-by-both",
            Self::RefusedHalfWay => "refused-half-way",
            Self::PinIgnored => "pin-ignored",
            Self::FailedStaysClaimed => "failed-stays-claimed",
            Self::DirtyLeftBehind => "dirty-left-behind",
            Self::TargetFreed => "target-freed",
            Self::SkippedFlush => "skipped-flush",
            Self::UnflushedWrite => "unflushed-write",
            Self::UnflushedTruncate => "unflushed-truncate",
            Self::UnflushedReuse => "unflushed-reuse",
            Self::DeferredHandedOut => "deferred-handed-out",
            Self::LateEpoch => "late-epoch",
            Self::UnlockedTake => "unlocked-take",
            Self::MissingBarrier => "missing-barrier",
            Self::LostWakeUp => "lost-wake-up",
        }
    }

    /// A description in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::FreeBeforeFlush => "frames are freed before translations to them are flushed",
            Self::EarlyMask => "the mask of CPUs to flush is read before the entries are cleared",
            Self::ForgottenTarget => "one of the CPUs that must flush is not interrupted",
            Self::EarlyLook => "a CPU reads the generation before it is in the mask of CPUs",
            Self::LazySkipsFlush => "a CPU leaves lazy TLB mode without the flush that it missed",
            Self::WriteOutBeforeFlush => "a page is written out while it may still be stored to",
            Self::CopyBeforeFlush => "a page is copied while the old frame may still be stored to",
            Self::FreedByBoth => "a claimed page that is unmapped is freed by both sides",
            Self::RefusedHalfWay => {
                "a page that its owner refuses to move is mapped in its new frame"
            }
            Self::PinIgnored => "a pinned page is migrated",
            Self::FailedStaysClaimed => "a page whose write failed stays claimed",
            Self::DirtyLeftBehind => "a page whose write failed is clean after its migration",
            Self::TargetFreed => "the target frame of a migration is freed",
            Self::SkippedFlush => "unmapping returns without a flush that was deferred",
            Self::UnflushedWrite => "a page becomes writable while its old frame can be read",
            Self::UnflushedTruncate => "truncation returns before a deferred flush is made",
            Self::UnflushedReuse => "addresses are reused before a deferred flush is made",
            Self::DeferredHandedOut => "deferred frames are allocated before all CPUs have flushed",
            Self::LateEpoch => "a CPU records a flush epoch that is later than its flush",
            Self::UnlockedTake => "an allocator takes the first free frame without a lock",
            Self::MissingBarrier => "lists are drained without a barrier on their owner's CPU",
            Self::LostWakeUp => "a waiter does not check its condition again after it is queued",
        }
    }

    /// The symptoms of the bug. Other symptoms do not count as found.
    #[must_use]
    pub const fn symptoms(self) -> &'static [Symptom] {
        use Symptom::{
            FreedTwice, Inconsistent, LostWakeUp, LostWrite, SharedSection, StaleAccess,
            TakenTwice, UnmappedAccess, WrongContents,
        };
        match self {
            Self::FreeBeforeFlush => &[StaleAccess],
            Self::EarlyMask | Self::ForgottenTarget | Self::EarlyLook | Self::LazySkipsFlush => {
                &[StaleAccess, UnmappedAccess]
            }
            Self::WriteOutBeforeFlush => &[LostWrite, WrongContents],
            Self::CopyBeforeFlush => &[LostWrite, WrongContents],
            Self::FreedByBoth => &[FreedTwice, TakenTwice],
            Self::RefusedHalfWay => &[StaleAccess, LostWrite, WrongContents],
            Self::PinIgnored => &[StaleAccess],
            Self::FailedStaysClaimed => &[Inconsistent],
            Self::DirtyLeftBehind => &[LostWrite],
            Self::TargetFreed => &[FreedTwice, TakenTwice],
            Self::SkippedFlush | Self::UnflushedTruncate => &[UnmappedAccess],
            Self::UnflushedReuse => &[UnmappedAccess, WrongContents],
            Self::UnflushedWrite => &[WrongContents],
            Self::DeferredHandedOut | Self::LateEpoch => &[StaleAccess, WrongContents],
            Self::UnlockedTake => &[TakenTwice],
            Self::MissingBarrier => &[SharedSection],
            Self::LostWakeUp => &[LostWakeUp],
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not the name of a bug.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("no bug is called '{0}'")]
pub struct NoSuchBug(String);

impl FromStr for Bug {
    type Err = NoSuchBug;

    fn from_str(name: &str) -> Result<Self, NoSuchBug> {
        let found = Self::ALL.into_iter().find(|bug| bug.name() == name);
        found.ok_or_else(|| NoSuchBug(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bugs_are_parsed_from_their_names() {
        for bug in Bug::ALL {
            assert_eq!(bug.name().parse(), Ok(bug));
        }
        assert_eq!("none".parse::<Bug>(), Err(NoSuchBug("none".to_owned())));
    }
}
