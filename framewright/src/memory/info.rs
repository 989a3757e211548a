//! What a memory says about itself.

use core::fmt;

use super::Memory;
use crate::{
    buddy::BlockCounts,
    frame::{Order, Pfn},
    observe::{write_buddyinfo, write_pagetypeinfo},
    platform::Platform,
    zone::Watermark,
};

/// A zone at a glance. Counts are in frames and may be stale by one critical section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneInfo {
    /// First frame of its first pageblock.
    pub start: Pfn,
    /// Frames it manages.
    pub managed: u64,
    /// Free frames in the zone. Those on CPU lists and in isolated pageblocks are not counted.
    pub free: u64,
    /// Frames on CPU lists.
    pub held_by_cpus: u64,
    /// The min watermark.
    pub min: u64,
    /// The low watermark.
    pub low: u64,
    /// The high watermark.
    pub high: u64,
}

/// An invariant that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation {
    /// What is wrong.
    pub what: &'static str,
    /// Where: a pageblock, or a number that the text explains.
    pub at: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {})", self.what, self.at)
    }
}

impl core::error::Error for Violation {}

/// The name under which the only zone there is prints itself.
const ZONE_NAME: &str = "Normal";

impl<P: Platform> Memory<'_, P> {
    /// The zone at a glance.
    #[must_use]
    pub fn zone(&self) -> ZoneInfo {
        let marks = self.zone.marks();
        ZoneInfo {
            start: self.zone.base(),
            managed: self.zone.managed(),
            free: self.zone.free(),
            held_by_cpus: self.held_by_cpus(),
            min: marks.get(Watermark::Min),
            low: marks.get(Watermark::Low),
            high: marks.get(Watermark::High),
        }
    }

    /// Free blocks by type and order, and pageblocks by type. Walks every pageblock under the
    /// zone lock: for people and tests, not for policies.
    #[must_use]
    pub fn block_counts(&self) -> BlockCounts {
        self.zone.with(&self.platform, |buddy| buddy.counts())
    }

    /// The order of the largest free block, without walking.
    #[must_use]
    pub fn largest_free_order(&self) -> Option<Order> {
        self.zone.largest_free_order()
    }

    /// Writes `/proc/buddyinfo`.
    ///
    /// # Errors
    ///
    /// What the writer returns.
    pub fn write_buddyinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write_buddyinfo(out, 0, ZONE_NAME, &self.block_counts())
    }

    /// Writes `/proc/pagetypeinfo`.
    ///
    /// # Errors
    ///
    /// What the writer returns.
    pub fn write_pagetypeinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write_pagetypeinfo(out, 0, ZONE_NAME, &self.block_counts())
    }

    /// Tests what must hold whenever nobody is in the middle of something: headers agree with
    /// maps and lists (I2), and frames free, held, and allocated add up (I1, I9). Walks every
    /// pageblock.
    ///
    /// # Errors
    ///
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        let free = self.zone.with(&self.platform, |buddy| {
            buddy.check()?;
            Ok(buddy.counts().free_frames())
        });
        let free = free.map_err(|(what, at)| Violation { what, at: u64::from(at) })?;
        let stats = self.stats();
        let used = stats.pgalloc.wrapping_sub(stats.pgfree);
        let sum = free.wrapping_add(self.held_by_cpus()).wrapping_add(used);
        if sum != self.zone.managed() {
            return Err(Violation {
                what: "frames free, held by CPUs and allocated do not add up to those managed",
                at: sum,
            });
        }
        Ok(())
    }
}
