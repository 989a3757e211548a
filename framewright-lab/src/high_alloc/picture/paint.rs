//! Rectangles by colour, and text. All rectangles of a colour are one path: a picture has tens of thousands.

use std::fmt::Write;

use indexmap::IndexMap;

use framewright::MigrateType;

use super::Use;

/// A colour for what a pageblock is for.
pub(super) fn colour(of: Use) -> &'static str {
    match of {
        Use::Huge => "#1a7f37",
        Use::Of(MigrateType::Movable) => "#4c8eda",
        Use::Of(MigrateType::Reclaimable) => "#e69f00",
        Use::Of(MigrateType::Unmovable) => "#c0392b",
        Use::Of(MigrateType::HighAtomic) => "#8e44ad",
        Use::Of(_) => "#7f8c8d",
    }
}

/// A place or a size: to the right, and down.
pub(super) type Point = (f64, f64);

/// Rectangles that were collected, by colour and opacity in percent.
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
        // Writing to a string does not fail.
        let _ = write!(path, "M{x:.2} {y:.2}h{wide:.2}v{high:.2}h-{wide:.2}z");
    }

    /// Draws them.
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

/// How the three scanners of a zone are told apart: fill of a dot, colour of its edge, dashes of a frame.
pub(super) const SCANNERS: [(&str, &str, &str); 3] =
    [("black", "black", "none"), ("white", "black", "2"), ("#d00000", "#d00000", "none")];

/// A dot for a scanner.
pub(super) fn dot(svg: &mut String, (x, y): Point, which: usize) {
    let (fill, edge, _) = SCANNERS[which];
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\" fill=\"{fill}\" stroke=\"{edge}\" \
         stroke-width=\"0.6\"/>"
    );
}

/// A frame for a scanner.
pub(super) fn frame(svg: &mut String, (x, y): Point, size: f64, which: usize) {
    let (_, edge, dashes) = SCANNERS[which];
    let (x, y, size) = (x - 1.0, y - 1.0, size + 2.0);
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{size:.1}\" height=\"{size:.1}\" fill=\"none\" \
         stroke=\"{edge}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
    );
}

/// Text that begins at a place.
pub(super) fn text(svg: &mut String, (x, y): Point, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\">{text}</text>");
}

/// Text that ends at a place.
pub(super) fn text_before(svg: &mut String, (x, y): Point, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"end\">{text}</text>");
}

/// A heading.
pub(super) fn heading(svg: &mut String, at: Point, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text(svg, at, &format!("<tspan font-weight=\"bold\">{words}</tspan>"));
}
