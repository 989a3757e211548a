//! Deferring the free of frames, and freeing deferred frames once no TLB translates them.

use super::{
    Blocks, CpuMask, Flusher, Scope,
    blocks::receiver,
    deferred::{CHUNK, DeferredGroup, GROUPS_PER_FLUSH},
};
use crate::{platform::Platform, tuning::FlushBatching, types::Pfn};

impl<'m, P: Platform> Flusher<'_, 'm, P> {
    /// Passes to `free` those deferred frames that no TLB translates any more. Does not flush.
    /// Returns their number. The frames were [retired](super::FlushBatch::retire) or reclaimed.
    pub fn drain_flushed(&self, free: &mut dyn FnMut(Blocks<'_, 'm, P>)) -> u64 {
        self.drain_flushed_frames(&mut receiver(self.memory, free))
    }

    /// Passes all deferred frames to `free`, after one flush for those that need it. Returns their
    /// number. For use when memory runs out.
    pub fn drain_deferred(&self, free: &mut dyn FnMut(Blocks<'_, 'm, P>)) -> u64 {
        self.drain_deferred_frames(&mut receiver(self.memory, free))
    }

    /// Flushes once for the older half of the deferred frames, then drains as
    /// [`Flusher::drain_flushed`] does, but passes slices of frame numbers instead of [`Blocks`].
    /// `free` owns these frames as blocks of order 0. For use when memory is short. With
    /// [`FlushBatching::All`] the flush is for all deferred frames.
    pub(crate) fn drain_oldest_half_frames(&self, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        match self.tlb.tuning.batching {
            FlushBatching::Lazy => self.flush_oldest_half(free),
            _ => self.drain_deferred_frames(free),
        }
    }

    /// As [`Flusher::drain_deferred`], but passes slices of frame numbers.
    pub(crate) fn drain_deferred_frames(&self, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        let mut released = self.drain_flushed_frames(free);
        if self.tlb.deferred() > 0 {
            self.flush_all_deferred(&CpuMask::EMPTY);
            released += self.drain_flushed_frames(free);
        }
        released
    }

    /// Defers the free of frames that `cpus` may have cached. Returns `false` if more than `most`
    /// frames would be deferred.
    pub(super) fn defer(
        &self,
        cpus: &CpuMask,
        most: u64,
        frames: impl Iterator<Item = Pfn> + Clone,
    ) -> bool {
        let tlb = self.tlb;
        let count = frames.clone().count() as u64;
        let deferred = tlb.deferred.with(self.platform, |deferred| {
            let fits = deferred.push(*cpus, tlb.epoch.advance(), most, frames);
            fits.then(|| deferred.publish(&tlb.published))
        });
        if deferred.is_none() {
            return false;
        }
        self.count(|counters| counters.deferred.add(count));
        true
    }

    /// Passes to `free` those deferred frames that no TLB translates any more. Returns their
    /// number.
    pub(crate) fn drain_flushed_frames(&self, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        let (mut released, mut flushed_epoch) = (0, 0);
        while self.tlb.deferred() > 0 {
            let mut chunk = [Pfn::default(); CHUNK];
            let (count, next) = self.tlb.deferred.with(self.platform, |deferred| {
                deferred.flushed_epoch = deferred.flushed_epoch.max(flushed_epoch);
                let count = deferred.take(&mut chunk);
                deferred.publish(&self.tlb.published);
                (count, deferred.oldest())
            });
            if count > 0 {
                free(&chunk[..count]);
                released += count as u64;
            }
            match next {
                Some((_, true)) => {}
                Some((group, false)) if self.is_flushed(&group) => flushed_epoch = group.epoch,
                _ => break,
            }
        }
        self.count(|counters| counters.deferred_freed.add(released));
        released
    }

    /// Flushes for the older half of the deferred frames, then calls
    /// [`Flusher::drain_flushed_frames`]. Only CPUs that have not flushed since these frames were
    /// deferred are flushed. The younger half waits longer, so that CPUs can flush for other
    /// reasons.
    pub(super) fn flush_oldest_half(&self, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        let mut groups = [DeferredGroup::EMPTY; GROUPS_PER_FLUSH];
        let count =
            self.tlb.deferred.with(self.platform, |deferred| deferred.oldest_half(&mut groups));
        let mut not_flushed = CpuMask::EMPTY;
        for group in &groups[..count] {
            not_flushed.extend(&self.not_flushed(group));
        }
        if let Some(last) = groups[..count].last() {
            self.shoot_down(&not_flushed, Scope::Everything);
            self.set_flushed(last.epoch);
            self.count(|counters| counters.deferred_flushes.add(1));
        }
        self.drain_flushed_frames(free)
    }

    /// If more than `most` frames are deferred, passes the frames that need no flush to `free`. If
    /// more than `most` are left, flushes for some. Only one CPU does this at a time; meanwhile
    /// other CPUs can defer more frames, up to the maximum.
    pub(crate) fn limit_deferred(&self, most: u64, free: &mut dyn FnMut(&[Pfn])) {
        let tlb = self.tlb;
        if tlb.deferred() <= most {
            return;
        }
        let Some(_turn) = tlb.limiting.try_lock() else { return };
        self.drain_flushed_frames(free);
        if tlb.deferred() > most {
            self.drain_oldest_half_frames(free);
        }
    }

    /// Whether every CPU of a group has flushed since the group's epoch, or will flush before it
    /// uses old entries.
    fn is_flushed(&self, group: &DeferredGroup) -> bool {
        let not_flushed = self.not_flushed(group);
        not_flushed.is_empty() || self.tlb.not_lazy(self.shootdown, &not_flushed).is_empty()
    }

    /// The CPUs of a group that have not flushed since its epoch.
    fn not_flushed(&self, group: &DeferredGroup) -> CpuMask {
        match self.tlb.tuning.batching {
            FlushBatching::Lazy => self.tlb.not_flushed(&group.cpus, group.epoch),
            _ => group.cpus,
        }
    }

    /// Records that frames deferred up to `epoch` need no flush any more.
    fn set_flushed(&self, epoch: u64) {
        self.tlb.deferred.with(self.platform, |deferred| {
            deferred.flushed_epoch = deferred.flushed_epoch.max(epoch);
        });
    }

    /// Flushes once for all deferred frames, and on `cpus` as well.
    pub(super) fn flush_all_deferred(&self, cpus: &CpuMask) {
        let (mut all, epoch) = self.tlb.deferred.with(self.platform, |deferred| deferred.pending());
        if self.tlb.tuning.batching == FlushBatching::Lazy {
            all = self.tlb.not_flushed(&all, epoch);
        }
        all.extend(cpus);
        self.shoot_down(&all, Scope::Everything);
        self.set_flushed(epoch);
        self.count(|counters| counters.deferred_flushes.add(1));
    }
}
