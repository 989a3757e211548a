//! The free memory: a few regions, in ascending order.

use crate::frames;

/// A range of addresses. The end is exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Region {
    /// The length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The greatest number of regions of a map.
const MOST: usize = 64;

/// Regions of whole frames in ascending order. The loader's regions must not overlap (not checked).
/// `first_cpu` removes the first MiB and the image from its copy of the map.
#[derive(Clone)]
pub(crate) struct MemoryMap {
    regions: [Region; MOST],
    count: usize,
}

impl MemoryMap {
    /// A map without regions.
    pub(crate) fn new() -> Self {
        Self { regions: [Region { start: 0, end: 0 }; MOST], count: 0 }
    }

    /// Adds the whole frames of a region. The memory of regions beyond the limit is not used.
    pub(crate) fn add(&mut self, region: Region) {
        let down = |address: u64| address / frames::BYTES * frames::BYTES;
        let region = Region {
            start: down(region.start.saturating_add(frames::BYTES - 1)),
            end: down(region.end),
        };
        if region.bytes() == 0 || self.count == MOST {
            return;
        }
        let at = self.regions().iter().take_while(|other| other.start < region.start).count();
        self.regions.copy_within(at..self.count, at + 1);
        self.regions[at] = region;
        self.count += 1;
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, gone: Region) {
        let old = core::mem::replace(self, Self::new());
        for region in old.regions() {
            self.add(Region { start: region.start, end: region.end.min(gone.start) });
            self.add(Region { start: region.start.max(gone.end), end: region.end });
        }
    }

    /// The regions in ascending order.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// The largest region below an address.
    pub(crate) fn largest_below(&self, end: u64) -> Option<Region> {
        let below = self.regions().iter().filter(|region| region.end <= end);
        below.max_by_key(|region| region.bytes()).copied()
    }

    /// The end of the last region.
    pub(crate) fn end(&self) -> u64 {
        self.regions().last().map_or(0, |region| region.end)
    }
}
