//! The memory of a run over time, in replays and on simulated machines.
//!
//! | module    | job                                                                  |
//! |-----------|----------------------------------------------------------------------|
//! | `free`    | free blocks by order and by migratetype                              |
//! | `watch`   | the samples and the trace of a run on a simulated machine            |

mod free;
#[cfg(test)]
mod tests;
mod watch;

use framewright::{Memory, MigrateType, Order, Platform, ZoneId};
use framewright_peers::list_buddy;
use serde::Serialize;

pub(crate) use free::fold;
pub use free::{Blocks, FreeMemory, SHOWN_ORDERS};
pub use watch::Watch;
pub(crate) use watch::Watcher;

/// The state of memory at one moment.
pub(crate) struct MemoryState {
    /// Free blocks of all zones, without frames on CPU lists.
    pub(crate) free: FreeMemory,
    /// Free frames of all zones.
    pub(crate) free_frames: u64,
    /// Frames on CPU lists and in depots.
    pub(crate) held_by_cpus: u64,
    /// Frames in use.
    pub(crate) in_use: u64,
    /// Order of the largest free block.
    pub(crate) largest_order: Option<u8>,
}

impl MemoryState {
    /// The state of a memory of the library. Takes the locks of its zones.
    pub(crate) fn of(memory: &Memory<'_, impl Platform>) -> Self {
        Self::with(memory, |zone| FreeMemory::of_counts(&memory.block_counts(zone)))
    }

    /// As [`MemoryState::of`]. `free_in` returns the free memory of a zone.
    pub(crate) fn with(
        memory: &Memory<'_, impl Platform>,
        mut free_in: impl FnMut(ZoneId) -> FreeMemory,
    ) -> Self {
        let mut free = FreeMemory::default();
        memory.zones().for_each(|zone| free.add(&free_in(zone.id)));
        Self {
            free,
            free_frames: memory.free(),
            held_by_cpus: memory.held_by_cpus() + memory.in_depots(),
            in_use: memory.in_use(),
            largest_order: memory.largest_free_order().map(Order::get),
        }
    }

    /// The state of `managed` frames of an allocator that counts only free blocks by order, in each zone.
    pub(crate) fn of_blocks(
        zones: impl Iterator<Item = [u32; list_buddy::ORDERS]>,
        held_by_cpus: u64,
        managed: u64,
    ) -> Self {
        let mut free = FreeMemory::default();
        zones.for_each(|blocks| free.add(&FreeMemory::of_blocks(&blocks.map(u64::from))));
        let free_frames = free.frames();
        Self {
            free_frames,
            held_by_cpus,
            in_use: managed - free_frames - held_by_cpus,
            largest_order: free.largest_order(),
            free,
        }
    }
}

/// The memory of a run at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the first event of the recording, or on the clock of the simulated machine.
    pub seconds: f64,
    /// Frames in use.
    pub in_use: u64,
    /// Free frames of all zones.
    pub free: u64,
    /// Frames on CPU lists and in depots.
    pub held_by_cpus: u64,
    /// Order of the largest free block.
    pub largest_order: Option<u8>,
    /// Unusable free space index for a pageblock, in thousandths.
    pub unusable_pageblock: u64,
    /// Unusable free space index for order 3, the largest that is not costly, in thousandths.
    pub unusable_order_3: u64,
    /// Blocks of order 9 that can be allocated from the zones: aligned ranges of 512 free frames.
    /// Frames on CPU lists and in depots count as not free, also whole blocks of order 9. Before
    /// they refuse a request, both allocators move these frames to the zones, so more blocks than
    /// this may be allocated.
    pub order9_allocatable: u64,
    /// Free blocks of all zones by order.
    pub free_blocks: Blocks,
    /// Free frames of all zones by the migratetype of their list, in the order of
    /// [`MigrateType::REQUESTABLE`]. 0 if the allocator does not count them.
    pub free_by_type: [u64; MigrateType::REQUESTABLE.len()],
}

impl Sample {
    /// The state of memory after so many seconds.
    pub(crate) fn of(seconds: f64, state: &MemoryState) -> Self {
        let order_3 = Order::new(3).unwrap_or(Order::PAGEBLOCK);
        Self {
            seconds,
            in_use: state.in_use,
            free: state.free_frames,
            held_by_cpus: state.held_by_cpus,
            largest_order: state.largest_order,
            unusable_pageblock: state.free.unusable_index(Order::PAGEBLOCK),
            unusable_order_3: state.free.unusable_index(order_3),
            order9_allocatable: state.free.order9_allocatable(),
            free_blocks: state.free.blocks,
            free_by_type: MigrateType::REQUESTABLE.map(|of| state.free.frames_of(of)),
        }
    }
}

/// A figure over the time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OverTime {
    /// The mean: a sample counts until the next one. If no time passes, all samples count equally.
    pub mean: f64,
    /// The minimum of the samples.
    pub min: u64,
    /// The last sample.
    pub last: u64,
}

impl OverTime {
    /// [`Sample::order9_allocatable`] over `samples`; `None` if there are none.
    #[must_use]
    pub fn order9_allocatable(samples: &[Sample]) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let value = |sample: &Sample| sample.order9_allocatable as f64;
        let seconds = last.seconds - first.seconds;
        let mean = if seconds > 0.0 {
            let steps = samples.windows(2);
            let step = |two: &[Sample]| value(&two[0]) * (two[1].seconds - two[0].seconds);
            steps.map(step).sum::<f64>() / seconds
        } else {
            samples.iter().map(value).sum::<f64>() / samples.len() as f64
        };
        let min = samples.iter().map(|sample| sample.order9_allocatable).min()?;
        Some(Self { mean, min, last: last.order9_allocatable })
    }
}
