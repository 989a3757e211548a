//! Plots: series of a report as lines, in one self-contained SVG.
//!
//! A [`Plot`] is a title and panels below one another; a [`Panel`] is two axes and labelled lines.
//! Lines differ in colour (also for colour-blind readers) and in the shape of their points (also in
//! print). They have labels at their ends instead of a legend. A line is wider the more lines are drawn
//! over it, up to three, so that up to four coinciding lines are all visible.
//!
//! | module   | job                                                     |
//! |----------|---------------------------------------------------------|
//! | `axis`   | ticks of axes and their labels                          |
//! | `draw`   | the picture, through `plotters`                         |
//!
//! The output does not depend on the time, the terminal or fonts: the same plot gives the same
//! bytes.

mod axis;
mod draw;
#[cfg(test)]
mod tests;

use crate::report::{Point, Run};

/// A picture: panels below one another, one width.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its subject; the top line.
    pub title: String,
    /// Its source: the command, the machine, the seeds; the line below the title.
    pub subtitle: String,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
}

/// Two axes and the lines between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis; if it is linear, it begins at zero.
    pub y: Axis,
    /// The lines, in the order of their colours.
    pub lines: Vec<Line>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The quantity, with its unit: `zone-lock wait, % of all cycles`.
    pub label: String,
    /// The scale of values.
    pub scale: Scale,
}

/// The scale of values along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Linear, with ticks at whole numbers only.
    Whole,
    /// Logarithmic, with ticks at powers of two: CPU counts. Values above zero only.
    Doubling,
    /// Logarithmic, with ticks at powers of ten. Values above zero only.
    Decades,
}

/// A panel as SVG, in parts that a page can show and hide.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// The elements of its axes.
    pub axes: String,
    /// Its lines, in the order in which they are drawn.
    pub lines: Vec<DrawnLine>,
}

/// A line as SVG.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnLine {
    /// Its label.
    pub label: String,
    /// Its colour, as in CSS.
    pub colour: String,
    /// The elements of the line and its label.
    pub svg: String,
    /// Its points: the place in pixels, and the values.
    pub points: Vec<((i32, i32), (f64, f64))>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its label.
    pub label: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), scale: Scale::Linear }
    }

    /// A linear axis for whole numbers.
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
    /// The series called `name` of every run that has it. Labels are the names of the runs; those of `base`
    /// and `vs` also have the settings in which these differ.
    pub fn of_series(runs: &[Run], name: &str, x: Axis, y: Axis) -> Self {
        let line = |run: &Run| {
            let points = run.series.get(name)?.clone();
            Some(Line { label: label(run, runs), points })
        };
        Self { x, y, lines: runs.iter().filter_map(line).collect() }
    }

    /// The panel as SVG, in parts.
    pub fn drawn(&self) -> Drawn {
        draw::parts(self)
    }

    /// This panel with every `x` multiplied by `factor`, to change its unit.
    #[must_use]
    pub fn with_x_times(mut self, factor: f64) -> Self {
        for point in self.lines.iter_mut().flat_map(|line| &mut line.points) {
            point.0 *= factor;
        }
        self
    }

    /// This panel with every `y` multiplied by `factor`.
    #[must_use]
    pub fn with_y_times(mut self, factor: f64) -> Self {
        for point in self.lines.iter_mut().flat_map(|line| &mut line.points) {
            point.1 *= factor;
        }
        self
    }
}

/// The label of a run: its name in the tables; for `base` and `vs`, also the settings in which they differ.
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
        false => format!("{}: {}", run.label, settings.join(", ")),
    }
}

impl Plot {
    /// The picture as SVG. Points without a number, or without a position on their axis, are
    /// omitted.
    pub fn svg(&self) -> String {
        draw::draw(self)
    }
}
