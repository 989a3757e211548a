//! Bugs that are put in on purpose.

use std::{fmt, str::FromStr};

use crate::process::Symptom;
use thiserror::Error;

/// A bug that a scenario can have. Most were once in a kernel that millions used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bug {
    /// Unmapped frames are freed before the translations to them are flushed.
    FreeBeforeFlush,
    /// The CPUs to flush are looked up before the page-table entries are cleared: one that loads
    /// the address space in between is missed.
    EarlyMask,
    /// One of the CPUs that should flush is not told to.
    ForgottenTarget,
    /// A CPU that loads an address space looks at what changed in it before it says that it has
    /// it loaded: a change in between passes it by.
    EarlyLook,
    /// A CPU that was lazy uses its cached translations without the flush that it has missed.
    LazySkipsFlush,
    /// A page is written out while somebody may still store to it through a dirty translation.
    WriteOutBeforeFlush,
    /// A page is copied to another frame while somebody may still store to the old one.
    CopyBeforeFlush,
    /// Who unmaps a page that migration has claimed frees its frame, and so does the end of the claim.
    FreedByBoth,
    /// The owner of a page refuses to let it move when its entry names the new frame already.
    RefusedHalfWay,
    /// A page is moved although somebody has it pinned.
    PinIgnored,
    /// The claim on a page whose writing has failed is not ended.
    FailedStaysClaimed,
    /// That a page is dirty, since it could not be written, is known of its old frame when it has moved.
    DirtyLeftBehind,
    /// Who frees a frame frees the one beside it, too, that a page is about to move to.
    TargetFreed,
    /// Unmapping finds an entry that is clear already, and returns without the flush that whoever
    /// cleared it has put off (Linux until 2017).
    SkippedFlush,
    /// A page becomes writable while its old frame can still be read: the deferred flush is not made
    /// first.
    UnflushedWrite,
    /// Truncating a file returns while a page whose flush was deferred can still be reached.
    UnflushedTruncate,
    /// Addresses are reused while the page that was there, and whose flush was deferred, can still be
    /// reached.
    UnflushedReuse,
    /// Deferred frames are allocated again although no CPU has flushed since.
    DeferredHandedOut,
    /// A CPU says that it has caught up with changes that came after it had looked.
    LateEpoch,
    /// An allocator takes the first free frame without a lock.
    UnlockedTake,
    /// The lists of a CPU are drained without the barrier that makes its owner's store visible.
    MissingBarrier,
    /// A lost wake-up: a waiter checks its condition before it is on the wait queue, and not again.
    LostWakeUp,
}

impl Bug {
    /// All of them.
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

    /// Its name.
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

    /// What is wrong, in one line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::FreeBeforeFlush => "frames are freed before translations to them are flushed",
            Self::EarlyMask => "the CPUs to flush are looked up before the entries are cleared",
            Self::ForgottenTarget => "one of the CPUs that should flush is not told to",
            Self::EarlyLook => "a CPU looks at what changed before it says what it has loaded",
            Self::LazySkipsFlush => "a CPU that was lazy does not look at what changed meanwhile",
            Self::WriteOutBeforeFlush => "a page is written out while it may still be stored to",
            Self::CopyBeforeFlush => "a page is copied while the old frame may still be stored to",
            Self::FreedByBoth => "a claimed page that is unmapped is freed by both sides",
            Self::RefusedHalfWay => {
                "a page that its owner refuses to move is mapped in its new frame"
            }
            Self::PinIgnored => "a page is moved although somebody has it pinned",
            Self::FailedStaysClaimed => "a page whose writing has failed stays claimed",
            Self::DirtyLeftBehind => "a page that could not be written is clean when it has moved",
            Self::TargetFreed => "a frame is freed that a page is about to move to",
            Self::SkippedFlush => "unmapping does not make up for a flush that was put off",
            Self::UnflushedWrite => "a page becomes writable while its old frame can be read",
            Self::UnflushedTruncate => "truncation returns before a deferred flush is made",
            Self::UnflushedReuse => "addresses are reused before a deferred flush is made",
            Self::DeferredHandedOut => "deferred frames are handed out before any CPU has flushed",
            Self::LateEpoch => "a CPU claims to have seen changes that came after it looked",
            Self::UnlockedTake => "an allocator takes the first free frame without a lock",
            Self::MissingBarrier => "lists are drained without a barrier on their owner's CPU",
            Self::LostWakeUp => "a waiter does not check its condition again when queued",
        }
    }

    /// How it shows. Whatever else shows instead is not this bug, and does not count as found.
    #[must_use]
    pub const fn symptoms(self) -> &'static [Symptom] {
        use Symptom::{
            Books, FreedTwice, LostWakeUp, LostWrite, SharedSection, StaleAccess, TakenTwice,
            UnmappedAccess, WrongContents,
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
            Self::FailedStaysClaimed => &[Books],
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

/// A name that no bug has.
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
    fn bugs_go_by_their_names() {
        for bug in Bug::ALL {
            assert_eq!(bug.name().parse(), Ok(bug));
        }
        assert_eq!("none".parse::<Bug>(), Err(NoSuchBug("none".to_owned())));
    }
}
