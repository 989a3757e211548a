//! Instructions by group, from a plugin's counts by address (`linux/counter`).
//!
//! | module | job |
//! |---|---|
//! | `counter` | has QEMU count, and puts the counts of groups into a run |
//! | `symbols` | what an address of Linux belongs to |
//! | `lines` | what an address of our kernel belongs to |

mod counter;
mod lines;
mod symbols;

use std::{collections::BTreeMap, path::Path};

pub(super) use counter::Counter;

const ALLOCATOR: &str = "instructions_allocator";
const CLEARING: &str = "instructions_clearing";
const LRU: &str = "instructions_lru";
const RMAP_AND_TABLES: &str = "instructions_rmap_and_tables";
const STATISTICS: &str = "instructions_statistics";
const REST: &str = "instructions_rest";

/// Instructions by address.
type ByAddress = BTreeMap<u64, u64>;
/// Instructions by group.
type ByGroup = BTreeMap<&'static str, u64>;

/// What says to whom an address belongs.
#[derive(Clone, Copy)]
pub(super) enum Names<'n> {
    /// Symbols that Linux has told.
    OfLinux,
    /// Lines of the source of our kernel, in this file.
    OfLines(&'n Path),
}
