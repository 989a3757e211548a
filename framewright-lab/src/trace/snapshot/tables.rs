//! `/proc/buddyinfo`, `/proc/pagetypeinfo` and `/proc/vmstat`.

use std::collections::BTreeMap;

use super::{LineProblem, Snapshot, TypeLists, Zone, frames, known_zone, node_and_zone, words};
use crate::trace::number;

/// `Node 0, zone   Normal   1204    310 …`: free blocks by order.
pub(super) fn buddyinfo(zones: &mut [Zone], text: &[u8]) -> Result<(), LineProblem> {
    let Some((node, name, rest)) = node_and_zone(text)? else {
        return Err(LineProblem::new("buddyinfo", text, "`Node N, zone NAME` and counts"));
    };
    known_zone(zones, node, name)?.free_blocks = orders(rest)?.0;
    Ok(())
}

/// Where in pagetypeinfo the parser is.
#[derive(Default)]
pub(super) struct Pagetypeinfo {
    /// Migratetypes in the order of the table of pageblocks; none while its rows mean nothing here.
    block_types: Option<Vec<String>>,
}

impl Pagetypeinfo {
    /// Reads a line of either table, or a heading.
    pub(super) fn line(&mut self, snapshot: &mut Snapshot, text: &[u8]) -> Result<(), LineProblem> {
        if let Some(order) = text.strip_prefix(b"Page block order:") {
            snapshot.pageblock_order = Some(number::order("Page block order", order.trim_ascii())?);
        } else if let Some(names) = text.strip_prefix(b"Number of blocks type") {
            let names = words(names).map(|n| String::from_utf8_lossy(n).into_owned());
            self.block_types = Some(names.collect());
        } else if text.starts_with(b"Number of mixed blocks") {
            // Another table of the same shape, where the kernel tracks owners.
            self.block_types = None;
        } else if let Some((node, name, rest)) = node_and_zone(text)? {
            let zone = known_zone(&mut snapshot.zones, node, name)?;
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
    let name = String::from_utf8_lossy(&row[..end]);
    let (free_blocks, capped) = orders(&row[end..])?;
    let lists = lists_of(zone, &name);
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

/// Counts by order: as many columns as there are orders, at most.
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
