//! The whole picture: titles, a legend, and a part per side.

use framewright::MigrateType;
use indexmap::IndexMap;
use std::fmt::Write;

use super::{Cell, Grid, Snapshot, Use};
use crate::high_alloc::picture;

const MARGIN: f64 = 24.0;
/// Width of the labels of a map, left of it.
const AXIS: f64 = 52.0;
/// Distance between the two maps, without labels.
const BETWEEN: f64 = 30.0;
const INNER: f64 = 2.0 * (AXIS + picture::WIDTH) + BETWEEN;
const WIDTH: f64 = INNER + 2.0 * MARGIN;
const LEGEND: f64 = 92.0;
/// Height of the titles above the maps of a side.
const TITLES: f64 = 42.0;
/// Size of the cells of the legend.
const SIZE: f64 = 13.0;
const PASSES: [u8; 3] = [1, 2, 3];

pub(super) const NAMES: [(Use, &str); 5] = [
    (Use::Of(MigrateType::Movable), "movable"),
    (Use::Of(MigrateType::Reclaimable), "reclaimable"),
    (Use::Of(MigrateType::Unmovable), "unmovable"),
    (Use::Of(MigrateType::HighAtomic), "high-atomic"),
    (Use::Huge, "huge page"),
];

/// Draws the snapshots of each side, in the order of time, under its name.
pub(in super::super) fn draw(title: &str, sides: &[(String, Vec<Snapshot>)]) -> String {
    let all = LEGEND + sides.iter().map(|(_, seen)| height(seen)).sum::<f64>() + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{all:.0}\" \
         viewBox=\"0 0 {WIDTH:.0} {all:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    heading(&mut svg, (MARGIN, 22.0), title);
    legend(&mut svg, sides);
    let mut top = LEGEND;
    for (label, seen) in sides {
        side(&mut svg, top, label, seen);
        top += height(seen);
    }
    svg.push_str("</svg>\n");
    svg
}

fn grid(seen: &[Snapshot]) -> Grid {
    Grid::of(seen.first().map_or(0, |snapshot| snapshot.cells.len()))
}

fn of_pass(seen: &[Snapshot], pass: u8) -> Vec<&Snapshot> {
    seen.iter().filter(|snapshot| snapshot.pass == pass).collect()
}

fn height(seen: &[Snapshot]) -> f64 {
    let strips = PASSES.map(|pass| picture::height(of_pass(seen, pass).len()));
    TITLES + grid(seen).height() + strips.iter().sum::<f64>() + 24.0
}

fn legend(svg: &mut String, sides: &[(String, Vec<Snapshot>)]) {
    let drawn = || sides.iter().flat_map(|(_, seen)| seen).flat_map(|snapshot| &snapshot.cells);
    let example = |of, skip| Cell { of, full: 0.7, skip, first: 0 };
    let used = NAMES.into_iter().filter(|(of, _)| drawn().any(|cell| cell.of == *of));
    let used = used.map(|(of, name)| (example(of, false), name));
    let skipped = drawn().find(|cell| cell.skip);
    let skipped = skipped.map(|cell| (example(cell.of, true), "skipped by compaction"));
    let mut x = MARGIN;
    for (cell, name) in used.chain(skipped) {
        picture::paint(svg, SIZE, [((x, 34.0), cell)].into_iter());
        text(svg, (x + SIZE + 5.0, 45.0), name);
        x += 34.0 + 6.4 * name.len() as f64;
    }
    let group = sides.iter().map(|(_, seen)| grid(seen).group).max().unwrap_or(1);
    let of = match group {
        1 => "a cell is a pageblock, filled by its share in use; pale is free".to_owned(),
        _ => format!(
            "a cell is {group} pageblocks, in the colour of most of them, filled by their share in use; pale is free"
        ),
    };
    let rest = "strips: a line per snapshot, dark is full; numbers are page frames";
    text(svg, (MARGIN, 64.0), &format!("{of}; {rest}"));
    if !sides.iter().flat_map(|(_, seen)| seen).any(|snapshot| !snapshot.scanners.is_empty()) {
        return;
    }
    let mut x = MARGIN + 3.0;
    for (which, name) in [
        "migrate scanner of asynchronous compaction",
        "migrate scanner of synchronous compaction (dashed frame)",
        "free scanner (dotted frame)",
    ]
    .into_iter()
    .enumerate()
    {
        dot(svg, (x, 77.0), which);
        text(svg, (x + 7.0, 81.0), name);
        x += 30.0 + 5.6 * name.len() as f64;
    }
}

fn side(svg: &mut String, top: f64, label: &str, seen: &[Snapshot]) {
    let first = of_pass(seen, 1);
    let (Some(before), Some(after)) = (seen.first(), first.last()) else { return };
    let grid = grid(seen);
    let left = MARGIN + AXIS;
    let right = left + picture::WIDTH + BETWEEN + AXIS;
    heading(svg, (MARGIN, top + 16.0), label);
    text(svg, (left, top + 34.0), "before the first pass");
    let asked = format!("after {} of the first pass", picture::requests(after.attempt));
    text(svg, (right, top + 34.0), &asked);
    picture::map(svg, (left, top + TITLES), grid, before);
    picture::map(svg, (right, top + TITLES), grid, after);
    let mut y = top + TITLES + grid.height();
    for pass in PASSES {
        let mine = of_pass(seen, pass);
        picture::strip(svg, (MARGIN, y), INNER, &mine);
        y += picture::height(mine.len());
    }
}

/// The colour of a use: colours that colour-blind readers can distinguish (Okabe and Ito).
pub(super) fn colour(of: Use) -> &'static str {
    match of {
        Use::Huge => "#009e73",
        Use::Of(MigrateType::Movable) => "#0072b2",
        Use::Of(MigrateType::Reclaimable) => "#e69f00",
        Use::Of(MigrateType::Unmovable) => "#d55e00",
        Use::Of(MigrateType::HighAtomic) => "#cc79a7",
        Use::Of(_) => "#7f7f7f",
    }
}

/// A position or a size: x and y.
pub(super) type Point = (f64, f64);

/// Rectangles, grouped by colour and opacity in percent.
#[derive(Default)]
pub(super) struct Paint(IndexMap<(&'static str, u32), String>);

impl Paint {
    /// Adds a rectangle.
    pub(super) fn rect(
        &mut self,
        (x, y): Point,
        (wide, high): Point,
        (colour, percent): (&'static str, u32),
    ) {
        let path = self.0.entry((colour, percent)).or_default();
        let [x, y, wide, high] = [x, y, wide, high].map(short);
        // Writing to a string does not fail.
        let _ = write!(path, "M{x} {y}h{wide}v{high}h-{wide}z");
    }

    /// Draws all rectangles.
    pub(super) fn draw(self, svg: &mut String) {
        for ((colour, percent), path) in self.0 {
            let opacity = f64::from(percent) / 100.0;
            let _ = writeln!(
                svg,
                "<path fill=\"{colour}\" fill-opacity=\"{opacity:.2}\" d=\"{path}\"/>"
            );
        }
    }
}

/// A number with at most two decimals, and without zeros at their end: a picture has tens of thousands of numbers.
fn short(number: f64) -> String {
    let digits = format!("{number:.2}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Dashes of the frames of the three scanners of a zone.
const DASHES: [&str; 3] = ["none", "5 2", "1.5 1.5"];

/// The mark of a scanner: a full disc, a ring, or a triangle. Marks differ in shape, not in colour.
pub(super) fn dot(svg: &mut String, (x, y): Point, which: usize) {
    let _ = match which {
        0 => writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\"/>"),
        1 => writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\" fill=\"white\" stroke=\"black\" \
             stroke-width=\"0.6\"/>"
        ),
        _ => writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1}l2.2 3.8h-4.4z\" stroke=\"white\" stroke-width=\"0.4\"/>",
            y - 2.0
        ),
    };
}

/// A frame for a scanner.
pub(super) fn frame(svg: &mut String, (x, y): Point, size: f64, which: usize) {
    let dashes = DASHES[which];
    let (x, y, size) = (x - 1.0, y - 1.0, size + 2.0);
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{size:.1}\" height=\"{size:.1}\" fill=\"none\" \
         stroke=\"black\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
    );
}

/// Text that starts at a position.
pub(super) fn text(svg: &mut String, (x, y): Point, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>");
}

/// Text that ends at a position.
pub(super) fn text_before(svg: &mut String, (x, y): Point, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"end\">{text}</text>");
}

/// Text in the middle of which is a position.
pub(super) fn text_centred(svg: &mut String, (x, y): Point, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"middle\">{text}</text>");
}

/// A heading.
pub(super) fn heading(svg: &mut String, at: Point, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text(svg, at, &format!("<tspan font-weight=\"bold\">{words}</tspan>"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::high_alloc::picture::tests::snapshot;

    fn drawn(pageblocks: usize) -> String {
        let seen = [1, 1, 2].map(|pass| snapshot(pass, pageblocks)).to_vec();
        draw("t", &[("a < b".to_owned(), seen)])
    }

    #[test]
    fn a_pageblock_is_a_cell_in_both_maps() {
        let svg = drawn(40);
        assert!(svg.contains("a &lt; b") && svg.contains("after 7 requests"));
        assert!(svg.contains("a cell is a pageblock") && svg.contains("1.5 s"));
        // A mark on each cell that compaction skips, and one in the legend; three scanners on every
        // line, framed in both maps, and in the legend.
        assert_eq!(svg.matches("r=\"1.95\"").count(), 2 * 40 + 1);
        assert_eq!(svg.matches("r=\"1.6\"").count(), 2 * 3 + 2);
        assert_eq!(svg.matches("l2.2 3.8h-4.4z").count(), 3 + 1);
        assert_eq!(svg.matches("stroke-width=\"2\"").count(), 2 * 3);
    }

    #[test]
    fn numbers_end_without_zeros() {
        assert_eq!([3.0, 12.5, 100.0, 0.004, 7.126].map(short), ["3", "12.5", "100", "0", "7.13"]);
    }

    #[test]
    fn a_picture_of_much_memory_is_no_larger() {
        let svg = drawn(131_072);
        assert!(svg.contains("a cell is 64 pageblocks") && svg.contains("256 at a point"));
        assert_eq!(svg.matches("<circle").count(), 2 * 2048 + 1 + 2 * 3 + 2);
    }

    #[test]
    fn the_legend_has_only_what_is_drawn() {
        let svg = drawn(40);
        assert!(svg.contains("movable") && svg.contains("free scanner"));
        assert!(!svg.contains("huge page") && !svg.contains("high-atomic"), "{svg}");
        let mut plain = snapshot(1, 40);
        plain.scanners.clear();
        plain.cells.iter_mut().for_each(|cell| cell.skip = false);
        let svg = draw("t", &[("a".to_owned(), vec![plain])]);
        assert!(!svg.contains("skipped") && !svg.contains("scanner"), "{svg}");
    }

    #[test]
    fn maps_and_strips_have_an_axis_of_page_frames() {
        let svg = drawn(40);
        // Two rows of both maps, and eight places of each of the two strips.
        assert_eq!(svg.matches(">0x200</text>").count(), 2 * 2 + 2 * 8);
    }
}
