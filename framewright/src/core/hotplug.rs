//! Memory hotplug: adding and removing memory.
//!
//! The memory map names all memory that may ever be added ([`Presence::Absent`](crate::Presence)), so that its metadata
//! is allocated from the start. Memory is added and removed in whole pageblocks. If the map allows it
//! ([`Presence::InPieces`](crate::Presence)), memory is added in pieces of any length. Linux puts new
//! memory at the tail of a free list, so that it is used last. That is not necessary here, because the allocator splits
//! whole free pageblocks last anyway.
//! A removal isolates the pageblocks, drains the CPU lists, and lets the caller move pages out of the
//! range. It succeeds if all frames are free then; otherwise it fails with [`HotplugError::Busy`] and names
//! the frames in use.
//!
//! Afterwards the watermarks and the limits of CPU lists are set for the new size. The memory's
//! generation changes, which tells requests on the slow path to start again. The hotplug lock
//! allows one change of memory or CPUs at a time; other changes wait through the wait hook. Under
//! that lock no hook is called that may re-enter the allocator, because the hook could then wait for
//! the lock for ever.

use core::ops::Range;

use super::{MemoryCore, try_lock::TryGuard};
use crate::{
    platform::{Platform, Wait},
    sync::Ordering,
    types::{FrameRange, HotplugError, Order, PAGEBLOCK_ORDER, Pfn, ZoneId},
    zone::{Zone, pageblocks},
};

/// Pageblocks that are added or removed under one hold of the zone lock.
const BATCH: u32 = 64;

impl<'m, P: Platform> MemoryCore<'m, P> {
    /// Adds absent memory that the memory map names, as free frames: whole pageblocks, or any frames of a zone whose
    /// memory is added in pieces.
    ///
    /// # Errors
    ///
    /// The map does not name the range, or a part of it is present.
    pub(crate) fn add_memory(&self, range: FrameRange) -> Result<(), HotplugError> {
        let _guard = self.lock_hotplug();
        let piece = self.zones.iter().find_map(|zone| Some((zone, zone.named_piece(range)?)));
        let (zone, frames) = match piece {
            Some((zone, frames)) => {
                if let Some(frame) = zone.first_present(frames.clone()) {
                    return Err(HotplugError::Present { at: zone.pfn(frame) });
                }
                (zone, frames)
            }
            None => self.absent_pageblocks(range)?,
        };
        let blocks = pageblocks(frames.start, frames.end);
        for batch in batches(blocks) {
            let (first, last) = (batch.start << PAGEBLOCK_ORDER, batch.end << PAGEBLOCK_ORDER);
            zone.add_frames(&self.platform, first.max(frames.start)..last.min(frames.end));
        }
        self.size_has_changed();
        Ok(())
    }

    /// The zone and the frames of a range of whole pageblocks, if the map names them and they are absent.
    fn absent_pageblocks(
        &self,
        range: FrameRange,
    ) -> Result<(&'m Zone<'m, P>, Range<u32>), HotplugError> {
        let (id, mut blocks) = self.whole_pageblocks(range)?;
        let zone = &self.zones[id.index()];
        let frames = blocks.start << PAGEBLOCK_ORDER..blocks.end << PAGEBLOCK_ORDER;
        match blocks.find(|&block| !zone.is_absent(block)) {
            Some(block) => Err(HotplugError::Present { at: zone.pfn(block << PAGEBLOCK_ORDER) }),
            None => Ok((zone, frames)),
        }
    }

    /// Removes memory. Isolates the range and drains the CPU lists. Then calls `evacuate`, which
    /// gets the zone and the range in it, and tries to free the frames in use. If some are still in
    /// use after that, calls `in_the_way` with them.
    ///
    /// # Errors
    ///
    /// [`HotplugError::Busy`] if frames are in use.
    pub(crate) fn remove_memory(
        &self,
        range: FrameRange,
        evacuate: &mut dyn FnMut(ZoneId, u32, u32),
        in_the_way: &mut dyn FnMut(FrameRange),
    ) -> Result<(), HotplugError> {
        let guard = self.lock_hotplug();
        let (id, blocks) = self.whole_pageblocks(range)?;
        let zone = &self.zones[id.index()];
        if let Some(block) = blocks.clone().find(|&block| !zone.is_whole(block)) {
            return Err(HotplugError::Absent { at: zone.pfn(block << PAGEBLOCK_ORDER) });
        }
        let (start, end) = (blocks.start << PAGEBLOCK_ORDER, blocks.end << PAGEBLOCK_ORDER);
        let isolation = self.isolate_undrained(id, start, end);
        let isolation = isolation.map_err(|at| HotplugError::Isolated { at })?;
        // Draining and `evacuate` call the embedder, which may add and remove memory meanwhile.
        // Isolated pageblocks cannot be removed by others.
        drop(guard);
        self.drain_every_cpu(id);
        evacuate(id, start, end);
        let guard = self.lock_hotplug();
        if self.report_in_use(id, start, end, &mut |_| ()) > 0 {
            drop(guard);
            let frames = self.report_in_use(id, start, end, in_the_way);
            return Err(HotplugError::Busy { frames });
        }
        // Nothing allocates from isolated pageblocks, so they stay free.
        for batch in batches(blocks) {
            zone.remove_pageblocks(&self.platform, batch);
        }
        drop(isolation);
        self.size_has_changed();
        Ok(())
    }

    /// Waits for the hotplug lock. It protects all state that depends on the sizes of zones or the
    /// number of CPUs.
    pub(super) fn lock_hotplug(&self) -> TryGuard<'_> {
        let mut spins = 0;
        loop {
            if let Some(guard) = self.hotplug_lock.try_lock() {
                return guard;
            }
            self.platform.wait(Wait::Lock, spins);
            spins = spins.saturating_add(1);
        }
    }

    /// Updates the state that depends on the sizes of zones.
    fn size_has_changed(&self) {
        self.set_watermarks();
        self.resize_lists();
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The zone of a range that consists of whole pageblocks named by the memory map, and the
    /// numbers of the pageblocks in that zone.
    fn whole_pageblocks(&self, range: FrameRange) -> Result<(ZoneId, Range<u32>), HotplugError> {
        let whole = |pfn: Pfn| pfn.is_aligned(Order::PAGEBLOCK);
        if range.frames() == 0 || !whole(range.start()) || !whole(range.end()) {
            return Err(HotplugError::NotWhole);
        }
        let mut zones = self.zones.iter().enumerate();
        zones
            .find_map(|(i, zone)| Some((ZoneId::new(i), zone.named_pageblocks(range)?)))
            .ok_or(HotplugError::NotInMap)
    }
}

/// Splits a range of pageblocks into parts of at most [`BATCH`].
fn batches(blocks: Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let end = blocks.end;
    blocks.step_by(BATCH as usize).map(move |at| at..end.min(at + BATCH))
}
