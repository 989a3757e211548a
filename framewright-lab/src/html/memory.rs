//! States of memory: a map of pageblocks for each side, moved by one slider, and the use of pageblocks over time.

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::chart::figure;
use crate::{
    plot::{Axis, Line, Panel},
    report::{CellUse, MemoryStates, Point},
};

/// Width of a map in the picture, as in the script.
const WIDTH: usize = 480;

/// The maps with their slider, and a chart for each side. The picture is the same without a script, and in print.
pub(super) fn render(sides: &[MemoryStates], picture: Option<&str>) -> Markup {
    let sides: Vec<&MemoryStates> = sides.iter().filter(|side| !side.states.is_empty()).collect();
    html! {
        @if let Some(first) = sides.first() {
            div.memory-states hidden {
                div.state { input type="range" min="0" value="0" aria-label="state of memory"; output {} }
                div.maps { @for side in &sides { (map(side)) } }
                div.keys {
                    @for of in used(&sides) {
                        span { i style=(format!("background:{}", of.colour)) {} (of.name) }
                    }
                }
                p.note {
                    @match first.group {
                        1 => "A cell is a pageblock, filled by its share in use; pale is free.",
                        group => { "A cell is " (group) " pageblocks, filled by their share in use; pale is free." }
                    }
                }
                script type="application/json" { (PreEscaped(data(&sides))) }
            }
            h3 { "Pageblocks by migratetype over time" }
            div.charts { @for side in &sides { (uses(side)) } }
        }
        @if let Some(picture) = picture {
            h3 { "The whole time in one picture" }
            div.scroll.picture { (PreEscaped(inline(picture))) }
        }
    }
}

fn map(side: &MemoryStates) -> Markup {
    let cells = side.states.first().map_or(0, |state| state.cells.len() / 2);
    let height = cells.div_ceil(side.columns.max(1)) * WIDTH / side.columns.max(1);
    html! {
        figure {
            figcaption { (side.label) }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(format!("pageblocks, {}", side.label)) {}
        }
    }
}

/// The uses that any cell has.
fn used(sides: &[&MemoryStates]) -> Vec<CellUse> {
    let has = |of: &CellUse| {
        sides.iter().flat_map(|side| &side.states).any(|state| state.cells.contains(of.letter))
    };
    sides.first().map_or_else(Vec::new, |side| side.uses.iter().copied().filter(has).collect())
}

/// The states as JSON, in a form that cannot end the script element.
fn data(sides: &[&MemoryStates]) -> String {
    let uses: serde_json::Map<String, Value> = sides
        .iter()
        .flat_map(|side| &side.uses)
        .map(|of| (of.letter.to_string(), json!([of.name, of.colour])))
        .collect();
    let side = |side: &&MemoryStates| {
        let state = |state: &crate::report::MemoryState| json!({ "time": state.time, "cells": state.cells });
        let states: Vec<Value> = side.states.iter().map(state).collect();
        json!({ "label": side.label, "columns": side.columns, "group": side.group, "states": states })
    };
    let sides: Vec<Value> = sides.iter().map(side).collect();
    json!({ "uses": uses, "sides": sides }).to_string().replace('<', "\\u003c")
}

/// The letters of the uses, in the order in which a chart gives colours to its lines. In this order, a use
/// has the same colour in a chart as in the maps.
const LINES: [char; 6] = ['m', 'u', 'h', 'a', 'r', 'o'];

/// The number of pageblocks of each use, state by state. A line without points keeps the colour of a use that no
/// pageblock has.
fn uses(side: &MemoryStates) -> Markup {
    let used = used(&[side]);
    let line = |letter: char| {
        let Some(of) = used.iter().find(|of| of.letter == letter) else {
            return Line { label: String::new(), points: Vec::new() };
        };
        let count = |cells: &str| (cells.matches(letter).count() * side.group) as f64;
        let states = (1..).zip(&side.states);
        let points = states.map(|(nth, state)| Point(f64::from(nth), count(&state.cells)));
        Line { label: of.name.to_owned(), points: points.collect() }
    };
    let panel = Panel {
        x: Axis::whole("state, in the order of time"),
        y: Axis::linear("pageblocks"),
        lines: LINES.into_iter().map(line).collect(),
    };
    figure(&side.label, &panel.drawn(), &panel)
}

/// A picture as a part of a page, which needs no name space.
fn inline(picture: &str) -> String {
    picture.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)
}
