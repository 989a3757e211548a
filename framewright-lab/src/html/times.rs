//! Times as histograms: a row for each power of two, and a bar for each side.

use maud::{Markup, html};

use super::table::{Cell, Table};
use crate::report::{Times, scaled_nanos};

/// A histogram for each kind of times.
pub(super) fn render(times: &[Times]) -> Markup {
    html! { @for times in times { (table(times).render(&times.title)) } }
}

fn table(times: &Times) -> Table {
    let header =
        times.sides.iter().flat_map(|(label, _)| [label.clone(), format!("{label}: number")]);
    let mut table = Table::new(["shorter than".to_owned()].into_iter().chain(header));
    let all = || times.sides.iter().flat_map(|(_, nanos)| nanos.iter().copied().map(slot));
    let (Some(least), Some(most)) = (all().min(), all().max()) else { return table };
    let count = |nanos: &[u64], wanted: u32| nanos.iter().filter(|it| slot(**it) == wanted).count();
    let sides = || times.sides.iter().map(|(_, nanos)| nanos.as_slice());
    let largest = (least..=most).flat_map(|at| sides().map(move |nanos| count(nanos, at))).max();
    for at in least..=most {
        let end = 2_f64.powi(at as i32);
        let cells = sides().flat_map(|nanos| {
            let count = count(nanos, at);
            let share = count as f64 / largest.unwrap_or(1).max(1) as f64;
            [Cell::bar(share), Cell::count(count as u64)]
        });
        table.row([Cell::number(end, scaled_nanos(end))].into_iter().chain(cells));
    }
    table
}

/// The power of two above a time.
fn slot(nanos: u64) -> u32 {
    u64::BITS - nanos.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_times_below_a_power_of_two() {
        let sides = vec![("base".to_owned(), vec![5, 7, 8]), ("vs".to_owned(), vec![])];
        let text = render(&[Times { title: "t".into(), sides }]).into_string();
        assert!(text.contains("8.00 ns") && text.contains("16.0 ns"), "{text}");
        assert!(text.contains("width:100.0%") && text.contains("width:50.0%"), "{text}");
        assert_eq!(text.matches("<tr>").count(), 3);
    }
}
