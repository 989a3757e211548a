//! The engine's numbers for the library's cache lines and exclusive sections.

use crate::engine::{Family, Line, LockClass, Machine, SectionId};
use framewright::{
    CpuId, NodeId, ZoneId,
    platform::{self, Section},
};

/// Sets the nodes whose memory holds the library's metadata: that of a zone is on its node, the
/// bundle store of a CPU on the CPU's node.
pub(super) fn set_home_nodes(machine: &Machine) {
    let nodes = &machine.model().nodes;
    let of_zones = [
        Family::ZONE_WORDS,
        Family::ZONE_INDEX,
        Family::MAPS,
        Family::HEADS,
        Family::HEADERS,
        Family::GIGABLOCKS,
        Family::DEPOTS,
    ];
    let last = nodes.iter().copied().max().unwrap_or_default();
    for zone in 0..=last {
        for family in of_zones.into_iter().chain([Family::LRU_NODES, Family::LRU_LINKS]) {
            machine.set_home_node(family, zone.into(), zone);
        }
        for (cpu, &node) in nodes.iter().enumerate() {
            let member = usize::from(zone) * nodes.len() + cpu;
            machine.set_home_node(Family::CPU_STORES, member as u32, node);
        }
    }
}

/// A line of the library on a machine of `cpus` CPUs.
#[inline(always)]
pub(super) fn line(line: platform::Line, cpus: u16) -> Line {
    let of_zone = |family, zone: ZoneId, index| Line { family, member: zone.index() as u32, index };
    let of_node = |family, node: NodeId, index| Line { family, member: node.index() as u32, index };
    match line {
        platform::Line::ZoneWords(zone) => of_zone(Family::ZONE_WORDS, zone, 0),
        platform::Line::ZoneIndex(zone, index) => of_zone(Family::ZONE_INDEX, zone, index),
        platform::Line::Map(zone, pageblock) => of_zone(Family::MAPS, zone, pageblock),
        platform::Line::Heads(zone, pageblock) => of_zone(Family::HEADS, zone, pageblock),
        platform::Line::Header(zone, pageblock) => of_zone(Family::HEADERS, zone, pageblock),
        platform::Line::Gigablock(zone, index) => of_zone(Family::GIGABLOCKS, zone, index),
        platform::Line::Depot(zone, index) => of_zone(Family::DEPOTS, zone, index),
        platform::Line::CpuLists(zone, cpu) => of_zone(Family::CPU_LISTS, zone, cpu.get().into()),
        platform::Line::CpuStore(zone, cpu, index) => {
            let member = of_both(zone, cpu, cpus) as u32;
            Line { family: Family::CPU_STORES, member, index }
        }
        platform::Line::LruNode(node) => of_node(Family::LRU_NODES, node, 0),
        platform::Line::LruLinks(node, index) => of_node(Family::LRU_LINKS, node, index),
        // Kinds of lines that are not simulated share one line.
        _ => Line { family: Family::PROGRAM, member: 0, index: 0 },
    }
}

/// The class of the lock that protects a section, and the number of its zone.
#[inline(always)]
pub(super) fn lock_class(section: Section) -> (LockClass, u32) {
    match section {
        Section::Lists(..) | Section::LruBatch(_) => (LockClass::Cpu, 0),
        Section::Lru(_) | Section::DeferredFrees => (LockClass::Lru, 0),
        Section::Zone(zone) | Section::DrainLog(zone, _) => (LockClass::Zone, zone.index() as u32),
        _ => (LockClass::Zone, 0),
    }
}

/// A section of the library on a machine of `cpus` CPUs.
#[inline]
pub(super) fn section(section: Section, cpus: u16) -> SectionId {
    match section {
        Section::Lists(zone, cpu) => {
            SectionId { name: "lists", table: 0, index: of_both(zone, cpu, cpus) }
        }
        Section::Zone(zone) => SectionId { name: "zone", table: 1, index: zone.index() },
        Section::Lru(node) => SectionId { name: "LRU lists", table: 4, index: node.index() },
        Section::LruBatch(cpu) => SectionId { name: "LRU batch", table: 5, index: cpu.index() },
        Section::DeferredFrees => SectionId { name: "deferred frames", table: 2, index: 0 },
        Section::DrainLog(zone, cpu) => {
            SectionId { name: "drain log", table: 3, index: of_both(zone, cpu, cpus) }
        }
        _ => unreachable!("a section that is not simulated: {section:?}"),
    }
}

fn of_both(zone: ZoneId, cpu: CpuId, cpus: u16) -> usize {
    zone.index() * usize::from(cpus) + cpu.index()
}
