//! A memory's `/proc` tables, in Linux's formats.

use core::fmt;

use super::{Memory, ZoneInfo};
use crate::{
    buddy::BlockCounts,
    observe::text::{COLUMNS, ZoneName, buddyinfo, columns, extfrag, pagetypeinfo, zoneinfo},
    platform::Platform,
    types::{MigrateType, Order, PAGEBLOCK_ORDER},
};

impl<P: Platform> Memory<'_, P> {
    /// Writes `/proc/zoneinfo`. Zones that the memory map does not name are left out.
    ///
    /// # Errors
    ///
    /// An error of the writer.
    pub fn write_zoneinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut described = None;
        for zone in self.zones() {
            // The figures of the node are printed with its first zone that has memory.
            let first = zone.managed > 0 && described != Some(zone.node);
            if first {
                described = Some(zone.node);
            }
            self.write_zone(out, &zone, first)?;
        }
        Ok(())
    }

    fn write_zone(
        &self,
        out: &mut dyn fmt::Write,
        info: &ZoneInfo,
        describe_node: bool,
    ) -> fmt::Result {
        let (start, spanned) = self.core.zones()[info.id.index()].span();
        let (counters, counts) = (self.zone_stats(info.id), self.block_counts(info.id));
        let stats = [
            ("nr_free_pages", info.free),
            ("nr_free_pages_blocks", in_whole_pageblocks(&counts)),
            ("nr_free_cma", 0),
            ("numa_hit", counters.numa_hit),
            ("numa_miss", counters.numa_miss),
            ("numa_foreign", counters.numa_foreign),
            ("numa_interleave", 0),
            ("numa_local", counters.numa_local),
            ("numa_other", counters.numa_other),
        ];
        let zone = zoneinfo::Zone {
            name: name(info),
            node_stats: describe_node.then_some(&[]),
            free: info.free,
            boost: info.boost,
            min: info.min,
            low: info.low,
            high: info.high,
            promo: info.promo,
            spanned,
            present: info.managed,
            managed: info.managed,
            cma: 0,
            protection: &info.protection,
            stats: &stats,
            unreclaimable: false,
            start_pfn: start.get(),
        };
        zoneinfo::zone(out, &zone, self.pagesets(info.id))
    }

    /// Writes `/proc/buddyinfo`.
    ///
    /// # Errors
    ///
    /// An error of the writer.
    pub fn write_buddyinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.write_rows(out, buddyinfo::row)
    }

    /// Writes `extfrag/unusable_index` of debugfs.
    ///
    /// # Errors
    ///
    /// An error of the writer.
    pub fn write_unusable_index(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.write_rows(out, extfrag::unusable_row)
    }

    /// Writes `extfrag/extfrag_index` of debugfs.
    ///
    /// # Errors
    ///
    /// An error of the writer.
    pub fn write_extfrag_index(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.write_rows(out, extfrag::index_row)
    }

    /// Writes a table with one row per zone, computed from its free blocks.
    fn write_rows(
        &self,
        out: &mut dyn fmt::Write,
        row: fn(&mut dyn fmt::Write, ZoneName<'_>, &[u64]) -> fmt::Result,
    ) -> fmt::Result {
        self.zones().filter(|zone| zone.managed > 0).try_for_each(|zone| {
            row(out, name(&zone), &columns(&self.block_counts(zone.id).by_order()))
        })
    }

    /// Writes `/proc/pagetypeinfo`.
    ///
    /// # Errors
    ///
    /// An error of the writer.
    pub fn write_pagetypeinfo(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut written = None;
        for zone in self.zones().filter(|zone| zone.managed > 0) {
            if written != Some(zone.node) {
                written = Some(zone.node);
                self.write_types(out, &zone)?;
            }
        }
        Ok(())
    }

    /// The part of pagetypeinfo for the node of zone `first`.
    fn write_types(&self, out: &mut dyn fmt::Write, first: &ZoneInfo) -> fmt::Result {
        let of_node = |zone: &ZoneInfo| zone.node == first.node && zone.managed > 0;
        pagetypeinfo::heading(out, PAGEBLOCK_ORDER, COLUMNS)?;
        for zone in self.zones().filter(of_node) {
            let counts = self.block_counts(zone.id);
            for of in MigrateType::all() {
                let blocks = columns(&counts.free[of as usize]);
                pagetypeinfo::free_row(out, name(&zone), of.name(), &blocks)?;
            }
        }
        pagetypeinfo::block_heading(out, MigrateType::all().map(MigrateType::name))?;
        for zone in self.zones().filter(of_node) {
            let counts = self.block_counts(zone.id);
            pagetypeinfo::block_row(out, name(&zone), &counts.pageblocks)?;
        }
        Ok(())
    }
}

fn name(zone: &ZoneInfo) -> ZoneName<'static> {
    ZoneName { node: u32::from(zone.node.get()), zone: zone.kind.name() }
}

/// Free frames in blocks of at least a pageblock.
fn in_whole_pageblocks(counts: &BlockCounts) -> u64 {
    let blocks = Order::all().zip(counts.by_order()).skip(usize::from(PAGEBLOCK_ORDER));
    blocks.map(|(order, count)| count * order.frames()).sum()
}
