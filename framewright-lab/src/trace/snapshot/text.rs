//! A snapshot written as the kernel writes it: what was read comes out byte for byte.

use std::collections::BTreeSet;
use std::fmt;

use indexmap::IndexSet;

use framewright::observe::text::{ZoneName, buddyinfo, extfrag, pagetypeinfo, zoneinfo};

use super::{CpuLists, Snapshot, Stat, Zone};

impl Snapshot {
    /// Writes `/proc/zoneinfo`.
    ///
    /// # Errors
    /// What the writer returns.
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
    /// What the writer returns.
    pub fn write_buddyinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.counted().try_for_each(|zone| buddyinfo::row(out, zone.label(), &zone.free_blocks))
    }

    /// Writes `/proc/pagetypeinfo`.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_pagetypeinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let nodes: BTreeSet<u16> = self.typed().map(|zone| zone.node).collect();
        nodes.into_iter().try_for_each(|node| self.write_types_of(node, out))
    }

    fn write_types_of(&self, node: u16, out: &mut dyn fmt::Write) -> fmt::Result {
        let zones = || self.typed().filter(|zone| zone.node == node);
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

    /// Writes `unusable_index` of debugfs, which snapshots do not hold, from buddyinfo.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_unusable_index(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.counted()
            .try_for_each(|zone| extfrag::unusable_row(out, zone.label(), &zone.free_blocks))
    }

    /// Writes `extfrag_index` of debugfs, which snapshots do not hold, from buddyinfo.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_extfrag_index(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.counted().try_for_each(|zone| extfrag::index_row(out, zone.label(), &zone.free_blocks))
    }

    /// Zones of buddyinfo.
    fn counted(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter().filter(|zone| !zone.free_blocks.is_empty())
    }

    /// Zones of pagetypeinfo.
    fn typed(&self) -> impl Iterator<Item = &Zone> {
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
