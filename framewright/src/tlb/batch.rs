//! The flush batch: unmapped frames, and the flush that is due before they get another owner.

use super::{Blocks, CpuMask, DeferredFlush, Flusher, Scope, blocks::receiver, deferred::CHUNK};
use crate::{
    platform::Platform,
    tuning::FlushBatching,
    types::{Block, Corruption, Finding, Order, Pfn},
};

/// A translation that the embedder has just removed from a page table. The entry was read and
/// cleared in one atomic access, and the generation of the address space was advanced after that.
#[derive(Clone, Copy, Debug)]
pub struct Translation<'t> {
    /// The CPUs that have the address space loaded, read after its generation was advanced.
    pub cpus: &'t CpuMask,
    /// Whether the entry allowed stores.
    pub writable: bool,
    /// Whether the dirty bit of the entry was set.
    pub dirty: bool,
    /// The embedder's number for the address space.
    pub space: u64,
    /// Number of the page in the address space.
    pub page: u64,
    /// The deferred flush of the address space.
    pub space_flush: &'t DeferredFlush,
    /// The deferred flush of the file that the page belongs to, if any.
    pub file_flush: Option<&'t DeferredFlush>,
}

/// The state of one frame in a batch. The embedder makes an array of these for [`Flusher::batch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchSlot {
    pfn: Pfn,
    /// Whether translations to the frame were removed and are not flushed yet.
    pending: bool,
    /// Whether the batch owns the frame.
    retired: bool,
}

/// Proof that a batch is flushed, valid until something is added to the batch. Pages that were
/// unmapped through the batch may be copied or written out.
#[derive(Debug)]
pub struct Flushed<'b>(core::marker::PhantomData<&'b mut ()>);

/// Unmapped frames, and the flush that is due before they are freed, reused, copied or written out.
///
/// Reclaim uses a batch in these steps:
/// 1. Unmap: the embedder calls [`FlushBatch::add`] for every translation that it removes.
/// 2. Before any page is written out: [`FlushBatch::flush_if_dirty`].
/// 3. Transfer the frames that have no other owner to the batch: [`FlushBatch::retire`].
/// 4. Before the other pages are released, and at the end: [`FlushBatch::finish`]. It flushes or
///    defers, and returns the frames that may be freed. No other method returns frames.
///
/// Migration calls [`FlushBatch::flush`] between unmapping and copying.
///
/// If a batch is **dropped** unfinished, it is flushed, and its retired frames are deferred until
/// the next [`Flusher::drain_flushed`]. Where the destructor may not wait
/// ([`Shootdown::may_wait`](super::Shootdown::may_wait)), they are deferred unflushed. Frames that
/// cannot be deferred are leaked and reported ([`Finding::Unflushed`]).
pub struct FlushBatch<'f, 'm, P: Platform> {
    flusher: Flusher<'f, 'm, P>,
    slots: &'f mut [BatchSlot],
    used: usize,
    /// Number of pending frames.
    pending: u64,
    /// Number of unflushed frames that this batch may have, including pending ones. They are reserved within the bound
    /// that all batches share.
    reserved: u64,
    /// CPUs that may have cached pending translations.
    cpus: CpuMask,
    /// CPUs that have flushed everything since this epoch have no pending translation cached.
    epoch: u64,
    /// The scope that covers all pending translations.
    scope: Option<Scope>,
    /// Whether some pending translations were dirty, or still allow stores.
    dirty: bool,
}

impl<'f, 'm, P: Platform> Flusher<'f, 'm, P> {
    /// Returns an empty batch with its state in `slots`. Its capacity is the number of slots or
    /// [`TlbTuning::batch`](crate::tuning::TlbTuning), whichever is less.
    pub fn batch(&self, slots: &'f mut [BatchSlot]) -> FlushBatch<'f, 'm, P> {
        let most = self.batch_capacity(slots.len());
        self.batch_with_all_slots(&mut slots[..most])
    }

    /// Returns an empty batch with the capacity of `slots`. For migration, which holds the locks of
    /// unmapped pages until the flush.
    pub(crate) fn batch_with_all_slots(&self, slots: &'f mut [BatchSlot]) -> FlushBatch<'f, 'm, P> {
        FlushBatch {
            flusher: *self,
            slots,
            used: 0,
            pending: 0,
            reserved: 0,
            cpus: CpuMask::EMPTY,
            epoch: 0,
            scope: None,
            dirty: false,
        }
    }
}

impl<'f, 'm, P: Platform> FlushBatch<'f, 'm, P> {
    /// The flusher that made this batch.
    #[must_use]
    pub fn flusher(&self) -> Flusher<'f, 'm, P> {
        self.flusher
    }

    /// Whether the batch has no free slot.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.used == self.slots.len()
    }

    /// Whether some of the added translations are not flushed.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.scope.is_some()
    }

    /// Whether stores through unflushed translations are possible. If so, the pages must not be
    /// written out.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Reserves up to `frames` more unflushed frames, within the bound for all batches and deferred frames together.
    /// Returns the number of reserved frames. Pages beyond that number are flushed one by one.
    pub(crate) fn reserve(&mut self, frames: u64) -> u64 {
        let Flusher { tlb, .. } = self.flusher;
        if tlb.tuning.batching == FlushBatching::Off {
            return frames;
        }
        let frames = frames.min((self.slots.len() - self.used) as u64);
        let missing = (self.pending + frames).saturating_sub(self.reserved);
        if missing > 0 {
            self.reserved += tlb.reserve_unflushed(missing);
        }
        (self.reserved - self.pending).min(frames)
    }

    /// Records that a translation to `pfn` was removed, and flushes it now or notes it as pending.
    /// To be called before the page-table lock is released.
    pub fn add(&mut self, pfn: Pfn, translation: &Translation<'_>) {
        let Flusher { tlb, shootdown, memory, .. } = self.flusher;
        let &Translation { cpus, writable, dirty, space, page, space_flush, file_flush } =
            translation;
        self.flusher.count(|counters| counters.unmapped.add(1));
        if cpus.is_empty() {
            return;
        }
        let dirty = dirty || (writable && !shootdown.clean_stores_fault());
        let at_once = match tlb.tuning.batching {
            FlushBatching::Off => true,
            FlushBatching::CleanOnly => dirty,
            FlushBatching::All | FlushBatching::Lazy => false,
        };
        let scope = Scope::page(space, page);
        let is_ours = |flush: &DeferredFlush| flush.belongs_to(memory.tag());
        let at_once = at_once || !is_ours(space_flush) || !file_flush.is_none_or(is_ours);
        if at_once || !self.note(pfn) {
            self.flusher.shoot_down(cpus, scope);
            return;
        }
        let epoch = tlb.epoch.next();
        space_flush.note(epoch, cpus);
        if let Some(flush) = file_flush {
            flush.note(epoch, cpus);
        }
        self.cpus.extend(cpus);
        self.epoch = self.epoch.max(epoch);
        self.scope = Some(
            self.scope.map_or(scope, |all| all.cover(scope, tlb.tuning.single_page_flush_ceiling)),
        );
        self.dirty |= dirty;
    }

    /// Transfers a block of order 0 to the batch. The embedder has removed all references to it; only stale
    /// translations are left. [`FlushBatch::finish`] returns the block when these are flushed.
    ///
    /// # Errors
    ///
    /// Returns the block if it is of another order or memory, or if the batch is full: finish the
    /// batch first.
    pub fn retire(&mut self, block: Block<'m>) -> Result<(), Block<'m>> {
        if block.order() != Order::ZERO || !self.flusher.memory.owns(&block) {
            return Err(block);
        }
        self.retire_frame(block.pfn()).map_err(|_| block)
    }

    /// As [`FlushBatch::retire`], for a frame that the caller owns as a block of order 0. The batch
    /// owns it if this succeeds.
    pub(crate) fn retire_frame(&mut self, pfn: Pfn) -> Result<(), Pfn> {
        if let Some(slot) = self.slots[..self.used].iter_mut().find(|slot| slot.pfn == pfn) {
            slot.retired = true;
            return Ok(());
        }
        self.push(BatchSlot { pfn, pending: false, retired: true }).ok_or(pfn)
    }

    /// Flushes all pending translations.
    pub fn flush(&mut self) -> Flushed<'_> {
        if let Some(scope) = self.scope {
            let Flusher { tlb, .. } = self.flusher;
            self.flusher.count(|counters| counters.batches.add(1));
            match tlb.tuning.batching {
                FlushBatching::Lazy => {
                    let not_flushed = tlb.not_flushed(&self.cpus, self.epoch);
                    // A CPU that is interrupted anyway can flush for the deferred frames as well.
                    let scope = if tlb.deferred() > 0 { Scope::Everything } else { scope };
                    if !not_flushed.is_empty() {
                        self.flusher.shoot_down(&not_flushed, scope);
                    }
                }
                _ => _ = self.flusher.shoot_down(&self.cpus, scope),
            }
            self.set_flushed();
        }
        Flushed(core::marker::PhantomData)
    }

    /// Flushes if pending translations are dirty. To be called before any page of the batch is
    /// written out. This does not allow copying, because clean translations may be left.
    pub fn flush_if_dirty(&mut self) {
        if self.dirty {
            self.flush();
        }
    }

    /// Finishes the batch: flushes it, or defers frames whose flush can be deferred. Then passes to
    /// `free` all retired frames that no TLB translates any more, including frames that other
    /// batches deferred. `free` owns the frames that it receives. No lock of the library is held
    /// during the calls of `free`.
    pub fn finish(&mut self, free: &mut dyn FnMut(Blocks<'_, 'm, P>)) {
        let memory = self.flusher.memory;
        self.finish_frames(&mut receiver(memory, free));
    }

    /// As [`FlushBatch::finish`], but passes slices of frame numbers. `free` owns these frames as
    /// blocks of order 0.
    pub(crate) fn finish_frames(&mut self, free: &mut dyn FnMut(&[Pfn])) {
        if self.is_pending() && !self.defer(free) {
            self.flush();
        }
        self.release_reserved();
        self.hand_out(free);
        self.flusher.tick();
        self.flusher.drain_flushed_frames(free);
    }

    /// Defers the frames if the flush can be deferred for all pending translations. Returns whether
    /// no flush is left to do: the frames were deferred, or all CPUs have flushed meanwhile.
    fn defer(&mut self, free: &mut dyn FnMut(&[Pfn])) -> bool {
        let Flusher { tlb, .. } = self.flusher;
        let batching = tlb.tuning.batching;
        let may_wait = |slot: &BatchSlot| slot.retired || !slot.pending;
        if self.dirty || batching < FlushBatching::All || !self.used().iter().all(may_wait) {
            return false;
        }
        let most = tlb.deferred_max();
        if !self.defer_up_to(most) {
            let limit = most.saturating_sub(self.pending);
            self.flusher.limit_deferred(limit, free);
            if self.was_flushed_meanwhile() {
                self.set_flushed();
                return true;
            }
            if !self.defer_up_to(most) {
                return false;
            }
        }
        self.discard_pending();
        self.flusher.limit_deferred(tlb.deferred_before_flush(), free);
        true
    }

    /// Whether the other CPUs have flushed everything since the pending translations were removed.
    /// If so, this CPU flushes now, unless it has already, so that nothing is left to flush.
    fn was_flushed_meanwhile(&self) -> bool {
        let Flusher { tlb, cpu, .. } = self.flusher;
        let mut not_flushed = match tlb.tuning.batching {
            FlushBatching::Lazy => tlb.not_flushed(&self.cpus, self.epoch),
            _ => self.cpus,
        };
        let here = not_flushed.contains(cpu);
        not_flushed.remove(cpu);
        if not_flushed.is_empty() && here {
            self.flusher.flush_local();
        }
        not_flushed.is_empty()
    }

    fn defer_up_to(&self, most: u64) -> bool {
        self.defer_slots(|slot| slot.pending, most)
    }

    /// Defers the frames of selected slots, if the bound allows that for all of them. `which` selects the slots.
    /// Returns whether they were deferred.
    fn defer_slots(&self, which: fn(&BatchSlot) -> bool, most: u64) -> bool {
        let frames = self.used().iter().filter(|slot| which(slot)).map(|slot| slot.pfn);
        self.flusher.defer(&self.cpus, most, frames)
    }

    /// Passes the remaining frames, which are all retired, to `free`. If `free` panics, it owns the
    /// frames that it received, and the batch keeps the others.
    fn hand_out(&mut self, free: &mut dyn FnMut(&[Pfn])) {
        let mut all = HandedOut { batch: self, count: 0 };
        while let Some((chunk, count)) = all.next() {
            free(&chunk[..count]);
        }
    }

    fn used(&self) -> &[BatchSlot] {
        &self.slots[..self.used]
    }

    /// Notes that a translation to `pfn` is pending. Returns `false` if the batch has no free slot, or
    /// cannot reserve another unflushed frame.
    fn note(&mut self, pfn: Pfn) -> bool {
        let last = self.slots[..self.used].last().filter(|slot| slot.pfn == pfn);
        if last.is_some_and(|slot| slot.pending) {
            return true;
        }
        let is_last = last.is_some();
        if !is_last && self.is_full() || self.reserve_one() == 0 {
            return false;
        }
        self.pending += 1;
        if is_last {
            self.slots[self.used - 1].pending = true;
            return true;
        }
        self.push(BatchSlot { pfn, pending: true, retired: false }).is_some()
    }

    /// Reserves one more frame if necessary. Returns the number of unused reserved frames.
    fn reserve_one(&mut self) -> u64 {
        if self.reserved == self.pending {
            self.reserved += self.flusher.tlb.reserve_unflushed(1);
        }
        self.reserved - self.pending
    }

    /// Returns all reserved frames. Nothing is pending.
    fn release_reserved(&mut self) {
        debug_assert_eq!(self.pending, 0);
        let reserved = core::mem::take(&mut self.reserved);
        if reserved > 0 {
            self.flusher.tlb.release_reserved(reserved);
        }
    }

    fn push(&mut self, slot: BatchSlot) -> Option<()> {
        *self.slots.get_mut(self.used)? = slot;
        self.used += 1;
        Some(())
    }

    /// Marks everything as flushed: only retired frames remain in the batch.
    fn set_flushed(&mut self) {
        self.keep(|slot| slot.retired);
        self.reset();
    }

    /// Removes the pending frames, which were deferred.
    fn discard_pending(&mut self) {
        self.keep(|slot| !slot.pending);
        self.reset();
    }

    fn keep(&mut self, keeps: impl Fn(&BatchSlot) -> bool) {
        let mut kept = 0;
        for at in 0..self.used {
            if keeps(&self.slots[at]) {
                self.slots[kept] = BatchSlot { pending: false, ..self.slots[at] };
                kept += 1;
            }
        }
        self.used = kept;
    }

    fn reset(&mut self) {
        (self.cpus, self.epoch, self.scope, self.dirty) = (CpuMask::EMPTY, 0, None, false);
        self.pending = 0;
        self.release_reserved();
    }
}

impl<P: Platform> Drop for FlushBatch<'_, '_, P> {
    fn drop(&mut self) {
        if self.flusher.shootdown.may_wait() {
            self.flush();
        }
        let Flusher { platform, .. } = self.flusher;
        let any = self.used().iter().any(|slot| slot.retired);
        if any && self.defer_slots(|slot| slot.retired, u64::MAX) {
            self.keep(|slot| !slot.retired);
        }
        if let Some(first) = self.used().first() {
            platform.corruption(&Corruption {
                pfn: first.pfn,
                order: Order::ZERO,
                what: Finding::Unflushed,
                count: self.used as u32,
            });
        }
        self.pending = 0;
        self.release_reserved();
    }
}

/// The first frames of a batch. The receiver owns them. Dropping this value removes them from the
/// batch.
struct HandedOut<'b, 'f, 'm, P: Platform> {
    batch: &'b mut FlushBatch<'f, 'm, P>,
    count: usize,
}

impl<P: Platform> HandedOut<'_, '_, '_, P> {
    /// The next frames, and their number.
    fn next(&mut self) -> Option<([Pfn; CHUNK], usize)> {
        let left = &self.batch.used()[self.count..];
        let count = left.len().min(CHUNK);
        let mut chunk = [Pfn::default(); CHUNK];
        chunk.iter_mut().zip(left).for_each(|(pfn, slot)| *pfn = slot.pfn);
        self.count += count;
        (count > 0).then_some((chunk, count))
    }
}

impl<P: Platform> Drop for HandedOut<'_, '_, '_, P> {
    fn drop(&mut self) {
        let FlushBatch { slots, used, .. } = &mut *self.batch;
        slots.copy_within(self.count..*used, 0);
        *used -= self.count;
    }
}
