//! Plots: series of a report as lines, in one self-contained SVG.
//!
//! A [`Plot`] is a title and panels below one another; a [`Panel`] is two axes and labelled lines.
//! Lines are told apart by colour (safe for the colour-blind), by the shape of their points (safe
//! for a printer), and by their labels, which stand at their ends: no eye has to travel to a legend
//! and back.
//!
//! | module   | job                                                     |
//! |----------|---------------------------------------------------------|
//! | `axis`   | where ticks are, and what stands at them                |
//! | `labels` | labels at the ends of lines, moved apart where they meet |
//! | `draw`   | the picture, through `plotters`                         |
//!
//! Nothing here knows the time, the terminal or fonts: the same plot gives the same bytes.

mod axis;
mod draw;
mod labels;
#[cfg(test)]
mod tests;

use crate::report::{Point, Run};

/// A picture: panels below one another, one width.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows; stands above everything.
    pub title: String,
    /// Where it comes from: the command, the machine, the seeds; stands below the title.
    pub subtitle: String,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
}

/// Two axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// To the right.
    pub x: Axis,
    /// Upwards; if it is linear, it begins at zero.
    pub y: Axis,
    /// The lines, in the order of their colours.
    pub lines: Vec<Line>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it counts, with the unit: `zone-lock wait, % of all cycles`.
    pub label: String,
    /// How values are spread.
    pub scale: Scale,
}

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm, with ticks at powers of two: numbers of CPUs. Values above zero only.
    Doubling,
    /// By their logarithm, with ticks at powers of ten: what grows with CPUs. Values above zero only.
    Decades,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it is.
    pub label: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

impl Axis {
    /// An axis with evenly spread values.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Linear }
    }

    /// An axis with ticks at powers of two.
    pub fn doubling(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Doubling }
    }

    /// An axis with ticks at powers of ten.
    pub fn decades(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Decades }
    }
}

impl Panel {
    /// The series called `name` of every run that has it, labelled as the runs are.
    pub fn of_series<'r>(
        runs: impl IntoIterator<Item = &'r Run>,
        name: &str,
        x: Axis,
        y: Axis,
    ) -> Self {
        let line = |run: &Run| {
            let points = run.series.get(name)?.clone();
            Some(Line { label: run.label.clone(), points })
        };
        Self { x, y, lines: runs.into_iter().filter_map(line).collect() }
    }
}

impl Plot {
    /// The picture as SVG. Points that are no numbers, or have no place on their axis, are left out.
    pub fn svg(&self) -> String {
        draw::draw(self)
    }
}
