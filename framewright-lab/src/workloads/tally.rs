//! What CPUs have done so far.
//!
//! Each CPU adds to a tally of its own, with plain loads and stores; whoever measures reads them
//! all, at the beginning and at the end of what is measured.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What one CPU has done so far.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    /// Frames that the work needed; page tables and the like not counted.
    pub(crate) pages: Count,
    /// The longest time of a request, in nanoseconds, where that is known.
    pub(crate) longest: Count,
    /// Processes that came to their end.
    pub(crate) exits: Count,
    /// Bytes handed over to another CPU.
    pub(crate) bytes: Count,
    /// Frames handed out whose heat was looked at.
    pub(crate) looked_at: Count,
    /// Those that were in the cache of the core.
    pub(crate) hot: Count,
    /// Those that were in the cache that the cores of a socket share.
    pub(crate) warm: Count,
}

/// A number that one CPU adds to and anybody reads.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to it. Only the CPU that it belongs to does.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed) + more, Relaxed);
    }

    /// Raises the value to at least this one. Called only by the CPU that it belongs to.
    #[inline]
    pub(crate) fn raise(&self, least: u64) {
        if least > self.0.load(Relaxed) {
            self.0.store(least, Relaxed);
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A sum of tallies at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    pub(crate) pages: u64,
    /// The maximum of the whole run, not of a period.
    pub(crate) longest: u64,
    pub(crate) exits: u64,
    pub(crate) bytes: u64,
    pub(crate) looked_at: u64,
    pub(crate) hot: u64,
    pub(crate) warm: u64,
}

impl Done {
    /// What all of `tallies` say.
    pub(crate) fn sum(tallies: &[Tally]) -> Self {
        let mut done = Self::default();
        for tally in tallies {
            done.pages += tally.pages.get();
            done.longest = done.longest.max(tally.longest.get());
            done.exits += tally.exits.get();
            done.bytes += tally.bytes.get();
            done.looked_at += tally.looked_at.get();
            done.hot += tally.hot.get();
            done.warm += tally.warm.get();
        }
        done
    }

    /// What was done since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            pages: self.pages - before.pages,
            longest: self.longest,
            exits: self.exits - before.exits,
            bytes: self.bytes - before.bytes,
            looked_at: self.looked_at - before.looked_at,
            hot: self.hot - before.hot,
            warm: self.warm - before.warm,
        }
    }
}
