//! Reads the kernel's tables: those of this machine, or saved ones.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use framewright::frame::PAGEBLOCK_ORDER;

use super::pages::{self, ZonePages};
use crate::{
    Error,
    trace::{
        Snapshot, TraceError,
        snapshot::{self, Gap},
    },
};

/// The tables, in the order of a snapshot. Only the first is required.
const TABLES: [&str; 5] = ["zoneinfo", "buddyinfo", "pagetypeinfo", "vmstat", "interrupts"];

/// The source of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The running kernel: `/proc`.
    Running,
    /// A folder with a file for each table, named as in `/proc`; or a file with all tables, as
    /// recordings have it (`NAME.before`).
    Saved(PathBuf),
}

/// The kernel's tables at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The tables.
    pub tables: Snapshot,
    /// The use of each frame, zone by zone, if that was read.
    pub pages: Vec<ZonePages>,
    /// Tables that could not be read, and what is missing for lack of them.
    pub missing: Vec<String>,
}

impl Source {
    /// Reads all tables, and the flags of all frames if there are any: 2 MiB for each GiB of memory.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_with_pages(&self) -> Result<Look, Error> {
        let mut look = self.read()?;
        let folder = match self {
            Self::Running => Path::new("/proc"),
            Self::Saved(path) => path,
        };
        let path = folder.join("kpageflags");
        let order = look.tables.pageblock_order.unwrap_or(PAGEBLOCK_ORDER);
        match pages::read(&path, &look.tables.zones, order) {
            Ok(pages) => look.pages = pages,
            // Saved tables have no flags; a recording is no folder.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => look.missing.push(format!(
                "{}: {error}; without it, the prediction with compaction is from free blocks alone",
                path.display()
            )),
        }
        Ok(look)
    }

    /// Reads all tables.
    ///
    /// # Errors
    ///
    /// There is no zoneinfo, or a table has a malformed line. Other tables may be missing.
    pub fn read(&self) -> Result<Look, Error> {
        match self {
            Self::Running => folder(Path::new("/proc")),
            Self::Saved(path) if path.is_dir() => folder(path),
            Self::Saved(file) => Ok(Look::of(Snapshot::open(file)?, &[])),
        }
    }
}

/// Reads the tables in a folder.
fn folder(folder: &Path) -> Result<Look, Error> {
    let mut tables = Vec::new();
    let mut unreadable = Vec::new();
    for name in TABLES {
        let path = folder.join(name);
        match snapshot::read(&path) {
            Ok(text) => tables.push((name, path.display().to_string(), text)),
            Err(TraceError::Io { source, .. }) if name != TABLES[0] => {
                unreadable.push((name, format!("{}: {source}", path.display())));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Look::of(Snapshot::of_tables(&tables)?, &unreadable))
}

impl Look {
    /// The tables, and the reasons why some could not be read.
    fn of(tables: Snapshot, unreadable: &[(&str, String)]) -> Self {
        let empty = [
            ("buddyinfo", tables.free_blocks().is_empty()),
            ("pagetypeinfo", tables.zones.iter().all(|zone| zone.types.is_empty())),
            ("vmstat", tables.vmstat.is_empty()),
            ("interrupts", tables.tlb_shootdowns.is_none()),
        ];
        let missing = empty.into_iter().filter(|(_, is_empty)| *is_empty).map(|(name, _)| {
            let reason = unreadable.iter().find(|(table, _)| *table == name);
            let reason =
                reason.map_or_else(|| format!("no rows in {name}"), |(_, why)| why.clone());
            format!("{reason}; {}", consequence(name))
        });
        let missing = missing.chain(tables.gaps().into_iter().filter_map(of_zone)).collect();
        Self { missing, pages: Vec::new(), tables }
    }

    /// The use of the frames of a zone.
    pub(super) fn pages_of(&self, zone: &snapshot::Zone) -> Option<&ZonePages> {
        self.pages.iter().find(|of| (of.node, &of.zone) == (zone.node, &zone.name))
    }
}

/// The part of a table that a zone lacks, and what is missing for lack of it. The first frame of a zone is needed only to
/// find its flags.
fn of_zone(gap: Gap) -> Option<String> {
    let Gap::Zone { section, node, zone, what } = gap else { return None };
    let consequence = match section {
        "buddyinfo" => "without them, no huge pages of this zone are predicted",
        "pagetypeinfo" => "without them, the free memory of this zone by migratetype is incomplete",
        _ => return None,
    };
    Some(format!("{section}: {what} of node {node}, zone {zone} are missing; {consequence}"))
}

/// The figures that are missing without a table.
fn consequence(table: &str) -> &'static str {
    match table {
        "buddyinfo" => {
            "without it, free blocks by order are not known, and no huge pages are predicted"
        }
        "pagetypeinfo" => {
            "only root can read it; without it, free blocks have no migratetype, and the prediction with compaction \
             counts all free memory as movable"
        }
        "vmstat" => "without it, huge pages and stalls are not counted",
        _ => "without it, TLB shootdowns are not counted",
    }
}
