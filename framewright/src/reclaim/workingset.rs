//! Workingset detection: the time since the eviction of a page that is read again.
//!
//! An eviction leaves a [`Shadow`] in place of the page. It contains the value of the node's clock,
//! which counts evictions and activations. When the page is read again, the advance of the clock is
//! the *refault distance*: with so many more pages on the inactive list, the page would not have
//! been evicted. If at least as many pages compete with it ([`workingset_size`], mostly the active
//! pages), it would have been better to evict some of those. So the page is activated at once.

use crate::{
    observe::NodeStat,
    platform::Platform,
    types::{NodeId, Pfn},
};

use super::{Lru, PageKind, node::Node};

/// The record of an evicted page. The embedder stores it in place of the page, and passes it back
/// when the page is read again. Every value is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(transparent)]
pub struct Shadow(u64);

/// Bits of a shadow below the clock: node and workingset.
const TAG_BITS: u32 = 7;

impl Shadow {
    pub(super) fn new(node: NodeId, clock: u64, workingset: bool) -> Self {
        Self(clock << TAG_BITS | u64::from(node.get()) << 1 | u64::from(workingset))
    }

    /// The value as a number, to be stored.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Makes a shadow from a number. With a number that is not from [`Shadow::into_raw`], the page may
    /// be added to the wrong list, which is harmless.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn node(self) -> NodeId {
        NodeId::new((self.0 >> 1) as u8 & 63).unwrap_or_default()
    }

    fn was_workingset(self) -> bool {
        self.0 & 1 != 0
    }

    /// The advance of the clock since the eviction, modulo the bits of the clock in a shadow.
    fn distance(self, now: u64) -> u64 {
        (now << TAG_BITS).wrapping_sub(self.0 >> TAG_BITS << TAG_BITS) >> TAG_BITS
    }
}

/// The treatment of a page that is read again after its eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refault {
    /// The page becomes active at once, because it should have been kept.
    pub activate: bool,
    /// The page was active before its eviction.
    pub restored: bool,
}

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
