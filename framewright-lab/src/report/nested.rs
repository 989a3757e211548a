//! Figures by name, as a tree in JSON: `node0_dma_free_blocks_start_order3` is `free_blocks_start`, order 3, of zone
//! `dma` of node 0. The parts of a path, joined with `_`, are the name again.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A figure, or several by the next part of their names.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) enum Tree<T> {
    /// A figure.
    Figure(T),
    /// Figures of one CPU, node, zone or order, or of one kind.
    Group(IndexMap<String, Tree<T>>),
}

pub(super) fn serialize<T: Serialize, S: Serializer>(
    figures: &IndexMap<String, T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut groups = IndexMap::new();
    for (name, figure) in figures {
        insert(&mut groups, &path(name, figures), figure);
    }
    groups.serialize(serializer)
}

pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<IndexMap<String, T>, D::Error> {
    let mut figures = IndexMap::new();
    flatten("", IndexMap::deserialize(deserializer)?, &mut figures);
    Ok(figures)
}

/// The path of a figure. A figure cannot be a group, too: then the other names that begin like it stay whole.
fn path<'n, T>(name: &'n str, figures: &IndexMap<String, T>) -> Vec<&'n str> {
    let parts = parts(name);
    let is_figure = |count: usize| figures.contains_key(&parts[..count].join("_"));
    if (1..parts.len()).any(is_figure) { vec![name] } else { parts }
}

fn insert<'f, T>(groups: &mut IndexMap<String, Tree<&'f T>>, path: &[&str], figure: &'f T) {
    match path {
        [] => {}
        [last] => drop(groups.insert((*last).to_owned(), Tree::Figure(figure))),
        [first, rest @ ..] => {
            let group = || Tree::Group(IndexMap::new());
            if let Tree::Group(group) = groups.entry((*first).to_owned()).or_insert_with(group) {
                insert(group, rest, figure);
            }
        }
    }
}

fn flatten<T>(prefix: &str, groups: IndexMap<String, Tree<T>>, figures: &mut IndexMap<String, T>) {
    for (part, tree) in groups {
        let name = if prefix.is_empty() { part } else { format!("{prefix}_{part}") };
        match tree {
            Tree::Figure(figure) => drop(figures.insert(name, figure)),
            Tree::Group(group) => flatten(&name, group, figures),
        }
    }
}

/// The parts of a name: the CPU, or the node and its zone, then the rest, which an order divides.
pub(crate) fn parts(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = name;
    if let Some((first, after)) = name.split_once('_') {
        if is_numbered(first, "cpu") {
            (parts, rest) = (vec![first], after);
        } else if let (true, Some((zone, after))) =
            (is_numbered(first, "node"), after.split_once('_'))
        {
            (parts, rest) = (vec![first, zone], after);
        }
    }
    parts.extend(around_order(rest));
    parts
}

/// The parts before an order, the order, and the part after it. An order at the beginning is a part of the name.
fn around_order(name: &str) -> Vec<&str> {
    let orders = name.match_indices("_order").map(|(at, _)| at);
    for at in orders {
        let (before, after) = (&name[..at], &name[at + 1..]);
        let (order, rest) = after.split_once('_').map_or((after, None), |(o, r)| (o, Some(r)));
        if is_numbered(order, "order") {
            return [before, order].into_iter().chain(rest).collect();
        }
    }
    vec![name]
}

/// Whether `part` is `prefix` and a number.
pub(crate) fn is_numbered(part: &str, prefix: &str) -> bool {
    let number = part.strip_prefix(prefix).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Outer {
        #[serde(with = "super")]
        figures: IndexMap<String, u32>,
    }

    #[test]
    fn names_are_divided_at_cpus_nodes_zones_and_orders() {
        for (name, expected) in [
            ("refills", "refills"),
            ("cpu12_drains_high", "cpu12 drains_high"),
            ("node0_dma32_free_blocks_start_order10", "node0 dma32 free_blocks_start order10"),
            ("requests_order3_movable", "requests order3 movable"),
            ("order9_allocatable_mean", "order9_allocatable_mean"),
            ("cpus_waited", "cpus_waited"),
            ("node0", "node0"),
            ("in_order_of", "in_order_of"),
        ] {
            assert_eq!(parts(name).join(" "), expected);
        }
    }

    #[test]
    fn a_tree_reads_back_as_the_same_figures() {
        let names = ["used_order0", "used_order1", "cpu0_hits", "free", "free_order1"];
        let figures = names.into_iter().map(str::to_owned).zip(1..).collect();
        let text = serde_json::to_string(&Outer { figures }).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"figures":{"used":{"order0":1,"order1":2},"cpu0":{"hits":3},"#,
                r#""free":4,"free_order1":5}}"#
            )
        );
        let read: Outer = serde_json::from_str(&text).unwrap();
        assert!(read.figures.keys().eq(names));
    }
}
