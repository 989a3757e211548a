//! Frames that wait for a flush that need not be sent.
//!
//! Groups of frames, each with the CPUs that may have cached translations to them and the epoch
//! since which these have to have forgotten everything; oldest first. Epochs are assigned under the
//! lock, so that they ascend.

use super::{CpuMask, Flusher};
use crate::{
    frame::Pfn,
    platform::Platform,
    sync::{AtomicU64, Ordering},
    tuning::FlushBatching,
};

/// Frames that were parked together.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    cpus: CpuMask,
    epoch: u64,
    frames: u32,
}

impl Group {
    pub(crate) const EMPTY: Self = Self { cpus: CpuMask::EMPTY, epoch: 0, frames: 0 };
}

/// What is known of parked frames without their lock.
pub(super) struct Published {
    /// How many there are.
    pub(super) frames: AtomicU64,
    /// The epoch of the oldest; 0 if there are none.
    pub(super) oldest: AtomicU64,
}

impl Published {
    pub(super) fn new() -> Self {
        Self { frames: AtomicU64::new(0), oldest: AtomicU64::new(0) }
    }
}

/// Frames that are handed over at a time.
const CHUNK: usize = 32;

/// See the module. Two rings, in metadata.
pub(crate) struct Parked<'m> {
    /// What frames are counted from.
    base: Pfn,
    groups: &'m mut [Group],
    first_group: usize,
    group_count: usize,
    frames: &'m mut [u32],
    first_frame: usize,
    frame_count: usize,
    /// Up to this epoch everything was flushed for.
    settled: u64,
}

impl<'m> Parked<'m> {
    /// Groups that suffice for `frames` frames, if most come in batches.
    pub(crate) const fn groups_for(frames: usize) -> usize {
        frames.div_ceil(8)
    }

    pub(crate) fn new(base: Pfn, groups: &'m mut [Group], frames: &'m mut [u32]) -> Self {
        Self {
            base,
            groups,
            first_group: 0,
            group_count: 0,
            frames,
            first_frame: 0,
            frame_count: 0,
            settled: 0,
        }
    }

    /// Adds a group, unless there would be more than `most` frames; whether it did.
    pub(super) fn push(
        &mut self,
        cpus: CpuMask,
        epoch: u64,
        most: u64,
        frames: impl Iterator<Item = Pfn> + Clone,
    ) -> bool {
        let count = frames.clone().count();
        let most = self.frames.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        if self.frame_count + count > most || self.group_count == self.groups.len() {
            return false;
        }
        for pfn in frames {
            let at = (self.first_frame + self.frame_count) % self.frames.len();
            self.frames[at] = (pfn.get() - self.base.get()) as u32;
            self.frame_count += 1;
        }
        let at = (self.first_group + self.group_count) % self.groups.len();
        self.groups[at] = Group { cpus, epoch, frames: count as u32 };
        self.group_count += 1;
        true
    }

    /// Its oldest group, and whether that was flushed for.
    fn oldest(&self) -> Option<(Group, bool)> {
        let oldest = (self.group_count > 0).then(|| self.groups[self.first_group])?;
        Some((oldest, oldest.epoch <= self.settled))
    }

    /// Takes frames of the group of that epoch, if it is still the oldest; how many.
    fn take(&mut self, epoch: u64, out: &mut [Pfn; CHUNK]) -> usize {
        if self.oldest().is_none_or(|(oldest, _)| oldest.epoch != epoch) {
            return 0;
        }
        let group = &mut self.groups[self.first_group];
        let count = CHUNK.min(group.frames as usize);
        group.frames -= count as u32;
        if group.frames == 0 {
            self.first_group = (self.first_group + 1) % self.groups.len();
            self.group_count -= 1;
        }
        for slot in &mut out[..count] {
            *slot = self.base.offset(u64::from(self.frames[self.first_frame]));
            self.first_frame = (self.first_frame + 1) % self.frames.len();
            self.frame_count -= 1;
        }
        count
    }

    /// Says how many frames there are, where that is read without the lock.
    fn publish(&self, published: &Published) -> u64 {
        let frames = self.frame_count as u64;
        let oldest = self.oldest().map_or(0, |(group, _)| group.epoch);
        published.oldest.store(oldest, Ordering::Relaxed);
        published.frames.store(frames, Ordering::Relaxed);
        frames
    }

    /// The CPUs of all groups that were not flushed for, and the latest epoch of these.
    fn owed(&self) -> (CpuMask, u64) {
        let mut all = (CpuMask::EMPTY, self.settled);
        for at in 0..self.group_count {
            let group = &self.groups[(self.first_group + at) % self.groups.len()];
            if group.epoch > self.settled {
                all.0.extend(&group.cpus);
                all.1 = group.epoch;
            }
        }
        all
    }
}

impl<P: Platform> Flusher<'_, '_, P> {
    /// Parks frames that `cpus` may have cached, unless there is no room; whether it did.
    pub(super) fn park(
        &self,
        cpus: &CpuMask,
        most: u64,
        frames: impl Iterator<Item = Pfn> + Clone,
    ) -> bool {
        let tlb = self.tlb;
        let count = frames.clone().count() as u64;
        let parked = tlb.parked.with(self.platform, |parked| {
            let fits = parked.push(*cpus, tlb.epoch.advance(), most, frames);
            fits.then(|| parked.publish(&tlb.published))
        });
        let Some(all) = parked else { return false };
        tlb.note_unflushed(all);
        self.count(|counters| counters.parked.add(count));
        true
    }

    /// Gives `free` the parked frames that no CPU reaches any more; how many.
    pub(super) fn release_settled(&self, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        let mut released = 0;
        while self.tlb.parked() > 0 {
            let oldest = self.tlb.parked.with(self.platform, |parked| parked.oldest());
            let Some((group, settled)) = oldest else { break };
            if !settled && !self.has_settled(&group) {
                break;
            }
            released += self.release_group(group.epoch, free);
        }
        self.count(|counters| counters.unparked.add(released));
        released
    }

    /// Whether every CPU of a group has flushed meanwhile, or will before it uses anything.
    fn has_settled(&self, group: &Group) -> bool {
        let tlb = self.tlb;
        let behind = match tlb.tuning.batching {
            FlushBatching::Lazy => tlb.behind(&group.cpus, group.epoch),
            _ => group.cpus,
        };
        behind.is_empty() || tlb.awake(self.shootdown, &behind).is_empty()
    }

    fn release_group(&self, epoch: u64, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        let mut released = 0;
        loop {
            let mut chunk = [Pfn::default(); CHUNK];
            let count = self.tlb.parked.with(self.platform, |parked| {
                let count = parked.take(epoch, &mut chunk);
                parked.publish(&self.tlb.published);
                count
            });
            if count == 0 {
                return released;
            }
            free(&chunk[..count]);
            released += count as u64;
        }
    }

    /// Flushes for everything that is parked, and for `cpus` besides, at once.
    pub(super) fn settle_parked(&self, cpus: &CpuMask) {
        let (mut all, epoch) = self.tlb.parked.with(self.platform, |parked| parked.owed());
        if self.tlb.tuning.batching == FlushBatching::Lazy {
            all = self.tlb.behind(&all, epoch);
        }
        all.extend(cpus);
        self.shoot(&all, super::Scope::Everything);
        self.tlb.parked.with(self.platform, |parked| parked.settled = parked.settled.max(epoch));
        self.count(|counters| counters.parked_flushes.add(1));
    }
}
