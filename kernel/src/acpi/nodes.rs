//! The nodes of CPUs and memory (SRAT), and the distances of nodes (SLIT).

use framewright::NodeId;

use super::{HEADER, Tables, long, structures, word};
use crate::boot::Region;

/// Bytes before the structures of the SRAT.
const SKIP: usize = HEADER + 12;
const CPU: u8 = 0;
const MEMORY: u8 = 1;
const CPU_X2APIC: u8 = 2;
const ENABLED: u32 = 1;
/// The greatest number of nodes.
const MOST: usize = 16;
/// The distances if the firmware has no SLIT.
const LOCAL: u8 = 10;
const REMOTE: u8 = 20;

/// Nodes, numbered in the order of their first entries.
pub(crate) struct Topology {
    srat: &'static [u8],
    slit: &'static [u8],
    /// The firmware's numbers of the nodes.
    domains: [u32; MOST],
    count: usize,
}

impl Topology {
    /// The nodes of a machine; at least one.
    pub(crate) fn new(tables: Tables) -> Self {
        let mut nodes = Self {
            srat: tables.find(b"SRAT").unwrap_or_default(),
            slit: tables.find(b"SLIT").unwrap_or_default(),
            domains: [0; MOST],
            count: 0,
        };
        for (_, domain) in nodes.memory().filter(|(region, _)| region.bytes() > 0) {
            nodes.note(domain);
        }
        nodes.count = nodes.count.max(1);
        nodes
    }

    fn note(&mut self, domain: u32) {
        let known = &self.domains[..self.count];
        if !known.contains(&domain) && self.count < MOST {
            self.domains[self.count] = domain;
            self.count += 1;
        }
    }

    /// The number of nodes.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The node of the memory at an address, and the end of the range for which this answer holds.
    pub(crate) fn of_memory(&self, address: u64) -> (NodeId, u64) {
        let holds = |region: &Region| (region.start..region.end).contains(&address);
        match self.memory().find(|(region, _)| holds(region)) {
            Some((region, domain)) => (self.number(domain), region.end),
            None => {
                let next = self.memory().map(|(region, _)| region.start);
                (NodeId::default(), next.filter(|&start| start > address).min().unwrap_or(u64::MAX))
            }
        }
    }

    /// The node of a CPU.
    pub(crate) fn of_cpu(&self, apic: u32) -> NodeId {
        let mut cpus = structures(self.srat, SKIP).filter_map(|(kind, cpu)| match kind {
            CPU if word(cpu, 4) & ENABLED != 0 => {
                let high = word(cpu, 8) & !0xff;
                Some((u32::from(cpu[3]), high | u32::from(cpu[2])))
            }
            CPU_X2APIC if word(cpu, 12) & ENABLED != 0 => Some((word(cpu, 8), word(cpu, 4))),
            _ => None,
        });
        cpus.find(|&(other, _)| other == apic).map_or(NodeId::default(), |(_, of)| self.number(of))
    }

    /// The distance of two nodes; 10 is the node itself.
    pub(crate) fn distance(&self, from: usize, to: usize) -> u8 {
        let (from_domain, to_domain) = (self.domains[from] as usize, self.domains[to] as usize);
        let localities = long(self.slit, HEADER) as usize;
        let at = HEADER + 8 + from_domain * localities + to_domain;
        let known = self.slit.get(at).filter(|_| from_domain.max(to_domain) < localities);
        known.copied().unwrap_or(if from == to { LOCAL } else { REMOTE })
    }

    fn memory(&self) -> impl Iterator<Item = (Region, u32)> + use<> {
        structures(self.srat, SKIP).filter_map(|(kind, memory)| {
            let enabled = word(memory, 28) & ENABLED != 0;
            let start = long(memory, 8);
            let region = Region { start, end: start + long(memory, 16) };
            (kind == MEMORY && enabled).then(|| (region, word(memory, 2)))
        })
    }

    fn number(&self, domain: u32) -> NodeId {
        let at = self.domains[..self.count].iter().position(|&other| other == domain);
        NodeId::new(at.unwrap_or(0) as u8).unwrap_or_default()
    }
}
