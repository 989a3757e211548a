//! Trace events with Linux's names.

use crate::{
    platform::Platform,
    types::{CpuId, LruList, PageKind, VmscanEvent},
};

use super::{
    Reclaim,
    cluster::{Cluster, Pages},
    scan::{ReclaimStat, ScanControl},
};

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Traces an event, which is built only if the platform traces.
    pub(super) fn trace(&self, cpu: CpuId, event: impl FnOnce() -> VmscanEvent) {
        if P::TRACING {
            self.memory.platform().trace(cpu, &event().into());
        }
    }

    pub(super) fn trace_isolated(
        &self,
        scan: &ScanControl,
        lru: LruList,
        want: u64,
        got: &Cluster,
    ) {
        self.trace(scan.cpu, || VmscanEvent::LruIsolate {
            highest: scan.highest,
            order: scan.order,
            nr_requested: want,
            nr_scanned: got.len() as u64,
            nr_skipped: got.skipped.into(),
            nr_taken: got.len() as u64,
            lru,
        });
    }

    pub(super) fn trace_shrunk(&self, scan: &ScanControl, list: LruList, seen: &ReclaimStat) {
        self.trace(scan.cpu, || VmscanEvent::LruShrinkInactive {
            node: scan.node,
            kind: list.kind(),
            nr_scanned: seen.taken,
            nr_reclaimed: seen.reclaimed,
            nr_dirty: seen.dirty,
            nr_writeback: seen.writeback,
            nr_congested: seen.congested,
            nr_immediate: seen.immediate,
            nr_activate_anon: seen.activated[PageKind::Anon as usize],
            nr_activate_file: seen.activated[PageKind::File as usize],
            nr_ref_keep: seen.ref_keep,
            nr_unmap_fail: seen.unmap_fail,
            priority: scan.priority,
        });
    }

    pub(super) fn trace_aged(
        &self,
        scan: &ScanControl,
        list: LruList,
        taken: u64,
        deactivated: u64,
        code: Pages,
    ) {
        self.trace(scan.cpu, || VmscanEvent::LruShrinkActive {
            node: scan.node,
            kind: list.kind(),
            nr_taken: taken,
            nr_active: code.count_ones().into(),
            nr_deactivated: deactivated,
            priority: scan.priority,
        });
    }
}
