//! A report as one page of HTML. Styles, script and pictures are in the page: it works from a file, without a network.
//!
//! The page is readable without its script. The script sorts tables, shows values under the pointer, hides lines of
//! charts, and moves through the states of memory. Pictures follow the light or dark scheme of the reader.
//!
//! | module      | job                                                      |
//! |-------------|----------------------------------------------------------|
//! | `figures`   | figures of the runs as tables: all, by order, by CPU     |
//! | `published` | published figures beside ours, as tables                 |
//! | `settings`  | settings that differ from their defaults                 |
//! | `chart`     | series as charts                                         |
//! | `free`      | free memory over time as charts                          |
//! | `memory`    | states of memory as maps, with a slider                  |
//! | `times`     | times as histograms                                      |
//! | `table`     | a table with header cells                                |
//!
//! The same report gives the same bytes.

mod chart;
mod figures;
mod free;
mod memory;
mod published;
mod settings;
mod table;
mod times;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    plot::{Axis, Panel},
    report::{Measured, MemoryStates, Report, Times, Tone, Verdict},
    samples::Sample,
};
use table::{Cell, Table};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The content of a page besides the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    /// Whether the figures are the library's: settings and the verdict are shown.
    pub of_library: bool,
    /// The horizontal axis of the series.
    pub time: Axis,
    /// Lines below the verdict, each with its subject.
    pub summary: Vec<(String, String)>,
    /// Labels of runs that are shown without a judgement.
    pub beside: Vec<String>,
    /// The memory over time by side: drawn as free memory, besides the series.
    pub samples: Vec<(String, Vec<Sample>)>,
    /// Charts besides those of the series, with their titles.
    pub charts: Vec<(String, Panel)>,
    /// Tables besides those of the figures.
    pub listings: Vec<Listing>,
    /// Times as histograms.
    pub times: Vec<Times>,
    /// States of memory by side.
    pub memory: Vec<MemoryStates>,
    /// The picture of memory, as SVG.
    pub picture: Option<String>,
    /// The result as the terminal shows it, without colours.
    pub text: String,
}

impl Default for Details {
    fn default() -> Self {
        Self {
            of_library: true,
            time: Axis::linear("time"),
            summary: Vec::new(),
            beside: Vec::new(),
            samples: Vec::new(),
            charts: Vec::new(),
            listings: Vec::new(),
            times: Vec::new(),
            memory: Vec::new(),
            picture: None,
            text: String::new(),
        }
    }
}

impl Details {
    /// Latencies, snapshots and samples of memory, and the picture of `measured`.
    #[must_use]
    pub fn of(measured: &Measured) -> Self {
        let Measured { times, memory, samples, picture, .. } = measured.clone();
        Self { times, memory, samples, picture, ..Self::default() }
    }
}

/// A table of texts. Texts that are numbers are sorted as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Its title.
    pub title: String,
    /// The meaning of its columns; empty if the titles say it.
    pub note: String,
    /// Titles of its columns.
    pub header: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// A part of the page: its name in links, its title, its content.
struct Section {
    id: &'static str,
    title: &'static str,
    content: Markup,
}

/// The report as a page.
#[must_use]
pub fn page(report: &Report, details: &Details) -> String {
    let sections = sections(report, details);
    let title = format!("{} on {}", report.workload, report.machine);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (head(report, details)) }
                nav aria-label="sections" {
                    @for section in &sections { a href=(format!("#{}", section.id)) { (section.title) } }
                }
                main {
                    @for section in &sections {
                        section id=(section.id) {
                            h2 { (section.title) }
                            (section.content)
                        }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The sections that have any content, in order.
fn sections(report: &Report, details: &Details) -> Vec<Section> {
    let section = |id, title, content| Section { id, title, content };
    let all = [
        section("checks", "Checks", checks(&report.verdict)),
        section("settings", "Settings", settings(report, details)),
        section("published", "Published figures", published::render(&report.published)),
        section("figures", "Figures", figures::render(report, &details.beside)),
        section("seeds", "Over seeds", figures::over_seeds(report)),
        section("series", "Series", series(report, details)),
        section("memory", "Memory", memory::render(&details.memory, details.picture.as_deref())),
        section("times", "Times", times::render(&details.times)),
        section("more", "Details", listings(&details.listings)),
        section("orders", "By order", figures::by_order(report)),
        section("cpus", "By CPU", figures::by_cpu(report)),
        section("notes", "Notes", notes(&report.notes)),
        section("text", "As text", text(&details.text)),
    ];
    all.into_iter().filter(|section| !section.content.0.is_empty()).collect()
}

/// The settings, if the report is of the library.
fn settings(report: &Report, details: &Details) -> Markup {
    if details.of_library {
        settings::render(report)
    } else {
        html! {}
    }
}

/// Charts of all series, of free memory, and further ones.
fn series(report: &Report, details: &Details) -> Markup {
    let free = details.samples.iter().flat_map(|(label, samples)| free::charts(label, samples));
    chart::render(report, &details.time, free.chain(details.charts.iter().cloned()))
}

/// Workload, command, verdict, machine, seeds and version.
fn head(report: &Report, details: &Details) -> Markup {
    let seeds = report.seed.map(|seed| match report.seeds {
        1 => seed.to_string(),
        seeds => format!("{seeds} seeds from {seed} on"),
    });
    html! {
        h1 { (report.workload) }
        p { code { (report.command.join(" ")) } }
        @if details.of_library { (verdict(&report.verdict)) }
        dl.facts {
            @for (about, words) in &details.summary { dt { (about) } dd { (words) } }
            dt { "machine" } dd { (report.machine) }
            @if let Some(seeds) = seeds { dt { "seed" } dd { (seeds) } }
            dt { "version" } dd { "framewright " (report.framewright) }
        }
    }
}

fn verdict(verdict: &Verdict) -> Markup {
    let failed = verdict.checks.iter().filter(|check| !check.passed).count();
    let words = match (&*verdict.words, verdict.passed, verdict.checks.len()) {
        ("", true, 0) => "nothing was checked".to_owned(),
        ("", true, 1) => "passed: the check holds".to_owned(),
        ("", true, all) => format!("passed: all {all} checks hold"),
        ("", false, 1) => "failed: the check does not hold".to_owned(),
        ("", false, all) => format!("failed: {failed} of {all} checks do not hold"),
        (words, true, _) => format!("passed: {words}"),
        (words, false, _) => format!("failed: {words}"),
    };
    let class = if verdict.passed { "verdict good" } else { "verdict bad" };
    html! { p class=(class) { (words) } }
}

fn checks(verdict: &Verdict) -> Markup {
    let mut table = Table::new(["check", "result", "figures that decided it"]);
    for check in &verdict.checks {
        let (word, tone) =
            if check.passed { ("holds", Tone::Plain) } else { ("DOES NOT HOLD", Tone::Bad) };
        let result = Cell::text(word).judged(None, tone);
        table.row([Cell::text(&*check.name), result, Cell::text(&*check.detail)]);
    }
    table.render("")
}

fn listings(all: &[Listing]) -> Markup {
    html! {
        @for it in all.iter().filter(|it| !it.rows.is_empty()) {
            (listing(it).render(&it.title))
            @if !it.note.is_empty() { p.note { (it.note) } }
        }
    }
}

fn listing(listing: &Listing) -> Table {
    let cell = |text: &String| match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Cell::number(number, &**text),
        _ => Cell::text(&**text),
    };
    let mut table = Table::new(listing.header.iter().map(String::as_str));
    listing.rows.iter().for_each(|row| table.row(row.iter().map(cell)));
    table
}

fn notes(notes: &[String]) -> Markup {
    html! {
        @if !notes.is_empty() {
            ul { @for note in notes { li { (note) } } }
        }
    }
}

fn text(text: &str) -> Markup {
    html! {
        @if !text.is_empty() {
            details {
                summary { "The result as the program prints it" }
                pre { (text) }
            }
        }
    }
}

/// The name of a figure in words.
fn words(name: &str) -> String {
    name.replace('_', " ")
}
