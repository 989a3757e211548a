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
//! A stored group has a word for every 64 CPUs of the memory: a whole [`CpuMask`] of 128 bytes would take more than the
//! frames of the group.
//!
//! When the deferred frames reach three quarters of their maximum, one CPU flushes for the older
//! half of them. It interrupts only the CPUs that have not flushed since these frames were
//! deferred: the others have flushed for other reasons meanwhile. During the flush, other CPUs can
//! defer more frames, so CPUs do not queue to flush for the same frames.

use core::ops::Range;

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
    /// Each group is its epoch, its number of frames, and the words of its CPUs.
    groups: &'m mut [u64],
    /// Words of a group.
    group_words: usize,
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
    const fn groups_for(frames: usize) -> usize {
        frames.div_ceil(16)
    }

    /// The number of words for the groups of `frames` frames of a memory with `cpus` CPUs.
    pub(crate) fn words_for(frames: usize, cpus: usize) -> usize {
        Self::groups_for(frames) * group_words(cpus)
    }

    /// No deferred frames. `groups` has as many words as [`DeferredFrees::words_for`] returns.
    pub(crate) fn new(
        base: Pfn,
        cpus: usize,
        groups: &'m mut [u64],
        frames: &'m mut [u32],
    ) -> Self {
        Self {
            base,
            groups,
            group_words: group_words(cpus),
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
            self.set_group(self.group_count, &group);
            self.group_count += 1;
        }
        true
    }

    /// Groups that the ring has space for.
    fn capacity(&self) -> usize {
        Self::groups_for(self.frames.len())
    }

    /// The words of a group, counted from the oldest.
    fn words(&self, number: usize) -> Range<usize> {
        let start = (self.first_group + number) % self.capacity() * self.group_words;
        start..start + self.group_words
    }

    /// A group, counted from the oldest.
    fn group(&self, number: usize) -> DeferredGroup {
        match &self.groups[self.words(number)] {
            [epoch, frames, cpus @ ..] => {
                let cpus = CpuMask::from_words(cpus);
                DeferredGroup { cpus, epoch: *epoch, frames: *frames as u32 }
            }
            _ => DeferredGroup::EMPTY,
        }
    }

    fn set_group(&mut self, number: usize, group: &DeferredGroup) {
        let words = self.words(number);
        if let [epoch, frames, cpus @ ..] = &mut self.groups[words] {
            (*epoch, *frames) = (group.epoch, group.frames.into());
            let words = group.cpus.words().iter();
            cpus.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
        }
    }

    /// Adds `group` to the youngest group if both are for the same CPUs, or if the ring of groups
    /// is full. Returns whether `group` was added.
    fn join(&mut self, group: &DeferredGroup) -> bool {
        let Some(youngest) = self.group_count.checked_sub(1) else { return false };
        let is_full = self.group_count == self.capacity();
        let share = self.frames.len().div_ceil(GROUPS_PER_FLUSH) as u32;
        let mut last = self.group(youngest);
        let goes_with = last.cpus == group.cpus
            && last.epoch > self.flushed_epoch
            && last.frames + group.frames <= share;
        if goes_with || is_full {
            last.cpus.extend(&group.cpus);
            last.frames += group.frames;
            last.epoch = group.epoch;
            self.set_group(youngest, &last);
        }
        goes_with || is_full
    }

    /// The oldest group, and whether it is flushed.
    pub(super) fn oldest(&self) -> Option<(DeferredGroup, bool)> {
        let oldest = (self.group_count > 0).then(|| self.group(0))?;
        Some((oldest, oldest.epoch <= self.flushed_epoch))
    }

    /// Takes frames of the oldest groups that are flushed. Returns their number.
    pub(super) fn take(&mut self, out: &mut [Pfn; CHUNK]) -> usize {
        let mut taken = 0;
        while taken < CHUNK
            && let Some((mut group, true)) = self.oldest()
        {
            let count = (CHUNK - taken).min(group.frames as usize);
            for slot in &mut out[taken..taken + count] {
                *slot = self.base.offset(u64::from(self.frames[self.first_frame]));
                self.first_frame = (self.first_frame + 1) % self.frames.len();
            }
            self.frame_count -= count;
            taken += count;
            group.frames -= count as u32;
            self.set_group(0, &group);
            if group.frames == 0 {
                self.first_group = (self.first_group + 1) % self.capacity();
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
            out[count] = self.group(count);
            frames += out[count].frames as usize;
            count += 1;
        }
        count
    }

    /// Publishes the number of frames and the epoch in the middle, which are read without the lock.
    pub(super) fn publish(&self, published: &Published) -> u64 {
        let frames = self.frame_count as u64;
        let middle = self.words(self.group_count / 2).start;
        let middle = if frames > 0 { self.groups[middle] } else { 0 };
        published.middle.store(middle, Ordering::Relaxed);
        published.frames.store(frames, Ordering::Relaxed);
        frames
    }

    /// The CPUs of all groups that are not flushed, and the latest epoch of these groups.
    pub(super) fn pending(&self) -> (CpuMask, u64) {
        let mut all = (CpuMask::EMPTY, self.flushed_epoch);
        for at in 0..self.group_count {
            let group = self.group(at);
            if group.epoch > self.flushed_epoch {
                all.0.extend(&group.cpus);
                all.1 = group.epoch;
            }
        }
        all
    }
}

/// Words of a stored group if the memory has `cpus` CPUs.
fn group_words(cpus: usize) -> usize {
    2 + cpus.div_ceil(64)
}

#[cfg(all(test, not(framewright_loom)))]
mod tests {
    use super::*;
    use crate::types::CpuId;
    use std::vec;

    #[test]
    fn groups_keep_every_cpu_of_the_memory() {
        for cpus in [1, 64, 65, 1024] {
            let (mut groups, mut frames) = (vec![0; DeferredFrees::words_for(64, cpus)], [0; 64]);
            let mut deferred = DeferredFrees::new(Pfn::new(9), cpus, &mut groups, &mut frames);
            let of = |first, step| (first..cpus as u16).step_by(step).map(CpuId::new).collect();
            let (all, last): (CpuMask, CpuMask) = (of(0, 1), of(cpus as u16 - 1, 1));
            // More than once around the ring of four groups.
            for round in 0..3 {
                for (i, cpus) in [all, last, all].into_iter().enumerate() {
                    let epoch = 3 * round + i as u64 + 1;
                    assert!(deferred.push(cpus, epoch, 64, [Pfn::new(10 + epoch)].into_iter()));
                }
                assert_eq!(deferred.pending(), (all, 3 * round + 3));
                let mut half = [DeferredGroup::EMPTY; GROUPS_PER_FLUSH];
                let count = deferred.oldest_half(&mut half);
                let expected: &[CpuMask] = if cpus == 1 { &[all] } else { &[all, last] };
                assert!(half[..count].iter().map(|group| &group.cpus).eq(expected), "{cpus}");
                deferred.flushed_epoch = 3 * round + 3;
                let mut out = [Pfn::default(); CHUNK];
                assert_eq!(deferred.take(&mut out), 3);
                assert_eq!(out[..3], [11, 12, 13].map(|pfn| Pfn::new(pfn + 3 * round)));
                assert!(deferred.oldest().is_none());
            }
        }
    }
}
