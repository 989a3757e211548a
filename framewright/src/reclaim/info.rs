//! Information about the LRU lists: page counts, counters, and a consistency check.

use crate::{
    observe::NodeStats,
    platform::Platform,
    types::{LruList, NodeId, Pfn, Violation, ZoneId},
};

use super::{
    Lru, PageKind,
    flags::{Flags, Place},
    lists::Lists,
};

impl<'m, P: Platform> Lru<'_, 'm, P> {
    /// Number of pages on a list of a node, possibly out of date. Pages in batches are not counted.
    #[must_use]
    pub fn pages(&self, node: NodeId, list: LruList) -> u64 {
        self.state.nodes.get(node.index()).map_or(0, |node| node.pages(list))
    }

    /// Number of pages of a zone on a list, possibly out of date.
    #[must_use]
    pub fn zone_pages(&self, zone: ZoneId, list: LruList) -> u64 {
        self.state.zones.get(zone.index()).map_or(0, |zone| zone.pages(list))
    }

    /// Number of isolated pages of a node.
    #[must_use]
    pub fn isolated(&self, node: NodeId, kind: PageKind) -> u64 {
        self.state.nodes.get(node.index()).map_or(0, |node| node.isolated(kind))
    }

    /// Number of pages of a node that are to be reclaimed when their writeback ends, whether
    /// reclaim or the embedder started it. For diagnosis: reads the flags of every page of the
    /// node. Abandoned pages are not counted, even before the end of their writeback is reported.
    #[must_use]
    pub fn awaiting_writeback(&self, node: NodeId) -> u64 {
        let zones = self.state.zones.iter().filter(|zone| zone.node == node);
        let slots = zones.flat_map(|zone| zone.slots.clone());
        slots.filter(|&slot| self.state.flags_at(slot).has(Flags::RECLAIM)).count() as u64
    }

    /// The maximum number of pages of a zone that reclaim could still free: those on its lists,
    /// without anonymous pages if these cannot be swapped out. May be returned by
    /// [`Relief::reclaimable`](crate::platform::Relief::reclaimable) if no frames are deferred; see
    /// [`Reclaim::reclaimable`](super::Reclaim::reclaimable).
    #[must_use]
    pub fn reclaimable(&self, zone: ZoneId) -> u64 {
        let swap = self.state.can_swap();
        let counts = |list: &&LruList| swap || list.kind() == PageKind::File;
        let lists = LruList::EVICTABLE.iter().filter(counts);
        lists.map(|&list| self.zone_pages(zone, list)).sum()
    }

    /// Counters of a node; all 0 if the memory does not have it.
    #[must_use]
    pub fn node_stats(&self, node: NodeId) -> NodeStats {
        self.state.nodes.get(node.index()).map_or(NodeStats::default(), |node| node.stats())
    }

    /// Counters summed over the nodes.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        let mut sum = NodeStats::default();
        self.state.nodes.iter().for_each(|node| sum += node.stats());
        sum
    }

    /// The list that a page is on, for diagnosis and tests; `None` if it is on no list.
    #[must_use]
    pub fn list_of(&self, pfn: Pfn) -> Option<LruList> {
        let page = self.state.page(self.memory, pfn)?;
        (page.flags.place() == Place::Listed).then(|| page.flags.list())
    }

    /// Checks the invariants that hold while no operation is in progress: no page is isolated, and
    /// lists, flags and counts agree. Walks every list.
    ///
    /// # Errors
    ///
    /// The first violation that was found.
    pub fn check(&self) -> Result<(), Violation> {
        for (number, node) in self.state.nodes.iter().enumerate() {
            if PageKind::ALL.iter().any(|&kind| node.isolated(kind) != 0) {
                return Err(violation("pages of a node are still isolated", number as u64));
            }
            node.with_lists(self.platform(), |held| self.check_lists(number, held.lists()))?;
        }
        let isolated = |flags: &Flags| flags.place() == Place::Isolated;
        match self.state.flags.iter().position(isolated) {
            Some(slot) => {
                let at = self.state.pfn_of(slot as u32).get();
                Err(violation("a page is still isolated", at))
            }
            None => Ok(()),
        }
    }

    fn check_lists(&self, node: usize, lists: &Lists<'m>) -> Result<(), Violation> {
        for list in LruList::ALL {
            let mut count = 0;
            for slot in lists.walk(list) {
                let page = self.state.page_at(slot);
                let at = page.pfn().get();
                if page.zone.node.index() != node {
                    return Err(violation("a page is on the list of another node", at));
                }
                if page.flags.place() != Place::Listed || page.flags.list() != list {
                    return Err(violation(
                        "the flags of a page name another list than the one it is on",
                        at,
                    ));
                }
                count += 1;
            }
            let zones = self.state.zones.iter().filter(|zone| zone.node.index() == node);
            if count != lists.length(list)
                || count != zones.map(|z| z.pages(list)).sum::<u64>() as u32
            {
                return Err(violation(
                    "an LRU list has another number of pages than is recorded",
                    node as u64,
                ));
            }
        }
        Ok(())
    }
}

fn violation(what: &'static str, at: u64) -> Violation {
    Violation { what, at }
}
