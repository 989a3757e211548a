//! The tables of a snapshot as text. Writes zoneinfo, buddyinfo and pagetypeinfo as Linux
//! 6.18 does, from there byte for byte as they were read, and parses all tables except zoneinfo.

use framewright::observe::text::{ZoneName, buddyinfo, extfrag, pagetypeinfo, zoneinfo};
use indexmap::IndexSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    CpuLists, LineProblem, Snapshot, Stat, TypeLists, Zone, frames, known_zone, name,
    node_and_zone, words,
};
use crate::trace::number;

impl Snapshot {
    /// Writes `/proc/zoneinfo`.
    ///
    /// # Errors
    /// An error of the writer.
    pub fn write_zoneinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        for zone in &self.zones {
            let node_stats = zone.node_stats.as_deref().map(pairs);
            let text = zoneinfo::Zone {
                name: zone.label(),
                node_stats: node_stats.as_deref(),
                free: zone.free,
                boost: zone.boost,
                min: zone.min,
                low: zone.low,
                high: zone.high,
                promo: zone.promo,
                spanned: zone.spanned,
                present: zone.present,
                managed: zone.managed,
                cma: zone.cma,
                protection: &zone.protection,
                stats: &pairs(&zone.stats),
                unreclaimable: zone.unreclaimable,
                start_pfn: zone.start_pfn.unwrap_or(0),
            };
            zoneinfo::zone(out, &text, zone.cpus.iter().map(CpuLists::label))?;
        }
        Ok(())
    }

    /// Writes `/proc/buddyinfo`.
    ///
    /// # Errors
    /// An error of the writer.
    pub fn write_buddyinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.zones_in_buddyinfo()
            .try_for_each(|zone| buddyinfo::row(out, zone.label(), &zone.free_blocks))
    }

    /// Writes `/proc/pagetypeinfo`.
    ///
    /// # Errors
    /// An error of the writer.
    pub fn write_pagetypeinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let nodes: BTreeSet<u16> = self.zones_in_pagetypeinfo().map(|zone| zone.node).collect();
        nodes.into_iter().try_for_each(|node| self.write_types_of(node, out))
    }

    fn write_types_of(&self, node: u16, out: &mut dyn fmt::Write) -> fmt::Result {
        let zones = || self.zones_in_pagetypeinfo().filter(|zone| zone.node == node);
        let rows = || zones().flat_map(|zone| zone.types.iter().map(move |of| (zone, of)));
        let columns = rows().map(|(_, of)| of.free_blocks.len()).max().unwrap_or(0);
        pagetypeinfo::heading(out, self.pageblock_order.unwrap_or(0), columns)?;
        for (zone, of) in rows().filter(|(_, of)| !of.free_blocks.is_empty()) {
            pagetypeinfo::free_row(out, zone.label(), &of.name, &of.free_blocks)?;
        }
        let names: IndexSet<&str> = rows().map(|(_, of)| of.name.as_str()).collect();
        pagetypeinfo::block_heading(out, names.iter().copied())?;
        for zone in zones() {
            let blocks: Vec<u64> = names.iter().map(|name| zone.pageblocks_of(name)).collect();
            pagetypeinfo::block_row(out, zone.label(), &blocks)?;
        }
        Ok(())
    }

    /// Writes `unusable_index` of debugfs, computed from buddyinfo because snapshots lack it.
    ///
    /// # Errors
    /// An error of the writer.
    pub fn write_unusable_index(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.zones_in_buddyinfo()
            .try_for_each(|zone| extfrag::unusable_row(out, zone.label(), &zone.free_blocks))
    }

    /// Writes `extfrag_index` of debugfs, computed from buddyinfo because snapshots lack it.
    ///
    /// # Errors
    /// An error of the writer.
    pub fn write_extfrag_index(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.zones_in_buddyinfo()
            .try_for_each(|zone| extfrag::index_row(out, zone.label(), &zone.free_blocks))
    }

    /// The zones that buddyinfo lists.
    fn zones_in_buddyinfo(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter().filter(|zone| !zone.free_blocks.is_empty())
    }

    /// The zones that pagetypeinfo lists.
    fn zones_in_pagetypeinfo(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter().filter(|zone| !zone.types.is_empty())
    }
}

impl Zone {
    fn label(&self) -> ZoneName<'_> {
        ZoneName { node: self.node.into(), zone: &self.name }
    }

    fn pageblocks_of(&self, migratetype: &str) -> u64 {
        self.types.iter().find(|of| of.name == migratetype).map_or(0, |of| of.pageblocks)
    }
}

impl CpuLists {
    fn label(&self) -> zoneinfo::Pageset {
        zoneinfo::Pageset {
            cpu: self.cpu.into(),
            count: self.count,
            high: self.high,
            batch: self.batch,
            bounds: self.high_min.zip(self.high_max),
            threshold: self.threshold,
        }
    }
}

fn pairs(stats: &[Stat]) -> Vec<(&str, u64)> {
    stats.iter().map(|stat| (stat.name.as_str(), stat.value)).collect()
}

/// `Node 0, zone   Normal   1204    310 …`: free blocks by order.
pub(super) fn buddyinfo(zones: &mut [Zone], text: &[u8]) -> Result<(), LineProblem> {
    let Some((node, name, rest)) = node_and_zone(text)? else {
        return Err(LineProblem::new("buddyinfo", text, "`Node N, zone NAME` and counts"));
    };
    let blocks = orders(rest)?.0;
    let is_other =
        |other: &Zone| !other.free_blocks.is_empty() && other.free_blocks.len() != blocks.len();
    if zones.iter().any(is_other) {
        return Err(LineProblem::new("counts", text, "as many numbers as in the rows above"));
    }
    known_zone(zones, node, name)?.free_blocks = blocks;
    Ok(())
}

/// The position of the parser in pagetypeinfo.
#[derive(Default)]
pub(super) struct Pagetypeinfo {
    /// Migratetypes in the order of the table of pageblocks; `None` in other tables.
    block_types: Option<Vec<String>>,
}

impl Pagetypeinfo {
    /// Reads a line of either table, or a heading.
    pub(super) fn line(&mut self, snapshot: &mut Snapshot, text: &[u8]) -> Result<(), LineProblem> {
        if let Some(order) = text.strip_prefix(b"Page block order:") {
            snapshot.pageblock_order = Some(number::order("Page block order", order.trim_ascii())?);
        } else if let Some(names) = text.strip_prefix(b"Number of blocks type") {
            let names = words(names).map(|word| Ok(name("migratetype", word)?.to_owned()));
            self.block_types = Some(names.collect::<Result<_, _>>()?);
        } else if text.starts_with(b"Number of mixed blocks") {
            // Another table of the same form, in kernels with CONFIG_PAGE_OWNER.
            self.block_types = None;
        } else if let Some((node, zone, rest)) = node_and_zone(text)? {
            let zone = known_zone(&mut snapshot.zones, node, zone)?;
            match (rest.trim_ascii_start().strip_prefix(b", type "), &self.block_types) {
                (Some(row), _) => free_row(zone, row)?,
                (None, Some(types)) => block_row(zone, types, rest)?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

/// `   Movable  55194  28207 >100000 …`
fn free_row(zone: &mut Zone, row: &[u8]) -> Result<(), LineProblem> {
    let row = row.trim_ascii_start();
    let end = row.iter().position(u8::is_ascii_whitespace).unwrap_or(row.len());
    let of = name("migratetype", &row[..end])?;
    let (free_blocks, capped) = orders(&row[end..])?;
    let lists = lists_of(zone, of);
    lists.free_blocks = free_blocks;
    lists.capped = capped;
    Ok(())
}

/// `Node 0, zone   Normal          262         3740 …`, in the order of the heading.
fn block_row(zone: &mut Zone, types: &[String], row: &[u8]) -> Result<(), LineProblem> {
    let (blocks, _) = counts(row)?;
    if blocks.len() != types.len() {
        return Err(LineProblem::new("pageblocks", row, "one number per type of the heading"));
    }
    for (name, &pageblocks) in types.iter().zip(&blocks) {
        lists_of(zone, name).pageblocks = pageblocks;
    }
    Ok(())
}

fn lists_of<'z>(zone: &'z mut Zone, name: &str) -> &'z mut TypeLists {
    let at = zone.types.iter().position(|lists| lists.name == name).unwrap_or_else(|| {
        zone.types.push(TypeLists { name: name.to_owned(), ..TypeLists::default() });
        zone.types.len() - 1
    });
    &mut zone.types[at]
}

/// Counts by order: at most as many columns as there are orders.
fn orders(text: &[u8]) -> Result<(Vec<u64>, bool), LineProblem> {
    let (values, capped) = counts(text)?;
    if values.len() > usize::from(number::MAX_ORDER) + 1 {
        return Err(LineProblem::new("counts", text, "a column per order, at most 14"));
    }
    Ok((values, capped))
}

/// Counts by column, and whether one was capped (`>100000`).
fn counts(text: &[u8]) -> Result<(Vec<u64>, bool), LineProblem> {
    let mut capped = false;
    let mut values = Vec::new();
    for word in words(text) {
        let digits = word.strip_prefix(b">").unwrap_or(word);
        capped |= digits.len() < word.len();
        values.push(frames("count", digits)?);
    }
    if values.is_empty() {
        return Err(LineProblem::new("counts", text, "one number per order or type"));
    }
    Ok((values, capped))
}

/// `name value`.
pub(super) fn vmstat(counters: &mut BTreeMap<String, u64>, text: &[u8]) -> Result<(), LineProblem> {
    let mut words = words(text);
    let name = words.next().unwrap_or_default();
    let value = number::number("vmstat", words.next().unwrap_or_default())?;
    if words.next().is_some() {
        return Err(LineProblem::new("vmstat", text, "`name value`"));
    }
    counters.insert(String::from_utf8_lossy(name).into_owned(), value);
    Ok(())
}

/// `TLB:  4088889  5054342   TLB shootdowns`: a number per CPU. Other interrupts are ignored.
pub(super) fn interrupts(shootdowns: &mut Option<u64>, text: &[u8]) -> Result<(), LineProblem> {
    let Some(row) = text.strip_prefix(b"TLB:") else { return Ok(()) };
    let counts: Vec<u64> = words(row).map_while(number::decimal).collect();
    if counts.is_empty() {
        return Err(LineProblem::new("TLB", row.trim_ascii(), "a number of interrupts per CPU"));
    }
    *shootdowns = Some(counts.into_iter().fold(0, u64::saturating_add));
    Ok(())
}
