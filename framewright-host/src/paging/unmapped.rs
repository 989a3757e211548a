//! Unmapped pages, and the flush that frees their memory.
//!
//! Reclaim unmaps a page: it removes the page from its file, and puts it on the list of its CPU.
//! From then on the page cannot be used, but the kernel still keeps its memory. The library's flush
//! of that CPU is a system call that frees the memory of the pages on its list. So the set of CPUs
//! that *may have cached* a page is that CPU, and all other rules are the library's. A *full* flush
//! serves the lists of all CPUs with one call, because the kernel flushes every processor in any
//! case.

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
    /// Held while the memory of the listed pages is freed: a thread that finds the list empty and
    /// takes this lock knows that they have been freed.
    calling: Mutex<()>,
    /// Held while another CPU flushes this one, so that one request is served at a time.
    serving: Mutex<()>,
}

impl PageCache {
    /// Puts an unmapped page on the list of a CPU.
    pub(super) fn list_unmapped(&self, cpu: CpuId, id: PageId) {
        locked(&self.list(cpu).pages).push(id);
    }

    /// Frees the memory of the pages on these lists, which are in the order of their numbers. On
    /// return all of it is freed.
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
        // Neighbours form one range.
        pages.sort_unstable();
        let elsewhere = pages.extract_if(.., |id| !self.page(*id).state.begin_eviction());
        let elsewhere: Vec<PageId> = elsewhere.collect();
        self.evict(&pages);
        for id in elsewhere {
            // The page was rescued, or it is also on another list that is being flushed.
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
        // SAFETY: their contents are stored, or not needed. Threads that want to use such a page
        // wait until its eviction has ended.
        let calls = unsafe { self.kernel.evict(&ranges) };
        count(&counters.call_nanos, processor_time().saturating_sub(began));
        count(&counters.flushes, 1);
        match calls {
            Ok(calls) => {
                count(&counters.calls, calls);
                count(&counters.evicted, pages.len() as u64);
            }
            // Their memory is not counted until they are read again.
            Err(_) => count(&counters.refused, pages.len() as u64),
        }
        for &id in pages {
            self.page(id).state.end_eviction();
        }
    }

    /// Ends the claim on a page that was not read. Its memory, if there is some, is not needed.
    pub(super) fn abandon_claim(&self, id: PageId) {
        self.evict(&[id]);
    }

    /// The addresses of sorted pages, with neighbours joined to ranges.
    fn ranges(&self, pages: &[PageId]) -> Vec<Range<usize>> {
        let next_to =
            |one: &PageId, other: &PageId| one.file == other.file && one.page + 1 == other.page;
        let runs = pages.chunk_by(next_to);
        runs.map(|run| self.addresses(run[0].file, run[0].page..run[run.len() - 1].page + 1))
            .collect()
    }
}

/// Nanoseconds that this thread has run.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The embedder's side of flushing.
pub(super) struct Shooter<'p, 'm> {
    pub(super) memory: &'p Memory<'m, HostMachine>,
    pub(super) cache: &'p PageCache,
}

impl<'m> Shooter<'_, 'm> {
    /// Shootdown and flusher of a CPU.
    #[allow(unsafe_code)]
    pub(super) fn flusher(&self, cpu: CpuId) -> Flusher<'_, 'm, HostMachine> {
        // SAFETY: all pages that a CPU may have cached are on its list, which this flushes on any
        // thread.
        unsafe { self.memory.flusher(cpu, self) }
    }

    /// Flushes the lists of all CPUs with one call, and records the flush of each.
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
    /// A store to a page holds a guard, and a page with a guard cannot be unmapped.
    fn clean_stores_fault(&self) -> bool {
        true
    }

    /// The kernel interrupts every processor for any page that it frees.
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

    /// No thread is interrupted, because the kernel flushes all processors: the caller flushes the
    /// lists of other CPUs itself.
    fn interrupt(&self, _from: CpuId, targets: &CpuMask) {
        for cpu in targets.iter() {
            let _serving = locked(&self.cache.list(cpu).serving);
            self.flusher(cpu).serve();
        }
    }
}
