//! Snapshots: the kernel's own tables from the start or the end of a recording.
//!
//! A snapshot is one text file with the contents of `/proc/zoneinfo`, `/proc/buddyinfo`,
//! `/proc/pagetypeinfo`, `/proc/vmstat` and `/proc/interrupts`, each after a line `# NAME`. Only zoneinfo is
//! required (only root can read pagetypeinfo, and recordings have no interrupts). Values of zoneinfo and
//! vmstat are found by their names, because releases move lines. Free blocks are read by column: their order.
//! The writers of [`framewright::observe::text`] can write their parts of a snapshot again, byte for byte as
//! Linux 6.18 does.
//!
//! ```text
//! for t in zoneinfo buddyinfo pagetypeinfo vmstat; do echo "# $t"; cat /proc/$t; done >
//! NAME.before
//! ```

mod parser;
mod text;
mod zoneinfo;

pub use zoneinfo::Gap;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::{LineProblem, TraceError};
use super::number;
use parser::{Parser, Section};

/// Maximum size of a file, in bytes. A snapshot has some 12 KB per node.
const LARGEST: u64 = 64 << 20;

/// The kernel's tables at one moment. Counts are in frames unless blocks are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// All zones, in the kernel's order, including those without memory.
    pub zones: Vec<Zone>,
    /// Order of a pageblock, from pagetypeinfo.
    pub pageblock_order: Option<u8>,
    /// `/proc/vmstat`; empty if the snapshot has none.
    pub vmstat: BTreeMap<String, u64>,
    /// TLB shootdowns that CPUs have received, from interrupts; `None` if the snapshot has no count of them.
    pub tlb_shootdowns: Option<u64>,
}

/// One zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Its node.
    pub node: u16,
    /// `DMA`, `DMA32`, `Normal`, `Movable`, `Device`.
    pub name: String,
    /// Statistics of the node, in its first zone with memory.
    pub node_stats: Option<Vec<Stat>>,
    /// Free frames, without those on CPU lists.
    pub free: u64,
    /// The boost: added to every watermark for the time being.
    pub boost: u64,
    /// Watermark *min*.
    pub min: u64,
    /// Watermark *low*.
    pub low: u64,
    /// Watermark *high*.
    pub high: u64,
    /// Watermark *promo*.
    pub promo: u64,
    /// Frames from the first to the last, holes included.
    pub spanned: u64,
    /// Frames that exist.
    pub present: u64,
    /// Frames that the page allocator manages.
    pub managed: u64,
    /// Frames reserved for contiguous allocation.
    pub cma: u64,
    /// The lowmem reserve: frames that requests for a higher zone must leave free, by the index of
    /// their zone.
    pub protection: Vec<u64>,
    /// Statistics of the zone.
    pub stats: Vec<Stat>,
    /// Whether the kernel considers the node unreclaimable.
    pub unreclaimable: bool,
    /// First frame; `None` if the zone has no memory.
    pub start_pfn: Option<u64>,
    /// Per-CPU lists, in the kernel's order.
    pub cpus: Vec<CpuLists>,
    /// Free blocks by order, from buddyinfo; empty if the snapshot has none.
    pub free_blocks: Vec<u64>,
    /// The lists of each migratetype, from pagetypeinfo; empty if the snapshot has none.
    pub types: Vec<TypeLists>,
}

/// A statistic that is stored without interpretation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Its name, such as `nr_mapped`.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// A CPU's lists of one zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLists {
    /// The CPU.
    pub cpu: u16,
    /// Frames on the lists.
    pub count: u64,
    /// The limit of frames on the lists.
    pub high: u64,
    /// Frames per refill or drain.
    pub batch: u64,
    /// Minimum of `high`; `None` if the kernel does not print it.
    pub high_min: Option<u64>,
    /// Maximum of `high`.
    pub high_max: Option<u64>,
    /// Limit of the per-CPU part of a statistic.
    pub threshold: Option<u64>,
}

/// The free lists and pageblocks of one migratetype in one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeLists {
    /// `Unmovable`, `Movable`, `Reclaimable`, `HighAtomic`, `CMA`, `Isolate`.
    pub name: String,
    /// Free blocks by order.
    pub free_blocks: Vec<u64>,
    /// Whether the kernel stopped counting at 100,000 in at least one order.
    pub capped: bool,
    /// Pageblocks of this type.
    pub pageblocks: u64,
}

impl Snapshot {
    /// Reads a snapshot file.
    ///
    /// # Errors
    /// The file cannot be read, is not a snapshot, or has a malformed or impossible line.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::parse(&path.display().to_string(), &read(path)?)
    }

    /// Reads a snapshot from memory; messages name it `file`.
    ///
    /// # Errors
    /// As [`Snapshot::open`].
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, TraceError> {
        let mut parser = Parser::default();
        parser.lines(file, bytes)?;
        parser.finish(file)
    }

    /// Reads tables that are in files of their own, without headings. Each table has its name (such as
    /// `zoneinfo`), the name of its file in messages, and its text. The order is that of a snapshot.
    ///
    /// # Errors
    /// As [`Snapshot::parse`]; an error names the file of the table.
    pub fn of_tables(tables: &[(&str, String, Vec<u8>)]) -> Result<Self, TraceError> {
        let mut parser = Parser::default();
        for (name, file, bytes) in tables {
            parser.begin(Section::named(name.as_bytes()));
            parser.lines(file, bytes)?;
        }
        parser.finish(tables.first().map_or("tables", |(_, file, _)| file))
    }

    /// Frames that the page allocator manages, over all zones.
    #[must_use]
    pub fn managed(&self) -> u64 {
        self.sum(|zone| zone.managed)
    }

    /// Free frames, over all zones, without those on CPU lists.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.sum(|zone| zone.free)
    }

    /// Frames on CPU lists: not free, and not in use either.
    #[must_use]
    pub fn held_by_cpus(&self) -> u64 {
        self.sum(Zone::held_by_cpus)
    }

    /// Frames in use: managed frames that are not free, and on no CPU's list.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.managed() - self.free() - self.held_by_cpus()
    }

    /// Free blocks of each order, over all zones; empty without buddyinfo.
    #[must_use]
    pub fn free_blocks(&self) -> Vec<u64> {
        sum_columns(self.zones.iter().map(|zone| &zone.free_blocks[..]))
    }

    /// Free blocks of each order of one migratetype, over all zones; empty without pagetypeinfo.
    #[must_use]
    pub fn free_blocks_of(&self, migratetype: &str) -> Vec<u64> {
        let types = self.zones.iter().flat_map(|zone| &zone.types);
        sum_columns(types.filter(|t| t.name == migratetype).map(|t| &t.free_blocks[..]))
    }

    /// Pageblocks of one migratetype, over all zones.
    #[must_use]
    pub fn pageblocks_of(&self, migratetype: &str) -> u64 {
        let types = self.zones.iter().flat_map(|zone| &zone.types);
        types.filter(|t| t.name == migratetype).fold(0, |sum, t| sum.saturating_add(t.pageblocks))
    }

    fn sum(&self, frames: impl Fn(&Zone) -> u64) -> u64 {
        self.zones.iter().map(frames).fold(0, u64::saturating_add)
    }
}

impl Zone {
    /// Frames on the lists of all CPUs.
    #[must_use]
    pub fn held_by_cpus(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, lists| sum.saturating_add(lists.count))
    }
}

/// The snapshot next to a recording: `NAME.before` or `NAME.after` for `NAME.txt.zst`, `NAME.txt`,
/// `NAME.zst` or `NAME`. `which` is `before` or `after`.
///
/// # Errors
/// The name exists, but is no regular file and no link to one.
pub fn beside(recording: &Path, which: &str) -> Result<Option<PathBuf>, TraceError> {
    let mut stem = recording.to_path_buf();
    while let Some(name) = stem.file_name() {
        let mut name = name.to_os_string();
        name.push(".");
        name.push(which);
        let candidate = stem.with_file_name(name);
        if candidate.is_file() {
            return Ok(Some(candidate));
        }
        if candidate.symlink_metadata().is_ok() {
            let file = candidate.display().to_string();
            let reason = "has the name of the recording's tables and is no regular file: rename \
                          it, or the recording";
            return Err(TraceError::Unusable { file, reason: reason.into() });
        }
        match stem.extension() {
            Some(ending) if ending == "zst" || ending == "txt" => stem.set_extension(""),
            _ => break,
        };
    }
    Ok(None)
}

/// Reads the file of a table or of a snapshot.
///
/// # Errors
/// The file cannot be read, or is too large for the kernel's tables.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TraceError> {
    let file = path.display().to_string();
    let mut bytes = Vec::new();
    match File::open(path).and_then(|f| f.take(LARGEST + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 > LARGEST => {
            let reason = format!("more than {} MiB: not the kernel's tables", LARGEST >> 20);
            Err(TraceError::Unusable { file, reason })
        }
        Ok(_) => Ok(bytes),
        Err(source) => Err(TraceError::Io { file, source }),
    }
}

fn sum_columns<'s>(rows: impl Iterator<Item = &'s [u64]>) -> Vec<u64> {
    let mut sums: Vec<u64> = Vec::new();
    for row in rows {
        sums.resize(sums.len().max(row.len()), 0);
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum = sum.saturating_add(*value);
        }
    }
    sums
}

/// The words of a line.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// A number of frames, within the limit of physical addresses.
fn frames(field: &'static str, text: &[u8]) -> Result<u64, LineProblem> {
    number::decimal(text)
        .filter(|&frames| frames <= number::MAX_PFN)
        .ok_or_else(|| LineProblem::new(field, text, "a number of frames, at most 2^40"))
}

/// A row's node, zone and the rest.
type ZoneRow<'t> = (u16, &'t str, &'t [u8]);

/// `Node 0, zone   Normal…`: the node, the zone's name, and the rest.
fn node_and_zone(text: &[u8]) -> Result<Option<ZoneRow<'_>>, LineProblem> {
    let Some([blank, rest @ ..]) = text.strip_prefix(b"Node") else {
        return Ok(None);
    };
    if !blank.is_ascii_whitespace() {
        return Ok(None);
    }
    let bad = || LineProblem::new("zone", text, "`Node N, zone NAME`");
    let comma = memchr::memchr(b',', rest).ok_or_else(bad)?;
    let node = number::decimal(rest[..comma].trim_ascii())
        .and_then(|node| u16::try_from(node).ok())
        .ok_or_else(bad)?;
    let rest = rest[comma + 1..].trim_ascii_start();
    let rest = rest.strip_prefix(b"zone ").ok_or_else(bad)?.trim_ascii_start();
    let ends = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    Ok(Some((node, name("zone", &rest[..end])?, &rest[end..])))
}

/// The name of a zone or migratetype.
fn name<'t>(field: &'static str, text: &'t [u8]) -> Result<&'t str, LineProblem> {
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_alphanumeric);
    let name = std::str::from_utf8(text).ok().filter(|_| is_plain);
    name.ok_or_else(|| LineProblem::new(field, text, "a name of letters and digits"))
}

/// The zone of a row of another table.
fn known_zone<'z>(
    zones: &'z mut [Zone],
    node: u16,
    name: &str,
) -> Result<&'z mut Zone, LineProblem> {
    zones
        .iter_mut()
        .find(|zone| zone.node == node && zone.name == name)
        .ok_or_else(|| LineProblem::new("zone", name.as_bytes(), "a zone that zoneinfo lists"))
}

#[cfg(test)]
mod tests;
