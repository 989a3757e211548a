//! One CPU's view: flush, flush_deferred, serve.

use super::{
    BatchSlot, Blocks, CpuMask, DeferredFlush, FlushBatch, Scope, Shootdown, Tlb, blocks::receiver,
};
use crate::{
    frame::Pfn,
    memory::Memory,
    observe::{Event, FlushReason, TlbCounters},
    platform::{CpuId, Platform, Wait},
    sync::Ordering,
    tuning::FlushBatching,
};

/// What one CPU does about translations: made by [`Memory::flusher`](crate::Memory::flusher), and
/// as cheap as a reference.
///
/// Whatever flushes may wait for other CPUs: it is called on that CPU, with interrupts enabled and no
/// lock held that a handler of interrupts takes.
pub struct Flusher<'f, 'm, P: Platform> {
    pub(super) tlb: &'f Tlb<'m, P>,
    pub(super) platform: &'f P,
    pub(super) shootdown: &'f dyn Shootdown,
    pub(super) cpu: CpuId,
    pub(super) memory: &'f Memory<'m, P>,
}

impl<P: Platform> Clone for Flusher<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Flusher<'_, '_, P> {}

impl<'f, 'm, P: Platform> Flusher<'f, 'm, P> {
    pub(crate) fn new(memory: &'f Memory<'m, P>, shootdown: &'f dyn Shootdown, cpu: CpuId) -> Self {
        Self { tlb: memory.tlb(), platform: memory.platform(), shootdown, cpu, memory }
    }

    /// The CPU.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// What it shares with the other CPUs.
    #[must_use]
    pub fn tlb(&self) -> &'f Tlb<'m, P> {
        self.tlb
    }

    /// An empty batch, which keeps what it knows of its frames in `slots`: as many of them as
    /// `slots` has, and [`TlbTuning::batch`](crate::tuning::TlbTuning) says.
    pub fn batch(&self, slots: &'f mut [BatchSlot]) -> FlushBatch<'f, 'm, P> {
        FlushBatch::new(*self, slots)
    }

    /// An empty batch of as many frames as `slots` has: for migration, which keeps what it unmaps
    /// locked until it has flushed.
    pub(crate) fn batch_with_all_slots(&self, slots: &'f mut [BatchSlot]) -> FlushBatch<'f, 'm, P> {
        FlushBatch::with_all_slots(*self, slots)
    }

    /// Frames that a batch with so many slots can have.
    pub(crate) fn batch_capacity(&self, slots: usize) -> usize {
        slots.min(self.tlb.batch as usize)
    }

    /// Makes `cpus` forget `scope`, unless they are lazy; when this returns, they have. For the
    /// embedder's own changes to page tables; not before it frees page tables themselves, which
    /// lazy CPUs may still walk on speculation ([`Flusher::flush_tables`]).
    pub fn flush(&self, cpus: &CpuMask, scope: Scope) {
        self.shoot_down(cpus, scope);
    }

    /// Makes `cpus` forget everything, lazy ones too: before page tables are freed.
    pub fn flush_tables(&self, cpus: &CpuMask) {
        self.tlb.epoch.advance();
        let others = self.flush_on(cpus, Scope::Everything);
        others.iter().for_each(|cpu| self.wait_for(cpu, || false));
    }

    /// Makes up for flushes that were put off and concern an address space or a file: when this
    /// returns, no CPU reaches what was unmapped of it before. Whether anything had to be flushed.
    pub fn flush_deferred(&self, deferred: &DeferredFlush) -> bool {
        if !deferred.is_pending() {
            return false;
        }
        let (epoch, cpus) = deferred.pending();
        let flushed = self.flush_since(&cpus, epoch);
        deferred.set_flushed(epoch);
        flushed
    }

    /// Forgets everything on this CPU.
    pub fn flush_local(&self) {
        self.flush_here(Scope::Everything, FlushReason::Local);
    }

    /// Forgets everything on this CPU if a quarter of what may be deferred is, and may be waiting for it.
    /// To be called wherever this CPU is in the kernel anyway, at a page fault or when the timer
    /// ticks: then CPUs that never rest need not be interrupted for deferred frames either. Costs a
    /// few loads where there is nothing to do. Whether it did; never where forgetting is not the
    /// CPU's own affair ([`Shootdown::has_local_flush`]).
    pub fn tick(&self) -> bool {
        let Tlb { published, tuning, .. } = self.tlb;
        if tuning.batching != FlushBatching::Lazy
            || self.tlb.deferred() * 4 < self.tlb.parked_max()
            || !self.shootdown.has_local_flush()
        {
            return false;
        }
        // Not only those that are next: what comes after them waits for this CPU, too.
        let middle = published.middle.load(Ordering::Relaxed);
        let not_flushed = self.tlb.cpu(self.cpu).is_some_and(|cpu| !cpu.has_flushed(middle));
        if not_flushed {
            self.flush_local();
        }
        not_flushed
    }

    /// Runs `flush`, after which this CPU reaches nothing that was unmapped before the call:
    /// loads another address space, compares generations, flushes if it is not_flushed. So nobody needs
    /// to interrupt it for that. Interrupts are masked, or handlers do the like.
    ///
    /// # Safety
    ///
    /// After `flush`, the CPU of this flusher has no translation that was removed before the call: frames
    /// are freed because of this.
    #[allow(unsafe_code)]
    pub unsafe fn record_full_flush<R>(&self, flush: impl FnOnce() -> R) -> R {
        let epoch = self.tlb.epoch.read();
        let result = flush();
        if let Some(cpu) = self.tlb.cpu(self.cpu) {
            cpu.set_flushed_epoch(epoch);
        }
        result
    }

    /// Serves what other CPUs have asked of this one: the handler of the interrupt that
    /// [`Shootdown::interrupt`] sends. Does nothing if the request was served already, or if a call for the
    /// same CPU is in progress, which then serves it.
    pub fn serve(&self) {
        let Some(cpu) = self.tlb.cpu(self.cpu) else { return };
        // Masked: an interrupt during this call would leave its request to this call, and return
        // with the request pending.
        let irq = self.platform.irq_save();
        cpu.serve(self.platform, |scope| self.flush_here(scope, FlushReason::RemoteShootdown));
        self.platform.irq_restore(irq);
    }

    /// Gives `free` the deferred frames that no CPU reaches any more, without flushing anything; how
    /// many. They were [retired](FlushBatch::retire), or reclaimed.
    pub fn drain_flushed(&self, free: &mut dyn FnMut(Blocks<'_, 'm, P>)) -> u64 {
        self.drain_flushed_frames(&mut receiver(self.memory, free))
    }

    /// The same after one flush for the half that has waited longest: when memory is short. With
    /// [`FlushBatching::All`] for all of it, as for any batch.
    pub fn drain_oldest_half(&self, free: &mut dyn FnMut(Blocks<'_, 'm, P>)) -> u64 {
        self.drain_oldest_half_frames(&mut receiver(self.memory, free))
    }

    /// The same for all deferred frames, after one flush for those that need it. For use when memory
    /// runs out.
    pub fn drain_deferred(&self, free: &mut dyn FnMut(Blocks<'_, 'm, P>)) -> u64 {
        self.drain_deferred_frames(&mut receiver(self.memory, free))
    }

    /// As [`Flusher::drain_oldest_half`], with frame numbers in chunks. `free` owns these frames as
    /// blocks of order 0.
    pub(crate) fn drain_oldest_half_frames(&self, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        match self.tlb.tuning.batching {
            FlushBatching::Lazy => self.flush_oldest_half(free),
            _ => self.drain_deferred_frames(free),
        }
    }

    /// As [`Flusher::drain_deferred`], with frame numbers in chunks.
    pub(crate) fn drain_deferred_frames(&self, free: &mut dyn FnMut(&[Pfn])) -> u64 {
        let mut released = self.drain_flushed_frames(free);
        if self.tlb.deferred() > 0 {
            self.flush_all_deferred(&CpuMask::EMPTY);
            released += self.drain_flushed_frames(free);
        }
        released
    }

    /// Makes those of `cpus` forget everything that have not since `epoch`; whether there was any.
    pub(super) fn flush_since(&self, cpus: &CpuMask, epoch: u64) -> bool {
        let not_flushed = self.tlb.not_flushed(cpus, epoch);
        !not_flushed.is_empty() && self.shoot_down(&not_flushed, Scope::Everything)
    }

    /// Makes `cpus` forget `scope`, but for lazy ones; whether any did.
    pub(super) fn shoot_down(&self, cpus: &CpuMask, scope: Scope) -> bool {
        self.tlb.epoch.advance();
        let not_lazy = self.tlb.not_lazy(self.shootdown, cpus);
        self.count(|counters| counters.lazy_spared.add(u64::from(cpus.count() - not_lazy.count())));
        let others = self.flush_on(&not_lazy, scope);
        for cpu in others.iter() {
            self.wait_for(cpu, || self.shootdown.is_lazy(cpu));
        }
        !not_lazy.is_empty()
    }

    /// Asks `cpus`, and flushes this one if it is among them; which others were asked.
    fn flush_on(&self, cpus: &CpuMask, scope: Scope) -> CpuMask {
        let mut others = *cpus;
        others.remove(self.cpu);
        if !others.is_empty() {
            self.ask(&others, scope);
        }
        if cpus.contains(self.cpu) {
            self.flush_here(scope, FlushReason::Local);
        }
        others
    }

    /// Asks other CPUs, and interrupts those that nobody else is about to interrupt.
    fn ask(&self, others: &CpuMask, scope: Scope) {
        let post =
            |cpu: &CpuId| self.tlb.cpu(*cpu).is_some_and(|state| state.post(self.platform, scope));
        let targets: CpuMask = others.iter().filter(post).collect();
        self.count(|counters| {
            counters.nr_tlb_remote_flush.add(1);
            counters.interrupts.add(u64::from(targets.count()));
            counters.coalesced.add(u64::from(others.count() - targets.count()));
        });
        self.trace(FlushReason::RemoteSend, None);
        if !targets.is_empty() {
            self.shootdown.interrupt(self.cpu, &targets);
        }
    }

    /// Waits until `cpu` has served what it was asked by now, or need not any more.
    fn wait_for(&self, cpu: CpuId, is_exempt: impl Fn() -> bool) {
        let Some(state) = self.tlb.cpu(cpu) else { return };
        let number = state.posted();
        let mut spins = 0;
        while !state.has_served(self.platform, number) && !is_exempt() {
            self.platform.wait(Wait::Flush, spins);
            spins = spins.saturating_add(1);
        }
    }

    /// Makes this CPU forget.
    fn flush_here(&self, scope: Scope, reason: FlushReason) {
        let epoch = self.tlb.epoch.read();
        self.shootdown.invalidate(self.cpu, scope);
        let Some(cpu) = self.tlb.cpu(self.cpu) else { return };
        if scope == Scope::Everything {
            cpu.set_flushed_epoch(epoch);
        }
        cpu.counters.count(scope, reason);
        let pages = if let Scope::Pages { pages, .. } = scope { Some(pages) } else { None };
        self.trace(reason, pages);
    }

    pub(super) fn count(&self, count: impl FnOnce(&TlbCounters)) {
        if let Some(cpu) = self.tlb.cpu(self.cpu) {
            count(&cpu.counters);
        }
    }

    fn trace(&self, reason: FlushReason, pages: Option<u32>) {
        if P::TRACING {
            self.platform.trace(self.cpu, &Event::TlbFlush { reason, pages });
        }
    }
}
