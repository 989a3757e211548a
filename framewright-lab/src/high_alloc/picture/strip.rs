//! A pass, as lines over time: each is all of memory at a moment, from left to right.

use super::{
    Cell, Snapshot,
    paint::{Paint, Point, colour, dot, text, text_before},
};

/// The height of a line.
const LINE: f64 = 3.0;
/// What stands above a strip.
const TITLE: f64 = 22.0;
/// Beside it stands the time.
const TIME: f64 = 52.0;
/// The most cells that a line has: narrower ones smear.
const MOST: usize = 512;

/// How high the strip of so many moments is.
pub(super) fn height(moments: usize) -> f64 {
    if moments == 0 { 0.0 } else { TITLE + moments as f64 * LINE }
}

/// Draws what was seen in a pass, within `wide`.
pub(super) fn strip(svg: &mut String, (left, top): Point, wide: f64, seen: &[&Snapshot]) {
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return };
    let group = first.cells.len().div_ceil(MOST);
    let each = if group > 1 { format!(", {group} at a point") } else { String::new() };
    let title = format!(
        "pass {}, {} requests: time from top to bottom, pageblocks from left to right{each}",
        last.pass, last.attempt
    );
    let (from, top) = (left + TIME, top + TITLE);
    text(svg, (from, top - 5.0), &title);
    let bottom = top + seen.len() as f64 * LINE;
    text_before(svg, (from - 6.0, top + 8.0), &seconds(first));
    if seen.len() > 6 {
        text_before(svg, (from - 6.0, bottom), &seconds(last));
    }
    let mut paint = Paint::default();
    let mut dots = String::new();
    for (at, snapshot) in seen.iter().enumerate() {
        let place = (from, top + at as f64 * LINE);
        line(&mut paint, &mut dots, place, wide - TIME, &snapshot.grouped(group));
    }
    paint.draw(svg);
    svg.push_str(&dots);
}

fn seconds(snapshot: &Snapshot) -> String {
    format!("{:.1} s", snapshot.seconds)
}

fn line(paint: &mut Paint, dots: &mut String, (left, y): Point, wide: f64, snapshot: &Snapshot) {
    let cells = &snapshot.cells;
    let each = wide / cells.len() as f64;
    let shade = |cell: &Cell| (colour(cell.of), 12 + 22 * (cell.full * 4.0).round() as u32);
    let mut at = 0;
    // Neighbours that look the same are one rectangle.
    while at < cells.len() {
        let first = shade(&cells[at]);
        let run = cells[at..].iter().take_while(|&cell| shade(cell) == first).count();
        paint.rect((left + at as f64 * each, y), (run as f64 * each, LINE), first);
        at += run;
    }
    for of in &snapshot.scanners {
        for (which, at) in [of.migrate_async, of.migrate_sync, of.free].into_iter().enumerate() {
            let x = (at as f64 * each).clamp(LINE / 2.0, wide - LINE / 2.0);
            dot(dots, (left + x, y + LINE / 2.0), which);
        }
    }
}
