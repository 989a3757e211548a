//! `/proc/zoneinfo`: a paragraph per zone, zones without memory included.

use core::fmt;

use super::ZoneName;

/// Statistics: names and values, in the order in which they are printed.
pub type Stats<'a> = &'a [(&'a str, u64)];

/// The figures of a zone, without its CPU lists; in frames, unless a field says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone<'a> {
    /// The name of the zone.
    pub name: ZoneName<'a>,
    /// Statistics of the whole node, printed with the first of its zones that has memory.
    pub node_stats: Option<Stats<'a>>,
    /// Free frames, without those on CPU lists.
    pub free: u64,
    /// Frames added to every watermark at present.
    pub boost: u64,
    /// Watermark *min*.
    pub min: u64,
    /// Watermark *low*.
    pub low: u64,
    /// Watermark *high*.
    pub high: u64,
    /// Watermark *promo*.
    pub promo: u64,
    /// Frames from the first to the last one, holes included.
    pub spanned: u64,
    /// Frames that exist. A zone without any has no statistics and no CPU lists.
    pub present: u64,
    /// Frames that the allocator manages.
    pub managed: u64,
    /// Frames reserved for contiguous allocation.
    pub cma: u64,
    /// The number of frames that a request for a higher zone must leave free here, by that zone.
    pub protection: &'a [u64],
    /// Statistics of the zone.
    pub stats: Stats<'a>,
    /// Whether background reclaim has stopped for the node after failures in a row.
    pub unreclaimable: bool,
    /// Number of the first frame.
    pub start_pfn: u64,
}

/// The lists of one CPU in one zone, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pageset {
    /// The CPU.
    pub cpu: u32,
    /// Frames held.
    pub count: u64,
    /// Frames that the lists may hold at present.
    pub high: u64,
    /// Frames per refill and drain.
    pub batch: u64,
    /// Least and greatest value of `high`; not printed if unknown.
    pub bounds: Option<(u64, u64)>,
    /// The maximum difference that a CPU accumulates before it adds the difference to a statistic
    /// of the zone; not printed if unknown.
    pub threshold: Option<u64>,
}

/// Writes the paragraph of a zone. For a zone without memory the paragraph ends before the
/// statistics.
///
/// # Errors
///
/// An error of the writer.
pub fn zone(
    out: &mut dyn fmt::Write,
    zone: &Zone<'_>,
    pagesets: impl Iterator<Item = Pageset>,
) -> fmt::Result {
    writeln!(out, "{}", zone.name)?;
    if let Some(node_stats) = zone.node_stats {
        writeln!(out, "  per-node stats")?;
        stats(out, node_stats)?;
    }
    sizes(out, zone)?;
    if zone.present == 0 {
        return Ok(());
    }
    stats(out, zone.stats)?;
    writeln!(out, "  pagesets")?;
    for lists in pagesets {
        pageset(out, &lists)?;
    }
    writeln!(out, "  node_unreclaimable:  {}", u8::from(zone.unreclaimable))?;
    writeln!(out, "  start_pfn:           {}", zone.start_pfn)
}

fn sizes(out: &mut dyn fmt::Write, zone: &Zone<'_>) -> fmt::Result {
    writeln!(out, "  pages free     {}", zone.free)?;
    let sizes = [
        ("boost", zone.boost),
        ("min", zone.min),
        ("low", zone.low),
        ("high", zone.high),
        ("promo", zone.promo),
        ("spanned", zone.spanned),
        ("present", zone.present),
        ("managed", zone.managed),
        ("cma", zone.cma),
    ];
    for (name, frames) in sizes {
        writeln!(out, "        {name:<9}{frames}")?;
    }
    write!(out, "        protection: (")?;
    for (index, frames) in zone.protection.iter().enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        write!(out, "{separator}{frames}")?;
    }
    writeln!(out, ")")
}

fn stats(out: &mut dyn fmt::Write, stats: Stats<'_>) -> fmt::Result {
    for (name, value) in stats {
        writeln!(out, "      {name:<12} {value}")?;
    }
    Ok(())
}

fn pageset(out: &mut dyn fmt::Write, lists: &Pageset) -> fmt::Result {
    writeln!(out, "    cpu: {}", lists.cpu)?;
    writeln!(out, "              count:    {}", lists.count)?;
    writeln!(out, "              high:     {}", lists.high)?;
    writeln!(out, "              batch:    {}", lists.batch)?;
    if let Some((least, greatest)) = lists.bounds {
        writeln!(out, "              high_min: {least}")?;
        writeln!(out, "              high_max: {greatest}")?;
    }
    if let Some(threshold) = lists.threshold {
        writeln!(out, "  vm stats threshold: {threshold}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const EMPTY: Zone<'_> = Zone {
        name: ZoneName { node: 0, zone: "Movable" },
        node_stats: None,
        free: 0,
        boost: 0,
        min: 32,
        low: 32,
        high: 32,
        promo: 32,
        spanned: 0,
        present: 0,
        managed: 0,
        cma: 0,
        protection: &[0, 0],
        stats: &[("nr_free_pages", 1)],
        unreclaimable: false,
        start_pfn: 0,
    };

    fn text(zone: &Zone<'_>, pagesets: &[Pageset]) -> String {
        let mut text = String::new();
        super::zone(&mut text, zone, pagesets.iter().copied()).unwrap();
        text
    }

    #[test]
    fn a_zone_without_memory_ends_with_its_protection() {
        let text = text(&EMPTY, &[Pageset::default()]);
        assert!(text.starts_with("Node 0, zone  Movable\n  pages free     0\n"), "{text}");
        assert!(text.ends_with("        cma      0\n        protection: (0, 0)\n"), "{text}");
    }

    #[test]
    fn unknown_figures_of_cpu_lists_are_left_out() {
        let zone = Zone { node_stats: Some(&[("nr_mapped", 4)]), present: 7, ..EMPTY };
        let known = Pageset { cpu: 1, bounds: Some((13, 240)), threshold: Some(4), ..EMPTY_LISTS };
        let text = text(&zone, &[EMPTY_LISTS, known]);
        let node = "zone  Movable\n  per-node stats\n      nr_mapped    4\n  pages free     0\n";
        assert!(text.contains(node), "{text}");
        let first = "  pagesets\n    cpu: 0\n              count:    5\n              \
                     high:     6\n              batch:    1\n    cpu: 1\n";
        assert!(text.contains(first), "{text}");
        let last = "              high_min: 13\n              high_max: 240\n  vm stats threshold: \
                    4\n  node_unreclaimable:  0\n  start_pfn:           0\n";
        assert!(text.ends_with(last), "{text}");
    }

    const EMPTY_LISTS: Pageset =
        Pageset { cpu: 0, count: 5, high: 6, batch: 1, bounds: None, threshold: None };
}
