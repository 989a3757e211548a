//! The recorded requests as tables: by order and migratetype, by flags, and by process.

use std::collections::BTreeSet;

use framewright_lab::{
    replay::Requests,
    report::{Style, Table, decimal},
};

use super::runs::migratetype;
use crate::print::bold;

/// Flags and processes that are shown by name.
const SHOWN: usize = 8;
/// Characters of the longest bar.
const BAR: u64 = 24;

pub(super) fn show(requests: &Requests, style: Style) -> String {
    format!(
        "{}\n{}\n{}\n{}",
        bold("requests in the recording", style),
        by_order(requests, style),
        shares("flags", &requests.by_flags(SHOWN), requests.all(), style),
        shares("process", &requests.by_process(SHOWN), requests.all(), style)
    )
}

/// A column for each order, a row for each migratetype.
fn by_order(requests: &Requests, style: Style) -> Table {
    let orders: BTreeSet<u8> = requests.by_order().map(|((order, _), _)| order).collect();
    let types: BTreeSet<u8> = requests.by_order().map(|((_, of), _)| of).collect();
    let header: Vec<String> = orders.iter().map(|order| format!("order {order}")).collect();
    let header = std::iter::once("migratetype").chain(header.iter().map(String::as_str));
    let mut table = Table::new(header.chain(["all"]), style);
    for of in types {
        let number = |wanted: u8| {
            let mut found =
                requests.by_order().filter(|((order, it), _)| (*order, *it) == (wanted, of));
            found.next().map_or(0, |(_, requests)| requests)
        };
        let numbers: Vec<u64> = orders.iter().copied().map(number).collect();
        let all: u64 = numbers.iter().sum();
        let cells = numbers.into_iter().chain([all]).map(|requests| requests.to_string());
        table.plain_row(std::iter::once(migratetype(of).to_owned()).chain(cells));
    }
    table
}

/// A row for each name, with a bar that shows its share of `all` requests.
fn shares(title: &str, named: &[(String, u64)], all: u64, style: Style) -> Table {
    let most = named.iter().map(|(_, requests)| *requests).max().unwrap_or(0).max(1);
    let mut table = Table::new([title, "requests", "share", ""], style).left_aligned(3);
    for (name, requests) in named {
        let share = decimal(*requests as f64 * 100.0 / all.max(1) as f64, 1);
        let bar = "█".repeat((requests * BAR).div_ceil(most) as usize);
        table.plain_row([name.clone(), requests.to_string(), format!("{share}%"), bar]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_no_name_is_without_one() {
        let named = [("most".to_owned(), 1000), ("least".to_owned(), 1)];
        let text = shares("process", &named, 2000, Style::Plain).to_string();
        let bars: Vec<usize> = text.lines().skip(1).map(|line| line.matches('█').count()).collect();
        assert_eq!(bars, [BAR as usize, 1], "{text}");
        assert!(text.contains("50.0%"), "{text}");
    }
}
