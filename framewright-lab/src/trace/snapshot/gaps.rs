//! What a snapshot lacks: it may have been cut, or taken by somebody who may not read every table.

use std::fmt;

use super::{Snapshot, Zone};

/// Something that a snapshot should hold and does not. It is used all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// A whole section is not there.
    Section(&'static str),
    /// A section says nothing, or not everything, of a zone that has memory.
    Zone {
        /// The section.
        section: &'static str,
        /// The zone's node.
        node: u16,
        /// The zone.
        zone: String,
        /// What is missing there.
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
        f.write_str(": was the snapshot cut? It is used as it is")
    }
}

impl Snapshot {
    /// What is missing, in the order of the file.
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
    /// What pagetypeinfo does not say of a zone: its tables have a row per type, and one number of
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
