//! Deferred frees: frames that are freed after CPUs have flushed for other reasons.
//!
//! The frames are in groups, oldest first. A group records the CPUs that may have cached
//! translations to its frames, and the epoch since which these CPUs must have flushed everything.
//! Epochs are assigned under the lock, so they ascend. If frames are for the same CPUs as the
//! youngest group, they join this group, and the older frames of the group then wait for the later
//! epoch. Batches may have only a page or two. With a group for each batch, the ring of groups would
//! be full long before the ring of frames. The size of a group is limited to a share of all frames.
//! Frames for different CPUs join a group only if the ring of groups is full.
//!
//! When the deferred frames reach three quarters of their maximum, one CPU flushes for the older
//! half of them. It interrupts only the CPUs that have not flushed since these frames were
//! deferred: the others have flushed for other reasons meanwhile. During the flush, other CPUs can
//! defer more frames, so CPUs do not queue to flush for the same frames.

use super::CpuMask;
use crate::{
    sync::{AtomicU64, Ordering},
    types::Pfn,
};

/// Frames that were deferred together.
#[derive(Clone, Copy)]
pub(crate) struct DeferredGroup {
    pub(super) cpus: CpuMask,
    pub(super) epoch: u64,
    frames: u32,
}

impl DeferredGroup {
    pub(crate) const EMPTY: Self = Self { cpus: CpuMask::EMPTY, epoch: 0, frames: 0 };
}

/// The state of deferred frames that is read without their lock.
pub(super) struct Published {
    /// Number of frames.
    pub(super) frames: AtomicU64,
    /// The epoch of the middle group by age; 0 if there are no groups.
    pub(super) middle: AtomicU64,
}

impl Published {
    pub(super) fn new() -> Self {
        Self { frames: AtomicU64::new(0), middle: AtomicU64::new(0) }
    }
}

/// Frames that are freed together, under one hold of the lock of the deferred frees and one of the
/// zone lock.
pub(super) const CHUNK: usize = 64;

/// The number of groups that one flush considers. A group has at most a sixteenth of all frames.
/// Two consecutive groups for the same CPUs have more than that together, because otherwise they
/// would have been joined. So 16 groups for the same CPUs, which are 8 pairs, have half of the
/// frames.
pub(super) const GROUPS_PER_FLUSH: usize = 16;

/// Deferred frames and their groups: two ring buffers in metadata.
pub(crate) struct DeferredFrees<'m> {
    /// The frame number that entries of `frames` are relative to.
    base: Pfn,
    groups: &'m mut [DeferredGroup],
    first_group: usize,
    group_count: usize,
    frames: &'m mut [u32],
    first_frame: usize,
    frame_count: usize,
    /// Everything up to this epoch is flushed.
    pub(super) flushed_epoch: u64,
}

impl<'m> DeferredFrees<'m> {
    /// The number of groups for `frames` frames. It suffices even if consecutive groups are for
    /// different CPUs, provided that the groups have 16 frames on average.
    pub(crate) const fn groups_for(frames: usize) -> usize {
        frames.div_ceil(16)
    }

    pub(crate) fn new(base: Pfn, groups: &'m mut [DeferredGroup], frames: &'m mut [u32]) -> Self {
        Self {
            base,
            groups,
            first_group: 0,
            group_count: 0,
            frames,
            first_frame: 0,
            frame_count: 0,
            flushed_epoch: 0,
        }
    }

    /// Adds frames, unless there would be more than `most`. Returns whether they were added.
    pub(super) fn push(
        &mut self,
        cpus: CpuMask,
        epoch: u64,
        most: u64,
        frames: impl Iterator<Item = Pfn> + Clone,
    ) -> bool {
        let count = frames.clone().count();
        let most = self.frames.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        if self.frame_count + count > most {
            return false;
        }
        for pfn in frames {
            let at = (self.first_frame + self.frame_count) % self.frames.len();
            self.frames[at] = (pfn.get() - self.base.get()) as u32;
            self.frame_count += 1;
        }
        let group = DeferredGroup { cpus, epoch, frames: count as u32 };
        if !self.join(&group) {
            let at = (self.first_group + self.group_count) % self.groups.len();
            self.groups[at] = group;
            self.group_count += 1;
        }
        true
    }

    /// Adds `group` to the youngest group if both are for the same CPUs, or if the ring of groups
    /// is full. Returns whether `group` was added.
    fn join(&mut self, group: &DeferredGroup) -> bool {
        let Some(last) = self.group_count.checked_sub(1) else { return false };
        let is_full = self.group_count == self.groups.len();
        let share = self.frames.len().div_ceil(GROUPS_PER_FLUSH) as u32;
        let last = &mut self.groups[(self.first_group + last) % self.groups.len()];
        let goes_with = last.cpus == group.cpus
            && last.epoch > self.flushed_epoch
            && last.frames + group.frames <= share;
        if goes_with || is_full {
            last.cpus.extend(&group.cpus);
            last.frames += group.frames;
            last.epoch = group.epoch;
        }
        goes_with || is_full
    }

    /// The oldest group, and whether it is flushed.
    pub(super) fn oldest(&self) -> Option<(DeferredGroup, bool)> {
        let oldest = (self.group_count > 0).then(|| self.groups[self.first_group])?;
        Some((oldest, oldest.epoch <= self.flushed_epoch))
    }

    /// Takes frames of the oldest groups that are flushed. Returns their number.
    pub(super) fn take(&mut self, out: &mut [Pfn; CHUNK]) -> usize {
        let mut taken = 0;
        while taken < CHUNK
            && let Some((group, true)) = self.oldest()
        {
            let count = (CHUNK - taken).min(group.frames as usize);
            for slot in &mut out[taken..taken + count] {
                *slot = self.base.offset(u64::from(self.frames[self.first_frame]));
                self.first_frame = (self.first_frame + 1) % self.frames.len();
            }
            self.frame_count -= count;
            taken += count;
            let group = &mut self.groups[self.first_group];
            group.frames -= count as u32;
            if group.frames == 0 {
                self.first_group = (self.first_group + 1) % self.groups.len();
                self.group_count -= 1;
            }
        }
        taken
    }

    /// Copies the oldest groups, until they have half of the frames or `out` is full. Returns their
    /// number.
    pub(super) fn oldest_half(&self, out: &mut [DeferredGroup; GROUPS_PER_FLUSH]) -> usize {
        let (mut count, mut frames) = (0, 0);
        while count < self.group_count.min(GROUPS_PER_FLUSH)
            && frames < self.frame_count.div_ceil(2)
        {
            out[count] = self.groups[(self.first_group + count) % self.groups.len()];
            frames += out[count].frames as usize;
            count += 1;
        }
        count
    }

    /// Publishes the number of frames and the epoch in the middle, which are read without the lock.
    pub(super) fn publish(&self, published: &Published) -> u64 {
        let frames = self.frame_count as u64;
        let middle = (self.first_group + self.group_count / 2) % self.groups.len();
        let middle = if frames > 0 { self.groups[middle].epoch } else { 0 };
        published.middle.store(middle, Ordering::Relaxed);
        published.frames.store(frames, Ordering::Relaxed);
        frames
    }

    /// The CPUs of all groups that are not flushed, and the latest epoch of these groups.
    pub(super) fn pending(&self) -> (CpuMask, u64) {
        let mut all = (CpuMask::EMPTY, self.flushed_epoch);
        for at in 0..self.group_count {
            let group = &self.groups[(self.first_group + at) % self.groups.len()];
            if group.epoch > self.flushed_epoch {
                all.0.extend(&group.cpus);
                all.1 = group.epoch;
            }
        }
        all
    }
}
