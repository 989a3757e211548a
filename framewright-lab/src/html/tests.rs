//! The form of a page: its elements are closed, and nothing is loaded from elsewhere.

use super::*;
use crate::report::{Better, Check, CellUse, MemoryState, MemoryStates, Metric, Point, Run, Unit};

fn report() -> Report {
    let run = |label: &str, value: f64| {
        let mut run = Run { label: label.into(), ..Run::default() };
        let metric = |value| Metric::once(value, Unit::Count, Some(Better::Lower));
        for name in ["drains", "cpu0_drains", "node0_dma_free_order0", "free_order2"] {
            run.metrics.insert(name.into(), metric(value));
        }
        run.settings.insert("pcp.batch".into(), format!("{value}"));
        run.series.insert("free".into(), vec![Point(0.0, 1.0), Point(1.0, value)]);
        run
    };
    Report {
        framewright: "0.1.0".into(),
        command: vec!["framewright".into(), "<b>&\"".into()],
        workload: "w".into(),
        machine: "m".into(),
        seed: Some(1),
        seeds: 1,
        runs: vec![run("base", 10.0), run("vs", 7.0)],
        published: Vec::new(),
        verdict: Verdict::of(vec![Check::new("c", false, "why")]),
        notes: vec!["n".into()],
    }
}

#[test]
fn a_page_has_its_sections_and_marks_differences() {
    let page = page(&report(), &Details { text: "plain".into(), ..Details::default() });
    for id in ["checks", "settings", "figures", "series", "orders", "cpus", "notes", "text"] {
        assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
        assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    assert!(!page.contains("id=\"published\"") && !page.contains("id=\"memory\""));
    assert!(page.contains("failed: the check does not hold"));
    assert!(page.contains("&lt;b&gt;&amp;&quot;"));
    assert!(page.contains("7 <span class=\"gain\">30.00%"), "{page}");
    assert!(page.contains("vs against the first column: 1 better, 0 worse"), "{page}");
    assert_eq!(page.matches("<g class=\"line\">").count(), 2);
}

#[test]
fn memory_has_a_map_and_cannot_end_its_script() {
    let memory = |label: &str| MemoryStates {
        label: label.into(),
        columns: 2,
        group: 1,
        uses: vec![
            CellUse { letter: 'm', name: "movable", colour: "#0072b2" },
            CellUse { letter: 'r', name: "reclaimable", colour: "#e69f00" },
        ],
        states: vec![MemoryState { time: "now".into(), cells: "m5m9r0".into() }],
    };
    let details = Details { memory: vec![memory("</script>")], ..Details::default() };
    let page = page(&report(), &details);
    assert!(page.contains("\\u003c/script>") && page.contains("m5m9r0"));
    assert_eq!(page.matches("</script>").count(), 2);
    let line = r##"{"label":"reclaimable","colour":"#e69f00","points":["##.replace('"', "&quot;");
    assert!(page.contains(&line), "the colour of a chart is not that of the map");
    assert!(page.contains("viewBox=\"0 0 480 480\""), "{page}");
}
