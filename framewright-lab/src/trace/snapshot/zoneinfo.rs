//! `/proc/zoneinfo`: per zone its size, watermarks, statistics and per-CPU lists.

use std::fmt;

use super::{CpuLists, LineProblem, Snapshot, Stat, Zone, frames, node_and_zone, number, words};

/// Maximum number of statistics of a node or zone: the kernel has some fifty.
const MOST_STATS: usize = 1000;

/// The position of the parser in the table.
#[derive(Default)]
pub(super) struct State {
    part: Part,
}

/// The parts of a zone's paragraph, in the kernel's order.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    /// Statistics of the whole node, inside its first zone.
    NodeStats,
    #[default]
    Sizes,
    /// Statistics of the zone, after its sizes.
    ZoneStats,
    Pagesets,
}

impl State {
    /// Reads one line into `zones`.
    pub(super) fn line(&mut self, zones: &mut Vec<Zone>, text: &[u8]) -> Result<(), LineProblem> {
        if let Some((node, name, _)) = node_and_zone(text)? {
            self.part = Part::Sizes;
            if zones.iter().any(|zone| zone.node == node && zone.name == name) {
                return Err(LineProblem::new("zone", text, "each zone once"));
            }
            zones.push(Zone { node, name: name.to_owned(), ..Zone::default() });
            return Ok(());
        }
        let Some(zone) = zones.last_mut() else {
            return Err(LineProblem::new("zoneinfo", text, "`Node N, zone NAME` first"));
        };
        let mut words = words(text);
        let key = words.next().unwrap_or_default();
        let value = words.next().unwrap_or_default();
        match key {
            b"per-node" => {
                self.part = Part::NodeStats;
                zone.node_stats = Some(Vec::new());
            }
            b"pages" if value == b"free" => {
                self.part = Part::Sizes;
                zone.free = frames("pages free", words.next().unwrap_or_default())?;
            }
            b"protection:" => {
                self.part = Part::ZoneStats;
                zone.protection = protection(text)?;
            }
            b"pagesets" => self.part = Part::Pagesets,
            _ if self.part == Part::NodeStats => {
                stat(zone.node_stats.get_or_insert_default(), key, value)?;
            }
            b"cpu:" => {
                self.part = Part::Pagesets;
                zone.cpus.push(CpuLists { cpu: number::cpu(value)?, ..CpuLists::default() });
            }
            b"node_unreclaimable:" => {
                zone.unreclaimable = number::flag("node_unreclaimable", value)?;
            }
            b"start_pfn:" => zone.start_pfn = Some(number::pfn(value)?),
            b"count:" | b"high:" | b"batch:" | b"high_min:" | b"high_max:" | b"vm" => {
                pageset(zone, text, key, value)?;
            }
            _ if self.part == Part::Pagesets => {}
            _ if self.part == Part::ZoneStats && !size(zone, key, value)? => {
                stat(&mut zone.stats, key, value)?;
            }
            _ => _ = size(zone, key, value)?,
        }
        Ok(())
    }
}

/// Reads one of a zone's sizes; `false` if the line is something else.
fn size(zone: &mut Zone, key: &[u8], value: &[u8]) -> Result<bool, LineProblem> {
    match key {
        b"boost" => zone.boost = frames("boost", value)?,
        b"min" => zone.min = frames("min", value)?,
        b"low" => zone.low = frames("low", value)?,
        b"high" => zone.high = frames("high", value)?,
        b"promo" => zone.promo = frames("promo", value)?,
        b"spanned" => zone.spanned = frames("spanned", value)?,
        b"present" => zone.present = frames("present", value)?,
        b"managed" => zone.managed = frames("managed", value)?,
        b"cma" => zone.cma = frames("cma", value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// `protection: (0, 3019, 11723)`: by the zone of the request.
fn protection(text: &[u8]) -> Result<Vec<u64>, LineProblem> {
    let bad = || LineProblem::new("protection", text, "frames in parentheses, one per zone");
    let open = memchr::memchr(b'(', text).ok_or_else(bad)?;
    let inside = text[open + 1..].strip_suffix(b")").ok_or_else(bad)?;
    if inside.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let values = inside.split(|&byte| byte == b',');
    values.map(|value| frames("protection", value.trim_ascii())).collect()
}

/// `name value`, stored without interpretation. Other lines are from later kernels and are ignored.
fn stat(stats: &mut Vec<Stat>, key: &[u8], value: &[u8]) -> Result<(), LineProblem> {
    if !key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Ok(());
    }
    if stats.len() == MOST_STATS {
        return Err(LineProblem::new("statistics", key, "at most 1000 of them"));
    }
    let name = String::from_utf8_lossy(key).into_owned();
    stats.push(Stat { name, value: number::number("statistic", value)? });
    Ok(())
}

/// A line of a CPU's lists.
fn pageset(zone: &mut Zone, text: &[u8], key: &[u8], value: &[u8]) -> Result<(), LineProblem> {
    let Some(lists) = zone.cpus.last_mut() else {
        return Err(LineProblem::new("pagesets", text, "`cpu: N` first"));
    };
    match key {
        b"count:" => lists.count = frames("count", value)?,
        b"high:" => lists.high = frames("high", value)?,
        b"batch:" => lists.batch = frames("batch", value)?,
        b"high_min:" => lists.high_min = Some(frames("high_min", value)?),
        b"high_max:" => lists.high_max = Some(frames("high_max", value)?),
        b"vm" => {
            let value = words(text).nth(3).unwrap_or_default();
            lists.threshold = Some(number::number("vm stats threshold", value)?);
        }
        _ => {}
    }
    Ok(())
}

/// A missing part of a snapshot, which is used nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// A whole section is missing.
    Section(&'static str),
    /// A section lacks a zone with memory, or a part of it.
    Zone {
        /// The section.
        section: &'static str,
        /// The zone's node.
        node: u16,
        /// The zone.
        zone: String,
        /// The missing part.
        what: &'static str,
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::Section(name) => write!(f, "section `# {name}` is missing")?,
            Gap::Zone { section, node, zone, what } => {
                write!(f, "section `# {section}`: {what} of node {node}, zone {zone} missing")?;
            }
        }
        f.write_str(": was the snapshot cut? Its other parts are used")
    }
}

impl Snapshot {
    /// The missing parts, in the order of the file.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let with_memory = || self.zones.iter().filter(|zone| zone.managed > 0);
        let mut look =
            |section: &'static str, whole: bool, lack: fn(&Zone) -> Option<&'static str>| {
                if whole {
                    gaps.push(Gap::Section(section));
                    return;
                }
                gaps.extend(with_memory().filter_map(|zone| {
                    let (node, name) = (zone.node, zone.name.clone());
                    lack(zone).map(|what| Gap::Zone { section, node, zone: name, what })
                }));
            };
        look("zoneinfo", false, |zone| {
            zone.start_pfn.is_none().then_some("first frame (start_pfn)")
        });
        let none = |empty: fn(&Zone) -> bool| self.zones.iter().all(empty);
        look("buddyinfo", none(|zone| zone.free_blocks.is_empty()), |zone| {
            zone.free_blocks.is_empty().then_some("free blocks")
        });
        look("pagetypeinfo", none(|zone| zone.types.is_empty()), Zone::lacking_types);
        if self.vmstat.is_empty() {
            gaps.push(Gap::Section("vmstat"));
        }
        gaps
    }
}

impl Zone {
    /// The missing part of a zone in pagetypeinfo; a complete zone has a row and a number of
    /// pageblocks per type.
    fn lacking_types(&self) -> Option<&'static str> {
        let columns = self.free_blocks.len();
        if self.types.is_empty() || self.types.iter().any(|of| of.free_blocks.len() < columns) {
            Some("free blocks of some types")
        } else if self.types.iter().all(|of| of.pageblocks == 0) {
            Some("pageblocks")
        } else {
            None
        }
    }
}
