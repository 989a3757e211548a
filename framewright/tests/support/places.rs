//! The expected zonelist of a request, computed from the documented rules and independently of the
//! library.

use framewright::{NodeId, NodeMask, Request, ZoneKind};

use super::{setup::Parts, topology::count_nodes, zone::ZoneTruth};

/// The part of a request that restricts zones and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub highest: Option<ZoneKind>,
    pub node: Option<NodeId>,
    pub this_node: bool,
    pub nodes: Option<NodeMask>,
}

impl Placement {
    /// The request with this placement.
    pub fn of(self, mut request: Request) -> Request {
        if let Some(highest) = self.highest {
            request = request.zone(highest);
        }
        if let Some(node) = self.node {
            request = request.on_node(node);
        }
        if let Some(nodes) = self.nodes {
            request = request.nodes(nodes);
        }
        if self.this_node { request.this_node() } else { request }
    }
}

/// The zones in the order in which each node tries them.
pub struct Places {
    of_nodes: Vec<Vec<usize>>,
}

impl Places {
    pub fn new(zones: &[ZoneTruth], parts: &Parts) -> Self {
        let nodes = count_nodes(&parts.map, &parts.cpu_nodes);
        let has_memory = |node: usize| zones.iter().any(|zone| zone.node.index() == node);
        let has_cpus = |node: usize| parts.cpu_nodes.iter().any(|n| n.index() == node);
        let distance = |from: usize, to: usize| match parts.distances.get(from * nodes + to) {
            Some(distance) => u64::from(*distance),
            None if from == to => 10,
            None => 20,
        };
        let mut load = vec![0; nodes];
        let mut of_nodes = Vec::new();
        for from in 0..nodes {
            let mut order: Vec<usize> = Vec::new();
            let mut group = distance(from, from);
            loop {
                let score = |node: usize| {
                    let near = distance(from, node);
                    let nearness = near + u64::from(node < from) + u64::from(has_cpus(node));
                    (node != from, nearness * NodeId::LIMIT as u64 + load[node])
                };
                let left = (0..nodes).filter(|node| has_memory(*node) && !order.contains(node));
                let Some(next) = left.min_by_key(|&node| score(node)) else { break };
                if distance(from, next) != group {
                    load[next] += 1;
                    group = distance(from, next);
                }
                order.push(next);
            }
            of_nodes.push(order.into_iter().flat_map(|node| downwards(zones, node)).collect());
        }
        Self { of_nodes }
    }

    /// The zones that a request on a CPU of `near` may use, best first.
    pub fn eligible(
        &self,
        zones: &[ZoneTruth],
        near: NodeId,
        request: Request,
        of: Placement,
    ) -> Vec<usize> {
        let from = of.node.unwrap_or(near);
        let highest = of.highest.unwrap_or(request.highest());
        let may_use = |zone: &ZoneTruth| {
            zone.kind <= highest
                && zone.managed() > 0
                && (!of.this_node || zone.node == from)
                && of.nodes.is_none_or(|nodes| nodes.contains(zone.node))
        };
        // A request for a missing node uses the list of the CPU's node.
        let list = self.of_nodes.get(from.index()).or_else(|| self.of_nodes.get(near.index()));
        list.into_iter().flatten().copied().filter(|&zone| may_use(&zones[zone])).collect()
    }
}

/// The zones of a node, highest kind first.
fn downwards(zones: &[ZoneTruth], node: usize) -> impl Iterator<Item = usize> {
    (0..zones.len()).rev().filter(move |&zone| zones[zone].node.index() == node)
}
