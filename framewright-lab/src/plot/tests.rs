//! The drawing is complete, and the same each time.

use super::*;

fn line(label: &str, points: &[(f64, f64)]) -> Line {
    Line { label: label.into(), points: points.iter().map(|&(x, y)| Point(x, y)).collect() }
}

/// Throughput and lock wait of two designs, roughly as in a simulation.
fn scaling() -> Plot {
    let cpus = [1.0, 2.0, 4.0, 8.0, 16.0, 28.0, 56.0, 112.0, 224.0, 512.0];
    let curve = |value: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        cpus.iter().map(|&cpus| (cpus, value(cpus))).collect()
    };
    let x = Axis::doubling("CPUs");
    let throughput = Panel {
        x: x.clone(),
        y: Axis::decades("page faults per second"),
        lines: vec![
            line("framewright", &curve(&|cpus| 4.7e5 * cpus * (1.0 - cpus / 9000.0))),
            line("list-buddy", &curve(&|cpus| 4.4e5 * cpus / (1.0 + cpus / 18.0))),
        ],
    };
    let wait = Panel {
        x,
        y: Axis::linear("waiting for the zone lock, % of all cycles"),
        lines: vec![
            line("framewright", &curve(&|cpus| cpus / 200.0)),
            line("list-buddy", &curve(&|cpus| 88.0 * cpus / (cpus + 12.0))),
            line("list-buddy, select-before-lock", &curve(&|cpus| 86.0 * cpus / (cpus + 13.0))),
        ],
    };
    Plot {
        title: "page-fault on uniform:1 to uniform:512".into(),
        subtitle: "framewright run page-fault --machine uniform:1..512 --seed 1".into(),
        panels: vec![throughput, wait],
    }
}

#[test]
fn the_same_plot_is_the_same_bytes_and_has_its_labels() {
    let svg = scaling().svg();
    assert_eq!(svg, scaling().svg());
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for text in ["CPUs", "page faults per second", "framewright", "512", "10 M", "select-before"] {
        assert!(svg.contains(text), "{text} is missing");
    }
}

#[test]
fn a_long_line_has_few_marks() {
    let points: Vec<_> = (0..1000).map(|x| (f64::from(x), 1.0)).collect();
    let panel = Panel {
        x: Axis::linear("rounds"),
        y: Axis::linear("blocks"),
        lines: vec![line("framewright", &points)],
    };
    let plot = Plot { title: "many".into(), subtitle: String::new(), panels: vec![panel] };
    assert_eq!(plot.svg().matches("<circle").count(), 59);
}

#[test]
fn a_panel_in_parts_has_each_line_with_its_label_and_values_in_a_part_of_its_own() {
    let panel = &scaling().panels[1];
    let drawn = panel.drawn();
    assert!(drawn.axes.contains("CPUs") && !drawn.axes.contains("list-buddy"));
    for (part, line) in drawn.lines.iter().zip(&panel.lines) {
        assert_eq!((&part.label, part.points.len()), (&line.label, line.points.len()));
        assert!(part.svg.contains("<polyline") && !part.svg.contains("svg"), "{}", part.svg);
        assert!(part.points.iter().all(|((x, y), _)| (0..640).contains(x) && (0..320).contains(y)));
    }
    assert!(drawn.lines[0].svg.contains(">\nframewright\n<"), "{}", drawn.lines[0].svg);
}

#[test]
fn points_without_a_position_are_omitted() {
    let axis = Axis::linear("y & <unit>");
    for points in [
        &[][..],
        &[(1.0, f64::NAN)],
        &[(0.0, 1.0), (-1.0, 1.0), (f64::INFINITY, 1.0)],
        &[(4.0, 0.0)],
        &[(4.0, 1.0), (8.0, f64::INFINITY), (16.0, 3.0)],
    ] {
        let (linear, doubling) = (Axis::linear("x"), Axis::doubling("x"));
        let upwards = [axis.clone(), Axis { scale: Scale::Decades, ..axis.clone() }];
        for (x, y) in [linear, doubling].into_iter().zip(upwards) {
            let lines = vec![line("a", points), line("b", &[])];
            let panel = Panel { x, y, lines };
            let plot = Plot { title: String::new(), subtitle: String::new(), panels: vec![panel] };
            let svg = plot.svg();
            assert!(svg.contains("y &amp; &lt;unit&gt;") && !svg.contains("NaN"), "{svg}");
        }
    }
    let nothing = Plot { title: "t".into(), subtitle: String::new(), panels: Vec::new() };
    assert!(nothing.svg().ends_with("</svg>\n"));
}

#[test]
fn series_of_a_report_become_lines() {
    let mut runs = vec![Run { label: "a".into(), ..Run::default() }, Run::default()];
    runs[0].series.insert("pages_per_s".into(), vec![Point(1.0, 2.0)]);
    let panel = Panel::of_series(&runs, "pages_per_s", Axis::doubling("x"), Axis::linear("y"));
    assert_eq!(panel.lines, [line("a", &[(1.0, 2.0)])]);
}

#[test]
fn lines_are_labelled_by_their_differences() {
    let run = |label: &str, settings: &[(&str, &str)]| Run {
        label: label.into(),
        settings: settings.iter().map(|&(key, value)| (key.into(), value.into())).collect(),
        series: [("s".to_owned(), vec![Point(2.0, 1.0)])].into_iter().collect(),
        ..Run::default()
    };
    let panel = |runs: &[Run]| Panel::of_series(runs, "s", Axis::whole("x"), Axis::linear("y"));
    let labels = |runs: &[Run]| -> Vec<String> {
        panel(runs).lines.into_iter().map(|line| line.label).collect()
    };
    let sides = [("base", "off"), ("vs", "lazy")]
        .map(|(label, batching)| run(label, &[("tlb.batching", batching), ("pcp.batch", "31")]));
    assert_eq!(labels(&sides), ["base: tlb.batching=off", "vs: tlb.batching=lazy"]);
    let designs = [
        run("framewright base", &[("pcp.batch", "31")]),
        run("framewright vs", &[("pcp.batch", "63")]),
        run("list-buddy base", &[("lists", "31/186")]),
        run("list-buddy vs", &[("lists", "31/186")]),
    ];
    let expected = [
        "framewright base: pcp.batch=31",
        "framewright vs: pcp.batch=63",
        "list-buddy base",
        "list-buddy vs",
    ];
    assert_eq!(labels(&designs), expected);
    assert_eq!(labels(&[run("framewright", &[("pcp.batch", "31")])]), ["framewright"]);
    assert_eq!(panel(&sides).with_x_times(0.25).lines[0].points, [Point(0.5, 1.0)]);
    assert_eq!(panel(&sides).with_y_times(2.0).lines[0].points, [Point(2.0, 2.0)]);
}

#[test]
fn a_picture_of_one_point_says_so() {
    let drawn = |points: &[(f64, f64)]| {
        let lines = vec![line("a", points), line("b", &points[..1])];
        let panel = Panel { x: Axis::doubling("CPUs"), y: Axis::linear("y"), lines };
        Plot { title: String::new(), subtitle: String::new(), panels: vec![panel] }.svg()
    };
    let words = "one point for each line";
    assert!(drawn(&[(4.0, 1.0)]).contains(words));
    assert!(!drawn(&[(4.0, 1.0), (8.0, 2.0)]).contains(words));
}

/// The edge of a line below another is visible.
#[test]
fn coinciding_lines_are_all_visible() {
    let points = [(1.0, 1.0), (2.0, 3.0)];
    let lines = vec![line("a", &points), line("b", &points)];
    let panel = Panel { x: Axis::whole("x"), y: Axis::linear("y"), lines };
    let plot = Plot { title: String::new(), subtitle: String::new(), panels: vec![panel] };
    let svg = plot.svg();
    let widths: Vec<&str> = svg
        .split("<polyline ")
        .filter(|line| line.contains("#0072B2") || line.contains("#D55E00"))
        .filter_map(|line| line.split("stroke-width=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(widths, ["4", "2"], "{svg}");
}
