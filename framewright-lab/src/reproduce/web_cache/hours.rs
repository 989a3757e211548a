//! The figures of a run of `web-cache`, hour by hour.

use indexmap::IndexMap;

use super::{ALLOCATABLE, FREE_HUGE, HOURS, RATE};
use crate::{
    paging::Outcome,
    report::{Point, figure::ratio},
};

/// The results of a run, hour by hour.
pub(super) struct Hours {
    /// Seconds and content, in thousand million bits.
    pub(super) spent: Vec<(f64, f64)>,
    /// Free blocks of order 9.
    pub(super) free: Vec<u64>,
    /// Pageblocks without memory of the kernel, in percent.
    pub(super) allocatable: Vec<f64>,
}

impl Hours {
    pub(super) fn new(outcome: &Outcome, frames: u64) -> Self {
        let mut began = 0;
        let spent = outcome.hours.iter().map(|hour| {
            let cycles = hour.end - began;
            began = hour.end;
            (cycles as f64 / outcome.frequency, hour.pages as f64 * 4096.0 * 8.0 / 1e9)
        });
        let spent = spent.collect();
        let pageblocks = frames >> 9;
        let blocks = || outcome.hours.iter().map(|hour| hour.blocks);
        let free = blocks().map(|blocks| blocks.free_huge).collect();
        let allocatable =
            blocks().map(|blocks| 100.0 * ratio(blocks.movable, pageblocks)).collect();
        Self { spent, free, allocatable }
    }

    /// The rate over some hours, counted from 0, in Gbit/s.
    pub(super) fn rate(
        &self,
        hours: impl std::slice::SliceIndex<[(f64, f64)], Output = [(f64, f64)]>,
    ) -> f64 {
        let hours = self.spent.get(hours).unwrap_or_default();
        let sum = |of: fn(&(f64, f64)) -> f64| hours.iter().map(of).sum::<f64>();
        sum(|hour| hour.1) / sum(|hour| hour.0).max(f64::MIN_POSITIVE)
    }

    /// The rate of the last quarter, in percent of that of the first without its first hour, in which memory is filled.
    /// `None` of a run that is shorter.
    pub(super) fn last_quarter(&self) -> Option<f64> {
        let quarter = HOURS as usize / 4;
        let last = self.spent.len().checked_sub(quarter).filter(|&last| last >= 3 * quarter)?;
        Some(100.0 * self.rate(last..) / self.rate(1..quarter))
    }

    /// The share of order-9 blocks that could be allocated at the end, in percent.
    pub(super) fn last_allocatable(&self) -> f64 {
        self.allocatable.last().copied().unwrap_or_default()
    }

    pub(super) fn series(&self) -> IndexMap<String, Vec<Point>> {
        let points = |values: Vec<f64>| {
            let point = |(hour, value): (usize, f64)| Point((hour + 1) as f64, value);
            values.into_iter().enumerate().map(point).collect()
        };
        let rates = (0..self.spent.len()).map(|hour| self.rate(hour..=hour));
        [
            (RATE, points(rates.collect())),
            (FREE_HUGE, points(self.free.iter().map(|&free| free as f64).collect())),
            (ALLOCATABLE, points(self.allocatable.clone())),
        ]
        .map(|(name, points)| (name.to_owned(), points))
        .into()
    }
}
