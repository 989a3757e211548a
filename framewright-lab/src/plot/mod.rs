//! Plots: series of a report as lines, in one self-contained SVG.
//!
//! A [`Plot`] is a title and panels below one another; a [`Panel`] is two axes and labelled lines.
//! Lines are told apart by colour (safe for the colour-blind), by the shape of their points (safe
//! for a printer), and by their labels, which stand at their ends: no eye has to travel to a legend
//! and back. Every line is narrower than those below it, so that lines which coincide are all seen.
//!
//! | module   | job                                                     |
//! |----------|---------------------------------------------------------|
//! | `axis`   | where ticks are, and what stands at them                |
//! | `draw`   | the picture, through `plotters`                         |
//!
//! Nothing here knows the time, the terminal or fonts: the same plot gives the same bytes.

mod axis;
mod draw;
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
    /// Evenly, with ticks at whole numbers: what there is no half of.
    Whole,
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

    /// An axis with evenly spread values that are whole numbers.
    pub fn whole(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Whole }
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
    /// The series called `name` of every run that has it, labelled by what tells the runs apart.
    pub fn of_series(runs: &[Run], name: &str, x: Axis, y: Axis) -> Self {
        let line = |run: &Run| {
            let points = run.series.get(name)?.clone();
            Some(Line { label: label(run, runs), points })
        };
        Self { x, y, lines: runs.iter().filter_map(line).collect() }
    }

    /// The same with every `x` multiplied: what is counted in one unit, on an axis with another.
    #[must_use]
    pub fn with_x_times(mut self, factor: f64) -> Self {
        for point in self.lines.iter_mut().flat_map(|line| &mut line.points) {
            point.0 *= factor;
        }
        self
    }
}

/// Who a run is in a picture: where the table says `base` and `vs`, the settings in which they differ.
fn label(run: &Run, runs: &[Run]) -> String {
    let who = |run: &Run| {
        let side = ["base", "vs"].into_iter().find_map(|side| run.label.strip_suffix(side));
        side.map(|who| who.trim_end().to_owned())
    };
    let Some(own) = who(run) else { return run.label.clone() };
    let others: Vec<&Run> = runs.iter().filter(|run| who(run).as_ref() == Some(&own)).collect();
    let differs = |(key, value): &(&String, &String)| {
        others.iter().any(|run| run.settings.get(*key) != Some(*value))
    };
    let settings: Vec<String> =
        run.settings.iter().filter(differs).map(|(key, value)| format!("{key}={value}")).collect();
    match settings.is_empty() {
        true => run.label.clone(),
        false => format!("{own} {}", settings.join(", ")).trim_start().to_owned(),
    }
}

impl Plot {
    /// The picture as SVG. Points that are no numbers, or have no place on their axis, are left out.
    pub fn svg(&self) -> String {
        draw::draw(self)
    }
}
