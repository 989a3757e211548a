//! Comparisons of tables.

use super::*;
use crate::report::Style;

#[test]
fn a_figure_is_compared_over_seeds() {
    for format in formats() {
        let (place, plan) = (Place::new(), plan(MATRIX));
        let table = format!("all.{format}");
        let sweep = place.sweep(&plan, &ALL, &table);
        // Small lists are best on all machines but m0, which has no difference.
        let work = |entry: &Entry<'_>| {
            let command = entry.command();
            let size = ["=1 ", "=2 ", "=4 ", "=8 "]
                .iter()
                .position(|it| command.contains(&format!("a.x{it}")));
            let size = size.unwrap() as f64;
            let slope = if entry.machine() == "m0" { 0.0 } else { 100.0 };
            let mut figures = work(entry)?;
            figures[0].value = 1000.0 + slope * size + entry.seed() as f64;
            Ok(figures)
        };
        sweep.measure(1, &work, &mut |_, _| ()).unwrap();
        sweep.write().unwrap();
        let compared = compare(&place.path(&table), "a.x", "stall_ns").unwrap();
        let text = compared.table(Style::Plain).to_string();
        let words =
            |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        assert_eq!(lines[0], "machine a.y 1 2 4 8 best");
        assert_eq!(lines.len(), 1 + 3 * 2);
        let same = "1.00 µs ± 2.48 ns";
        assert_eq!(lines[1], format!("m0 auto {same} {same} {same} {same} 1, 2, 4, 8"));
        assert_eq!(
            lines[3],
            "m1 auto 1.00 µs ± 2.48 ns 1.10 µs ± 2.48 ns 1.20 µs ± 2.48 ns 1.30 µs ± 2.48 ns 1"
        );
        let title = compared.title();
        assert!(title.starts_with("stall_ns by a.x (mean over seeds"), "{title}");
        assert!(title.contains("lowest mean"), "{title}");
        let svg = compared.plot("a table").svg();
        assert!(svg.contains("m0: stall_ns, ns") && svg.contains("a.y 31"), "{svg}");
        let by = compare(&place.path(&table), "machine", "pages").unwrap();
        assert!(by.table(Style::Plain).to_string().contains("m2"));
        if format == "csv" {
            let text = String::from_utf8(place.bytes(&table)).unwrap();
            let rows = text.split_once('\n').unwrap().1;
            fs::write(place.path("twice.csv"), format!("{text}{rows}")).unwrap();
            let error = compare(&place.path("twice.csv"), "a.x", "pages").unwrap_err().to_string();
            assert!(error.contains("has the figure a second time"), "{error}");
        }
        let error = |by, figure| compare(&place.path(&table), by, figure).unwrap_err().to_string();
        assert!(
            error("a.xx", "pages")
                .contains("--by a.xx: no runs differ in it; the nearest is 'a.x'")
        );
        assert!(
            error("a.x", "stall")
                .contains("--figure stall: there is no such figure; the nearest is 'stall_ns'")
        );
    }
}
