//! Memory that is free to use: a few regions, in order.

use crate::frames;

/// From a first byte to the one behind the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Region {
    /// Bytes of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Regions that a map can have.
const MOST: usize = 64;

/// Regions of whole frames that neither overlap nor touch the first MiB.
#[derive(Clone)]
pub(crate) struct MemoryMap {
    regions: [Region; MOST],
    count: usize,
}

impl MemoryMap {
    /// None.
    pub(crate) fn new() -> Self {
        Self { regions: [Region { start: 0, end: 0 }; MOST], count: 0 }
    }

    /// Adds a region, as far as it consists of whole frames. One too many is left out, which only
    /// costs its memory.
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

    /// Takes a region out.
    pub(crate) fn remove(&mut self, gone: Region) {
        let old = core::mem::replace(self, Self::new());
        for region in old.regions() {
            self.add(Region { start: region.start, end: region.end.min(gone.start) });
            self.add(Region { start: region.start.max(gone.end), end: region.end });
        }
    }

    /// The regions, ascending.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// The largest region below an address.
    pub(crate) fn largest_below(&self, end: u64) -> Option<Region> {
        let below = self.regions().iter().filter(|region| region.end <= end);
        below.max_by_key(|region| region.bytes()).copied()
    }

    /// The end of the highest one.
    pub(crate) fn end(&self) -> u64 {
        self.regions().last().map_or(0, |region| region.end)
    }
}
