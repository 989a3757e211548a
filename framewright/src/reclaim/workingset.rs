//! Workingset detection: the time since the eviction of a page that is read again.
//!
//! An eviction leaves a [`Shadow`] in place of the page. It contains the value of the node's clock,
//! which counts evictions and activations. When the page is read again, the advance of the clock is
//! the *refault distance*: with so many more pages on the inactive list, the page would not have
//! been evicted. If at least as many pages compete with it ([`workingset_size`], mostly the active
//! pages), it would have been better to evict some of those. So the page is activated at once.

use crate::{observe::NodeStat, platform::Platform, types::Pfn};

use super::{Lru, PageKind, Refault, Shadow, node::Node};

impl<P: Platform> Lru<'_, '_, P> {
    /// Adds a formerly evicted page on CPU `cpu`. Its `shadow` decides the list. Otherwise as
    /// [`Lru::add`].
    pub fn add_refaulted(
        &self,
        cpu: crate::CpuId,
        pfn: Pfn,
        kind: PageKind,
        shadow: Shadow,
    ) -> bool {
        let refault = self.refault(shadow, kind);
        self.add_as(cpu, pfn, kind, refault)
    }

    /// Decides about a page of `kind` that is read again, and counts the refault.
    pub fn refault(&self, shadow: Shadow, kind: PageKind) -> Refault {
        let Some(node) = self.state.nodes.get(shadow.node().index()) else {
            return Refault::default();
        };
        let [refaulted, activated, restored] = counters(kind);
        node.count(refaulted, 1);
        let distance = shadow.distance(node.clock());
        if distance > workingset_size(node, kind, self.state.can_swap()) {
            return Refault::default();
        }
        node.advance_clock(1);
        node.count_workingset_activation(kind);
        node.count(activated, 1);
        if shadow.was_workingset() {
            node.charge_refault(kind);
            node.count(restored, 1);
        }
        Refault { activate: true, restored: shadow.was_workingset() }
    }
}

/// The number of pages that a page of `kind` competes with when it is active.
fn workingset_size<P: Platform>(node: &Node<'_, P>, kind: PageKind, can_swap: bool) -> u64 {
    let file = node.pages(PageKind::File.active());
    let anon = node.pages(PageKind::Anon.active());
    match kind {
        PageKind::File if can_swap => file + anon + node.pages(PageKind::Anon.inactive()),
        PageKind::File => file,
        PageKind::Anon if can_swap => file + node.pages(PageKind::File.inactive()) + anon,
        PageKind::Anon => file + node.pages(PageKind::File.inactive()),
    }
}

fn counters(kind: PageKind) -> [NodeStat; 3] {
    use NodeStat as Stat;
    match kind {
        PageKind::Anon => {
            [Stat::WorkingsetRefaultAnon, Stat::WorkingsetActivateAnon, Stat::WorkingsetRestoreAnon]
        }
        PageKind::File => {
            [Stat::WorkingsetRefaultFile, Stat::WorkingsetActivateFile, Stat::WorkingsetRestoreFile]
        }
    }
}
