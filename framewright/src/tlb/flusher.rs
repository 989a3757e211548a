//! The TLB flushes of one CPU: its own, pending ones, and requests of other CPUs.

use super::{CpuMask, DeferredFlush, Scope, Shootdown, Tlb};
use crate::{
    core::MemoryCore,
    observe::TlbCounters,
    platform::{Platform, Wait},
    sync::Ordering,
    tuning::FlushBatching,
    types::{CpuId, Event, FlushReason},
};

/// The TLB flushes of one CPU, made by [`Memory::flusher`](crate::Memory::flusher). A copy costs no
/// more than a copy of references.
///
/// A flush may wait for other CPUs. So the caller runs on the CPU of the flusher, with interrupts
/// enabled, and holds no lock that an interrupt handler takes.
pub struct Flusher<'f, 'm, P: Platform> {
    pub(super) tlb: &'f Tlb<'m, P>,
    pub(super) platform: &'f P,
    pub(super) shootdown: &'f dyn Shootdown,
    pub(super) cpu: CpuId,
    pub(super) memory: &'f MemoryCore<'m, P>,
}

impl<P: Platform> Clone for Flusher<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Flusher<'_, '_, P> {}

/// Masks interrupts on this CPU until the value is dropped, also if the embedder panics.
struct Masked<'p, P: Platform> {
    platform: &'p P,
    irq: Option<P::Irq>,
}

impl<'p, P: Platform> Masked<'p, P> {
    fn new(platform: &'p P) -> Self {
        Self { platform, irq: Some(platform.irq_save()) }
    }
}

impl<P: Platform> Drop for Masked<'_, P> {
    fn drop(&mut self) {
        if let Some(irq) = self.irq.take() {
            self.platform.irq_restore(irq);
        }
    }
}

impl<'f, 'm, P: Platform> Flusher<'f, 'm, P> {
    pub(crate) fn new(
        memory: &'f MemoryCore<'m, P>,
        tlb: &'f Tlb<'m, P>,
        shootdown: &'f dyn Shootdown,
        cpu: CpuId,
    ) -> Self {
        Self { tlb, platform: memory.platform(), shootdown, cpu, memory }
    }

    /// The CPU of this flusher.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// The TLB state that all CPUs share.
    #[must_use]
    pub fn tlb(&self) -> &'f Tlb<'m, P> {
        self.tlb
    }

    /// The capacity of a batch with `slots` slots, in frames.
    pub(crate) fn batch_capacity(&self, slots: usize) -> usize {
        slots.min(self.tlb.batch as usize)
    }

    /// Invalidates `scope` on `cpus`, except lazy ones, and returns when that is done. For the
    /// embedder's own changes to page tables. Before page tables themselves are freed, use
    /// [`Flusher::flush_tables`], because lazy CPUs may still walk them speculatively.
    pub fn flush(&self, cpus: &CpuMask, scope: Scope) {
        self.shoot_down(cpus, scope);
    }

    /// Flushes everything on `cpus`, including lazy ones. To be called before page tables are
    /// freed.
    pub fn flush_tables(&self, cpus: &CpuMask) {
        self.tlb.epoch.advance();
        let others = self.flush_on(cpus, Scope::Everything);
        others.iter().for_each(|cpu| self.wait_for(cpu, || false));
    }

    /// Performs the pending flush of an address space or a file. After the call, no CPU has stale
    /// entries of it. Returns whether a flush was necessary.
    pub fn flush_deferred(&self, deferred: &DeferredFlush) -> bool {
        if !deferred.is_pending() {
            return false;
        }
        let (epoch, cpus) = deferred.pending();
        if !deferred.belongs_to(self.memory.tag()) {
            // The epoch is one of another memory, so it cannot be compared.
            return self.shoot_down(&cpus, Scope::Everything);
        }
        let flushed = self.flush_since(&cpus, epoch);
        deferred.set_flushed(epoch);
        flushed
    }

    /// Flushes everything on this CPU.
    pub fn flush_local(&self) {
        self.flush_here(Scope::Everything, FlushReason::Local);
    }

    /// Flushes everything on this CPU if at least a quarter of [`Tlb::deferred_max`] frames are
    /// deferred and some of these may wait for this CPU. Returns whether it flushed. The embedder
    /// should call this when the CPU is in the kernel anyway, in a page fault or a timer tick. Then
    /// even CPUs that are never idle need not be interrupted for deferred frames. Costs a few loads
    /// if there is nothing to do. Does nothing on machines on which a CPU cannot flush its own TLB
    /// without interrupting others ([`Shootdown::has_local_flush`]).
    pub fn tick(&self) -> bool {
        let Tlb { published, tuning, .. } = self.tlb;
        if tuning.batching != FlushBatching::Lazy
            || self.tlb.deferred() * 4 < self.tlb.deferred_max()
            || !self.shootdown.has_local_flush()
        {
            return false;
        }
        // Deferred frames are in groups by age. If this CPU has flushed since the middle group was
        // deferred, at most the younger half waits for it. Otherwise one flush serves at least that
        // half.
        let middle = published.middle.load(Ordering::Relaxed);
        let not_flushed = self.tlb.cpu(self.cpu).is_some_and(|cpu| !cpu.has_flushed(middle));
        if not_flushed {
            self.flush_local();
        }
        not_flushed
    }

    /// Runs `flush` and records that this CPU has flushed everything, so that no CPU has to
    /// interrupt it for entries removed before the call. `flush` loads another address space, or
    /// compares generations and flushes if necessary. The caller must mask interrupts if a handler
    /// could use an entry that was removed before the call.
    ///
    /// # Safety
    ///
    /// After `flush`, the CPU of this flusher has no translation that was removed before the call. The library relies
    /// on this when it frees frames.
    #[allow(unsafe_code)]
    pub unsafe fn record_full_flush<R>(&self, flush: impl FnOnce() -> R) -> R {
        let epoch = self.tlb.epoch.read();
        let result = flush();
        if let Some(cpu) = self.tlb.cpu(self.cpu) {
            cpu.set_flushed_epoch(epoch);
        }
        result
    }

    /// Serves the requests of other CPUs to this one. To be called in the handler of the interrupt
    /// that [`Shootdown::interrupt`] sends. Does nothing if the request was served already, or if a
    /// call for the same CPU is in progress, which then serves it.
    pub fn serve(&self) {
        let Some(cpu) = self.tlb.cpu(self.cpu) else { return };
        // An interrupt during this call would leave its request to this call. If the kernel then
        // ran another thread on the return from the interrupt, the sender would wait for this
        // thread.
        let _masked = Masked::new(self.platform);
        cpu.serve(self.platform, |scope| self.flush_here(scope, FlushReason::RemoteShootdown));
    }

    /// Flushes everything on those of `cpus` that have not done so since `epoch`, except lazy ones.
    /// Returns whether any CPU had to flush.
    pub(super) fn flush_since(&self, cpus: &CpuMask, epoch: u64) -> bool {
        let not_flushed = self.tlb.not_flushed(cpus, epoch);
        !not_flushed.is_empty() && self.shoot_down(&not_flushed, Scope::Everything)
    }

    /// Invalidates `scope` on `cpus`, except lazy ones. Returns whether any CPU was not lazy.
    pub(super) fn shoot_down(&self, cpus: &CpuMask, scope: Scope) -> bool {
        self.tlb.epoch.advance();
        let not_lazy = self.tlb.not_lazy(self.shootdown, cpus);
        self.count(|counters| {
            counters.lazy_skipped.add(u64::from(cpus.count() - not_lazy.count()));
        });
        let others = self.flush_on(&not_lazy, scope);
        for cpu in others.iter() {
            self.wait_for(cpu, || self.shootdown.is_lazy(cpu));
        }
        !not_lazy.is_empty()
    }

    /// Sends requests to `cpus`, and flushes this CPU if it is among them. Returns the other CPUs.
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

    /// Posts requests to other CPUs, and interrupts these CPUs, except where another sender is
    /// about to do so.
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

    /// Waits until `cpu` has served the latest request to it, or until `is_exempt` returns `true`.
    fn wait_for(&self, cpu: CpuId, is_exempt: impl Fn() -> bool) {
        let Some(state) = self.tlb.cpu(cpu) else { return };
        let number = state.posted();
        let mut spins = 0;
        while !state.has_served(self.platform, number) && !is_exempt() {
            self.platform.wait(Wait::Flush, spins);
            spins = spins.saturating_add(1);
        }
    }

    /// Invalidates `scope` on this CPU, and records a full flush.
    fn flush_here(&self, scope: Scope, reason: FlushReason) {
        let epoch = self.tlb.epoch.read();
        self.shootdown.invalidate(self.cpu, scope);
        let Some(cpu) = self.tlb.cpu(self.cpu) else { return };
        if scope == Scope::Everything {
            cpu.set_flushed_epoch(epoch);
        }
        let pages = if let Scope::Pages { pages, .. } = scope { Some(pages) } else { None };
        cpu.counters.count(pages, reason);
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
