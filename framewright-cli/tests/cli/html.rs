//! `--html`: the page is complete, well-formed, and loads nothing.

use std::fs;

use predicates::prelude::*;

use crate::{framewright, stdout_of};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.txt.zst");
const PAGE_FAULT: [&str; 8] =
    ["run", "page-fault", "--machine", "uniform:2", "--window", "1ms", "--warm-up", "1ms"];
const HIGH_ALLOC: [&str; 7] =
    ["run", "high-alloc", "--machine", "uniform:2", "--memory", "256MiB", "--quick"];

/// The page of a command.
fn page_of(args: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    stdout_of(&[args, &["--html", path.to_str().unwrap()]].concat());
    let page = fs::read_to_string(path).unwrap();
    check_form(&page);
    page
}

/// Fails if an element is not closed, something is loaded from elsewhere, or a column has no header.
fn check_form(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>"));
    for loads in ["http://", "https://", " src=", "<link", "@import", "url("] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert_eq!(page.matches(" href=").count(), page.matches(" href=\"#").count());
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some((_, tag)) = rest.split_once('<') {
        let end = end_of_tag(tag);
        let (inside, after) = (&tag[..end], &tag[end + 1..]);
        rest = after;
        let name = inside.split([' ', '\n', '/']).find(|part| !part.is_empty()).unwrap_or_default();
        if inside.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in {open:?}");
        } else if !inside.starts_with('!') && !inside.ends_with('/') && !is_void(name) {
            open.push(name);
        }
        // Contents of these two elements are not HTML.
        if matches!(inside.split(' ').next(), Some("script" | "style")) {
            let close = rest.find(&format!("</{name}>")).expect("it is closed");
            rest = &rest[close..];
        }
    }
    assert_eq!(open, [""; 0]);
    for table in page.split("<table>").skip(1) {
        let table = table.split_once("</table>").unwrap().0;
        let columns = table.matches("<th scope=\"col\"").count();
        let cells = |row: &str| row.matches("<td").count() + row.matches("<th").count();
        let mut rows = table.split("<tr>").skip(1);
        assert!(columns > 0 && rows.all(|row| cells(row) == columns), "{table}");
    }
}

/// The place of the `>` that ends a tag: not one in quotes.
fn end_of_tag(tag: &str) -> usize {
    let mut quoted = false;
    let end = tag.find(|it| {
        quoted ^= it == '"';
        it == '>' && !quoted
    });
    end.expect("a tag ends")
}

fn is_void(name: &str) -> bool {
    matches!(name, "meta" | "input" | "br")
}

#[test]
fn a_replay_has_its_verdict_charts_zones_and_fallbacks() {
    let page = page_of(&["replay", RECORDING, "--vs", "pcp.batch=31"]);
    for part in [
        "<dt>better</dt>",
        "passed: all 2 checks hold",
        "<th scope=\"row\">pcp.batch</th><td>auto</td>",
        "<figcaption>order9 allocatable</figcaption>",
        "<figcaption>free blocks by order, vs</figcaption>",
        "<figcaption>free frames by migratetype, base</figcaption>",
        "<caption>zone locks</caption>",
        "recorded kernel</td><td>order 0, ",
        "claim: the pageblock changes its type",
        "<caption>requests</caption>",
        "CPU 1",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn two_sides_are_beside_one_another_with_marks() {
    // Short lists always hold fewer frames, and have none more often.
    let page = page_of(&[&PAGE_FAULT[..], &["--vs", "pcp.high_fraction=100000"]].concat());
    assert!(page.contains("against the first column: "));
    assert!(page.contains("class=\"n good\"") && page.contains("class=\"n bad\""));
    assert!(page.contains("\u{25b2}") && page.contains("\u{25bc}"));
    assert!(page.contains(">framewright vs</th>") && page.contains(">list-buddy base</th>"));
}

#[test]
fn runs_on_simulated_machines_show_free_memory_over_time() {
    let run = |args: &str| page_of(&args.split(' ').collect::<Vec<_>>());
    let on = "--machine uniform:2 --window 5ms --warm-up 1ms --vs pcp.batch=31";
    let (ours, theirs) = ("framewright vs", Some("list-buddy base"));
    for (page, ours, theirs) in [
        (run(&format!("run page-fault {on}")), ours, theirs),
        (run(&format!("run kbuild {on}")), ours, theirs),
        (run(&format!("run socket-pairs {on}")), ours, theirs),
        (run("run mmap-read --machine uniform:2 --quick"), "framewright", None),
        (run(&HIGH_ALLOC.join(" ")), "framewright", None),
        #[cfg(feature = "full")]
        (
            run("run churn --machine uniform:2 --memory 64MiB --operations 100000 --occupancy 50"),
            "framewright, 50 % in use",
            Some("list-buddy, 50 % in use"),
        ),
    ] {
        let chart = |of: &str| {
            let caption = format!("<figcaption>{of}</figcaption>");
            page.split("<figure").find(|figure| figure.contains(&caption)).map(str::to_owned)
        };
        for side in [Some(ours), theirs].into_iter().flatten() {
            let chart = chart(&format!("free blocks by order, {side}")).expect(side);
            assert!(chart.contains("order 10") && chart.matches("],[").count() > 3, "{chart}");
        }
        let chart = chart(&format!("free frames by migratetype, {ours}")).expect(ours);
        assert!(chart.contains("movable") && chart.matches("],[").count() > 3, "{chart}");
    }
}

#[test]
fn high_alloc_has_a_map_of_memory_and_histograms() {
    let page = page_of(&HIGH_ALLOC);
    for part in [
        "<input type=\"range\"",
        "before the first pass",
        "Pageblocks by migratetype over time",
        "<caption>time of a request for a huge page, pass 3</caption>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_hunt_has_a_row_for_each_run() {
    let hunt = ["hunt", "take", "--bug", "unlocked-take", "--schedules", "2000"];
    assert!(page_of(&hunt).contains("take finds unlocked-take"));
}

#[test]
fn a_page_that_cannot_be_written_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (path, reason) in [("nowhere/x.html", "cannot write"), ("same", "--json and --html both")] {
        framewright(&["replay", RECORDING, "--json", "same", "--html", path])
            .current_dir(folder.path())
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(reason));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
