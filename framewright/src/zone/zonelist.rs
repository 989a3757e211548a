//! Zonelists: the order in which requests of a node try the zones.
//!
//! The local node comes first, then the other nodes by distance. Within a node the highest zone
//! comes first. Among equally distant nodes, a node that comes first in earlier lists is tried
//! later, so that no node becomes the second choice of every other.

use crate::types::{NodeId, ZoneId, ZoneKind, set::bits};

/// Distances between nodes, row by row, as firmware reports them. If the table is empty, all remote
/// nodes are equally far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distances<'c> {
    pub(crate) table: &'c [u8],
    pub(crate) nodes: usize,
}

impl Distances<'_> {
    const LOCAL: u8 = 10;
    const REMOTE: u8 = 20;

    fn between(&self, from: usize, to: usize) -> u64 {
        let default = if from == to { Self::LOCAL } else { Self::REMOTE };
        u64::from(self.table.get(from * self.nodes + to).copied().unwrap_or(default))
    }
}

/// The inputs of the order of nodes.
pub(crate) struct NodeFacts<'c> {
    pub(crate) distances: Distances<'c>,
    /// Nodes with zones.
    pub(crate) has_memory: u64,
    /// Nodes with CPUs. Such a node counts as farther by 1, so that memory near CPUs is left to
    /// these CPUs.
    pub(crate) has_cpus: u64,
    /// The number of times that a node was the first choice of another node at its distance.
    load: [u64; NodeId::LIMIT],
}

impl<'c> NodeFacts<'c> {
    pub(crate) fn new(distances: Distances<'c>, has_memory: u64, has_cpus: u64) -> Self {
        Self { distances, has_memory, has_cpus, load: [0; NodeId::LIMIT] }
    }

    /// The nodes with memory, in the order in which requests from node `from` try them. Must be
    /// called for one node after the other, ascending: later results depend on earlier ones.
    pub(crate) fn order(&mut self, from: usize) -> impl Iterator<Item = usize> + use<> {
        let mut order = [0u8; NodeId::LIMIT];
        let mut count = 0;
        let mut left = self.has_memory;
        let mut distance = self.distances.between(from, from);
        while left != 0 {
            let next = self.nearest(from, left);
            left &= !(1 << next);
            let here = self.distances.between(from, next);
            if here != distance {
                // The first of a group of equally distant nodes gets the load.
                self.load[next] += 1;
                distance = here;
            }
            order[count] = next as u8;
            count += 1;
        }
        order.into_iter().take(count).map(usize::from)
    }

    /// The node, of those in the mask `left`, that requests from node `from` try next.
    fn nearest(&self, from: usize, left: u64) -> usize {
        if left >> from & 1 == 1 {
            return from;
        }
        let score = |node: usize| {
            let wraps = u64::from(node < from);
            let busy = self.has_cpus >> node & 1;
            let near = self.distances.between(from, node) + wraps + busy;
            near * NodeId::LIMIT as u64 + self.load[node]
        };
        bits(left).map(|node| node as usize).min_by_key(|&node| score(node)).unwrap_or(from)
    }
}

/// The zonelists of all nodes: a row of zones per node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zonelists<'m> {
    rows: &'m [ZoneId],
    zones: usize,
}

impl<'m> Zonelists<'m> {
    /// Entries needed for `nodes` nodes and `zones` zones.
    pub(crate) const fn entries(nodes: usize, zones: usize) -> usize {
        nodes * zones
    }

    /// Fills the rows. `zones` returns the node and kind of each zone; zones are numbered in
    /// ascending order.
    pub(crate) fn build(
        rows: &'m mut [ZoneId],
        mut facts: NodeFacts<'_>,
        zones: impl Fn(ZoneId) -> (NodeId, ZoneKind),
        count: usize,
    ) -> Self {
        for (node, row) in rows.chunks_exact_mut(count.max(1)).enumerate() {
            let mut slots = row.iter_mut();
            for from in facts.order(node) {
                let of_node = (0..count).rev().map(ZoneId::new);
                for zone in of_node.filter(|&zone| zones(zone).0.index() == from) {
                    if let Some(slot) = slots.next() {
                        *slot = zone;
                    }
                }
            }
        }
        Self { rows, zones: count }
    }

    /// Whether the memory has this node.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        node.index() * self.zones < self.rows.len()
    }

    /// The zones in the order in which requests from `node` try them.
    #[inline]
    pub(crate) fn of(&self, node: NodeId) -> &'m [ZoneId] {
        let start = node.index() * self.zones;
        self.rows.get(start..start + self.zones).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    fn orders(table: &[u8], nodes: usize, has_memory: u64, has_cpus: u64) -> Vec<Vec<usize>> {
        let mut facts = NodeFacts::new(Distances { table, nodes }, has_memory, has_cpus);
        (0..nodes).map(|node| facts.order(node).collect()).collect()
    }

    #[test]
    fn the_own_node_comes_first_and_distance_decides() {
        let ring = [10, 20, 30, 20, 20, 10, 20, 30, 30, 20, 10, 20, 20, 30, 20, 10];
        for (node, order) in orders(&ring, 4, 0b1111, 0b1111).into_iter().enumerate() {
            assert_eq!(order[0], node);
            assert_eq!(order[3], (node + 2) % 4, "the opposite node is not last");
        }
    }

    #[test]
    fn equally_distant_nodes_are_rotated() {
        let second: Vec<_> = orders(&[], 4, 0b1111, 0b1111).iter().map(|order| order[1]).collect();
        // No node is the second choice of all others.
        for node in 0..4 {
            assert!(second.iter().filter(|&&at| at == node).count() <= 2, "{second:?}");
        }
    }

    #[test]
    fn nodes_without_memory_are_in_no_list_and_have_one() {
        let orders = orders(&[], 3, 0b101, 0b111);
        assert_eq!(orders[1].len(), 2);
        assert!(orders.iter().all(|order| !order.contains(&1)));
    }

    #[test]
    fn nodes_without_cpus_are_preferred_among_equals() {
        assert_eq!(orders(&[], 3, 0b111, 0b011)[0], [0, 2, 1]);
    }

    #[test]
    fn a_list_has_the_highest_zone_of_each_node_first() {
        let zones = [
            (0, ZoneKind::Dma),
            (0, ZoneKind::Normal),
            (1, ZoneKind::Normal),
            (1, ZoneKind::Movable),
        ];
        let zone = |id: ZoneId| {
            let (node, kind) = zones[id.index()];
            (NodeId::new(node).unwrap(), kind)
        };
        let mut rows = vec![ZoneId::default(); Zonelists::entries(2, 4)];
        let facts = NodeFacts::new(Distances { table: &[], nodes: 2 }, 0b11, 0b11);
        let lists = Zonelists::build(&mut rows, facts, zone, 4);
        let list = |node| -> Vec<_> {
            lists.of(NodeId::new(node).unwrap()).iter().map(|zone| zone.index()).collect()
        };
        assert_eq!(list(0), [1, 0, 3, 2]);
        assert_eq!(list(1), [3, 2, 1, 0]);
    }
}
