//! Shrinking an active list: old pages become inactive.
//!
//! A page becomes inactive even if it was used since the last scan; otherwise all pages could stay
//! active. Only executable pages of files stay active if they were used. A page that becomes
//! inactive can be used again while it moves through the whole inactive list.

use crate::{
    observe::NodeStat,
    platform::{Cost, Platform},
    types::{LruList, PageKind, set::bits},
};

use super::{Reclaim, Reference, flags::Flags, retire::Retire, scan::ScanControl};

impl<P: Platform> Reclaim<'_, '_, P> {
    /// Makes up to `want` pages of an active list inactive. Returns the number of pages scanned.
    pub(super) fn age(
        &self,
        scan: &ScanControl,
        list: LruList,
        want: u64,
        retire: &mut Retire<'_, '_, '_, '_, P>,
    ) -> u64 {
        let cluster = self.isolate(scan, list, want);
        if cluster.len() == 0 {
            return 0;
        }
        let node = self.state.node(scan.node);
        self.memory.platform().cost(Cost::ReclaimPages, cluster.len() as u32);
        let group = cluster.gather(cluster.all());
        let mut code = 0;
        for (at, reference) in group.ask(|frames, out| self.owner.referenced(frames, out)) {
            let reference: Reference = reference;
            let is_code = reference.executable && list.kind() == PageKind::File;
            code |= u64::from(reference.young > 0 && is_code) << at;
        }
        let mut deactivated = 0;
        for at in bits(cluster.all() & !code) {
            let flags = self.state.page_at(cluster.slot(at)).flags;
            if flags.deactivate() {
                flags.set(Flags::WORKINGSET);
                deactivated += 1;
            }
        }
        let abandoned = self.put_back(scan, &cluster, cluster.all(), 0);
        if abandoned != 0 {
            retire.free(cluster.gather(abandoned).frames());
        }
        node.count(NodeStat::Pgrefill, cluster.len() as u64);
        node.count(NodeStat::Pgdeactivate, deactivated);
        self.trace_aged(scan, list, cluster.len() as u64, deactivated, code);
        cluster.len() as u64
    }
}
