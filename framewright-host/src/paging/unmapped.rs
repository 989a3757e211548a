//! Unmapped pages, and the flush that frees their memory.
//!
//! When reclaim unmaps a page, it removes the page from its file and adds it to the list of the
//! current CPU. The page still has its memory; a guard that needs the page *rescues* it, so that it
//! stays in memory. A flush of that CPU, as the library requests it, is a system call that frees
//! the memory of all pages on the list. So for the library, only that CPU *may have cached* the
//! page. A *full* flush frees the pages on the lists of all CPUs with one call, because the kernel
//! flushes every processor anyway.

use std::{
    ops::Range,
    sync::{Mutex, MutexGuard},
};

use framewright::{
    CpuId, Memory,
    platform::Wait,
    tlb::{CpuMask, Flusher, Scope, Shootdown},
};
use rustix::time::{ClockId, clock_gettime};

use super::{
    cache::{PageCache, PageId, locked},
    stats::count,
};
use crate::{HostMachine, wait::wait};

/// The pages that a CPU has unmapped.
#[derive(Default)]
pub(super) struct List {
    pages: Mutex<Vec<PageId>>,
    /// Locked while the memory of pages from this list is freed. So for a thread with this lock,
    /// the pages that are no longer on the list have been freed or rescued.
    calling: Mutex<()>,
    /// Locked while another CPU flushes this list, so that only one CPU at a time serves the flush
    /// requests to the CPU of this list.
    serving: Mutex<()>,
}

impl PageCache {
    /// Adds an unmapped page to the list of a CPU.
    pub(super) fn list_unmapped(&self, cpu: CpuId, id: PageId) {
        locked(&self.list(cpu).pages).push(id);
    }

    /// Frees the memory of the pages on these lists. The lists must be in the order of their CPUs.
    /// On return, the memory of all their pages is freed or in use again.
    fn flush(&self, lists: &[List]) {
        let _calling: Vec<MutexGuard<'_, ()>> =
            lists.iter().map(|list| locked(&list.calling)).collect();
        let mut pages = Vec::new();
        for list in lists {
            pages.append(&mut locked(&list.pages));
        }
        if pages.is_empty() {
            return;
        }
        // Sorted, neighbours form one range.
        pages.sort_unstable();
        let elsewhere = pages.extract_if(.., |id| !self.page(*id).state.begin_eviction());
        let elsewhere: Vec<PageId> = elsewhere.collect();
        self.evict(&pages);
        for id in elsewhere {
            // The page was rescued, or another thread is evicting it from another list.
            let mut spins = 0;
            while self.page(id).state.is_evicting() {
                wait(Wait::Flush, spins);
                spins += 1;
            }
        }
    }

    /// Frees the memory of pages that are being evicted, or were never visible to other threads.
    #[allow(unsafe_code)]
    fn evict(&self, pages: &[PageId]) {
        if pages.is_empty() {
            return;
        }
        let (ranges, counters) = (self.ranges(pages), &self.counters);
        let began = processor_time();
        // SAFETY: the contents of these pages are stored, or not needed. Other threads do not use
        // these pages until their eviction has ended.
        let calls = unsafe { self.kernel.evict(&ranges) };
        count(&counters.call_nanos, processor_time().saturating_sub(began));
        count(&counters.flushes, 1);
        match calls {
            Ok(calls) => {
                count(&counters.calls, calls);
                count(&counters.evicted, pages.len() as u64);
            }
            // The kernel did not free this memory, but its pages count as absent from now on.
            Err(_) => count(&counters.refused, pages.len() as u64),
        }
        for &id in pages {
            self.page(id).state.end_eviction();
        }
    }

    /// Ends the claim on a page, and frees its memory, if it has some.
    pub(super) fn abandon_claim(&self, id: PageId) {
        self.evict(&[id]);
    }

    /// The address ranges of sorted pages. Neighbours are joined.
    fn ranges(&self, pages: &[PageId]) -> Vec<Range<usize>> {
        let next_to =
            |one: &PageId, other: &PageId| one.file == other.file && one.page + 1 == other.page;
        let runs = pages.chunk_by(next_to);
        runs.map(|run| self.addresses(run[0].file, run[0].page..run[run.len() - 1].page + 1))
            .collect()
    }
}

/// The processor time of this thread, in nanoseconds.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The embedder's part of flushing.
pub(super) struct Shooter<'p, 'm> {
    pub(super) memory: &'p Memory<'m, HostMachine>,
    pub(super) cache: &'p PageCache,
}

impl<'m> Shooter<'_, 'm> {
    /// The flusher of a CPU, with this as its shootdown.
    #[allow(unsafe_code)]
    pub(super) fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'm, HostMachine> {
        // SAFETY: all pages that a CPU may have cached are on its list, and any thread can flush
        // that list.
        unsafe { self.memory.flusher(cpu, self) }
    }

    /// Flushes the lists of all CPUs with one call, and records a full flush of each of `cpus`.
    fn flush_all_lists(&self, cpus: &[u16]) {
        match cpus.split_first() {
            None => self.cache.flush(&self.cache.unmapped),
            Some((&cpu, rest)) => {
                let flusher = self.flusher(CpuId::new(cpu));
                // SAFETY: the innermost call flushes the lists of all CPUs.
                #[allow(unsafe_code)]
                unsafe {
                    flusher.record_full_flush(|| self.flush_all_lists(rest));
                }
            }
        }
    }
}

impl Shootdown for Shooter<'_, '_> {
    /// Stores need a guard, and a page with a guard cannot be unmapped.
    fn clean_stores_fault(&self) -> bool {
        true
    }

    /// The kernel interrupts every processor whenever it frees a page.
    fn has_local_flush(&self) -> bool {
        false
    }

    fn invalidate(&self, cpu: CpuId, scope: Scope) {
        let at = cpu.index();
        match scope {
            Scope::Pages { .. } => self.cache.flush(&self.cache.unmapped[at..=at]),
            Scope::Everything => {
                let others = (0..self.memory.cpu_count()).filter(|&other| other != cpu.get());
                self.flush_all_lists(&others.collect::<Vec<_>>());
            }
        }
    }

    /// Interrupts no thread. The kernel flushes all processors, so the caller can flush the lists
    /// of other CPUs itself.
    fn interrupt(&self, _from: CpuId, targets: &CpuMask) {
        for cpu in targets.iter() {
            let _serving = locked(&self.cache.list(cpu).serving);
            self.flusher(cpu).serve();
        }
    }
}
