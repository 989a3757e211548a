//! The picture, through `plotters`.

use plotters::{
    coord::{
        Shift,
        ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
        types::RangedCoordf64,
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use std::ops::{Range, RangeInclusive};

use super::{
    Drawn, DrawnLine, Line, Panel, Plot, Scale,
    axis::{Figures, Span, label_of},
};

/// Sizes in pixels.
const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 360;
const HEAD_HEIGHT: u32 = 64;
const LEFT: i32 = 76;
const TOP: i32 = 40;
const BOTTOM: i32 = 52;
/// Size of a panel in parts, on a page that has two beside one another.
const PART: (u32, u32) = (640, 320);
/// Maximum width of its labels. The page has the labels in full elsewhere.
const PART_RIGHT: i32 = 190;
/// Width of the labels at the ends of lines: as much as they need, within limits.
const RIGHT: RangeInclusive<i32> = 60..=360;
/// Approximate width of a character of a label.
const CHARACTER: f64 = 7.4;

/// A line is wider if other lines are drawn over it; at most this many count.
const WIDER: usize = 3;

const TEXT: RGBColor = RGBColor(0x26, 0x26, 0x26);
const FAINT: RGBColor = RGBColor(0x66, 0x66, 0x66);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

/// Colours that colour-blind readers can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];

/// Explains the absence of lines.
const ONE_POINT: &str = "one point for each line: there is nothing to connect";

type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Chart<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Ticked, Ticked>>;
type Done = Result<(), Box<dyn std::error::Error>>;

/// The picture as SVG.
pub(super) fn draw(plot: &Plot) -> String {
    let mut svg = String::new();
    let height = HEAD_HEIGHT + PANEL_HEIGHT * plot.panels.len() as u32;
    // Writing to a string does not fail.
    let drawn = draw_on(SVGBackend::with_string(&mut svg, (WIDTH, height)), plot);
    debug_assert!(drawn.is_ok(), "{drawn:?}");
    svg
}

fn draw_on(backend: SVGBackend<'_>, plot: &Plot) -> Done {
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    let (head, body) = area.split_vertically(HEAD_HEIGHT);
    let title = font(20.0).style(FontStyle::Bold).into_text_style(&head).color(&TEXT);
    head.draw_text(&plot.title, &title, (16, 14))?;
    head.draw_text(&plot.subtitle, &text(&head, 13.0, FAINT), (16, 42))?;
    let right = space_for_labels(plot.panels.iter().flat_map(|panel| &panel.lines));
    for (area, panel) in body.split_evenly((plot.panels.len(), 1)).iter().zip(&plot.panels) {
        draw_panel(area, panel, right)?;
    }
    area.present()?;
    Ok(())
}

/// An axis with ticks at these positions.
struct Ticked {
    axis: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ticked {
    fn new(span: &Span) -> Self {
        let ticks = span.ticks.iter().map(|tick| span.position(*tick)).collect();
        Self { axis: (span.position(span.least)..span.position(span.most)).into(), ticks }
    }
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

/// The layout of a panel.
struct Frame {
    x: Span,
    y: Span,
}

impl Frame {
    fn of(panel: &Panel) -> Self {
        let points = || panel.lines.iter().flat_map(|line| shown(line, panel));
        Self {
            x: Span::across(points().map(|(x, _)| x), panel.x.scale),
            y: Span::upwards(points().map(|(_, y)| y), panel.y.scale),
        }
    }

    fn position(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.position(x), self.y.position(y))
    }
}

/// The points of `line` that have a position.
fn shown(line: &Line, panel: &Panel) -> impl Iterator<Item = (f64, f64)> {
    let (across, upwards) = (panel.x.scale, panel.y.scale);
    let points = line.points.iter().map(|point| (point.0, point.1));
    points.filter(move |(x, y)| across.position(*x).is_some() && upwards.position(*y).is_some())
}

/// The width of the labels of these lines: one for all panels of a plot, so that their axes are aligned.
fn space_for_labels<'l>(lines: impl Iterator<Item = &'l Line>) -> i32 {
    let longest = lines.map(|line| line.label.chars().count()).max().unwrap_or(0);
    let space = (longest as f64 * CHARACTER) as i32 + 26;
    space.clamp(*RIGHT.start(), *RIGHT.end())
}

/// A label, shortened to this width.
fn within(label: &str, width: i32) -> String {
    let characters = (f64::from(width - 26) / CHARACTER).round() as usize;
    if label.chars().count() <= characters {
        return label.to_owned();
    }
    label.chars().take(characters.saturating_sub(1)).chain(['…']).collect()
}

/// The chart of a panel, without its content.
fn chart<'a, 's>(
    area: &'a Area<'s>,
    frame: &Frame,
    right: i32,
) -> Result<Chart<'a, 's>, Box<dyn std::error::Error>> {
    let chart = ChartBuilder::on(area)
        .margin_top(TOP)
        .margin_right(right)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, BOTTOM)
        .build_cartesian_2d(Ticked::new(&frame.x), Ticked::new(&frame.y))?;
    Ok(chart)
}

fn draw_panel(area: &Area<'_>, panel: &Panel, right: i32) -> Done {
    let frame = Frame::of(panel);
    let mut chart = chart(area, &frame, right)?;
    draw_mesh(area, &mut chart, &frame, panel)?;
    for index in 0..panel.lines.len() {
        draw_line(&mut chart, index, &frame, panel)?;
    }
    draw_labels(area, &chart, &frame, panel, right, |_| true)
}

/// A panel in parts: its axes, and each line with its label.
pub(super) fn parts(panel: &Panel) -> Drawn {
    let frame = Frame::of(panel);
    let right = space_for_labels(panel.lines.iter()).min(PART_RIGHT);
    let axes = part(|area| draw_mesh(area, &mut chart(area, &frame, right)?, &frame, panel));
    let lines = panel.lines.iter().enumerate().map(|(index, line)| {
        let mut points = Vec::new();
        let svg = part(|area| {
            let mut chart = chart(area, &frame, right)?;
            draw_line(&mut chart, index, &frame, panel)?;
            let place = |at| chart.backend_coord(&frame.position(at));
            points.extend(shown(line, panel).map(|at| (place(at), at)));
            draw_labels(area, &chart, &frame, panel, right, |which| which == index)
        });
        let RGBColor(red, green, blue) = COLOURS[index % COLOURS.len()];
        let colour = format!("#{red:02x}{green:02x}{blue:02x}");
        DrawnLine { label: line.label.clone(), colour, svg, points }
    });
    Drawn { width: PART.0, height: PART.1, axes, lines: lines.collect() }
}

/// The elements that `draw` draws, without the root element of an SVG.
fn part(draw: impl FnOnce(&Area<'_>) -> Done) -> String {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, PART).into_drawing_area();
    // Writing to a string does not fail.
    let drawn = draw(&area).and_then(|()| Ok(area.present()?));
    debug_assert!(drawn.is_ok(), "{drawn:?}");
    drop(area);
    let inner = svg.split_once('>').map_or("", |(_, inner)| inner);
    inner.trim_end().trim_end_matches("</svg>").trim().to_owned()
}

fn draw_mesh(area: &Area<'_>, chart: &mut Chart<'_, '_>, frame: &Frame, panel: &Panel) -> Done {
    let (x, y) = (written(&frame.x, panel.x.scale), written(&frame.y, panel.y.scale));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT)
        .x_desc(panel.x.label.clone())
        .axis_desc_style(text(area, 14.0, TEXT))
        .label_style(text(area, 13.0, TEXT))
        .x_label_formatter(&x)
        .y_label_formatter(&y)
        .draw()?;
    // The label is above its axis, because vertical text is hard to read.
    area.draw_text(&panel.y.label, &text(area, 14.0, TEXT), (16, 10))?;
    if panel.lines.iter().any(|line| !line.points.is_empty())
        && panel.lines.iter().all(|line| line.points.len() <= 1)
    {
        area.draw_text(ONE_POINT, &text(area, 13.0, FAINT), (LEFT + 10, TOP + 4))?;
    }
    Ok(())
}

/// The label of the tick at a position. Powers of ten differ so much that each has its own format.
fn written(span: &Span, scale: Scale) -> impl Fn(&f64) -> String {
    let figures = Figures::of(&span.ticks);
    move |position| match span.tick(*position) {
        None => String::new(),
        Some(tick) if scale == Scale::Decades => label_of(tick),
        Some(tick) => figures.write(tick),
    }
}

/// The maximum number of points of a line that are marked: with more, marks would hide the line.
const MARKED: usize = 60;

/// Draws line number `index`. The lines after it are drawn over it. The more there are, the wider the line is, so that
/// it stays visible.
fn draw_line(chart: &mut Chart<'_, '_>, index: usize, frame: &Frame, panel: &Panel) -> Done {
    let points: Vec<_> =
        shown(&panel.lines[index], panel).map(|point| frame.position(point)).collect();
    let colour = COLOURS[index % COLOURS.len()];
    let above = (panel.lines.len() - 1 - index).min(WIDER) as i32;
    let stroke = colour.stroke_width(2 + 2 * above as u32);
    chart.draw_series(LineSeries::new(points.iter().copied(), stroke))?;
    let (filled, size) = (colour.filled(), 4 + above);
    let marked = points.iter().copied().step_by(points.len().div_ceil(MARKED).max(1));
    match index % 4 {
        0 => chart.draw_series(marked.map(|point| Circle::new(point, size, filled)))?,
        1 => chart.draw_series(marked.map(|point| {
            EmptyElement::at(point) + Rectangle::new([(-size, -size), (size, size)], filled)
        }))?,
        2 => chart.draw_series(marked.map(|point| TriangleMarker::new(point, size + 2, filled)))?,
        _ => chart
            .draw_series(marked.map(|point| Cross::new(point, size, colour.stroke_width(2))))?,
    };
    Ok(())
}

/// The labels of those lines that `wanted` chooses by number. The label of a line is at the height of its last point,
/// unless labels would overlap.
fn draw_labels(
    area: &Area<'_>,
    chart: &Chart<'_, '_>,
    frame: &Frame,
    panel: &Panel,
    right: i32,
    wanted: impl Fn(usize) -> bool,
) -> Done {
    let (base_x, base_y) = area.get_base_pixel();
    let drawn: Vec<(usize, &Line, (i32, i32))> = panel
        .lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| {
            let (x, y) = chart.backend_coord(&frame.position(shown(line, panel).last()?));
            Some((index, line, (x - base_x, y - base_y)))
        })
        .collect();
    let heights: Vec<i32> = drawn.iter().map(|(_, _, (_, y))| *y).collect();
    let heights = spread(&heights, TOP, area.dim_in_pixel().1 as i32 - BOTTOM);
    // All labels are right of the longest line, even if a line ends earlier.
    let x = drawn.iter().map(|(_, _, (x, _))| *x).max().unwrap_or(0) + 12;
    let labels = drawn.into_iter().zip(heights).filter(|((index, ..), _)| wanted(*index));
    for ((index, line, _), y) in labels {
        let style = text(area, 14.0, COLOURS[index % COLOURS.len()]);
        let label = within(&line.label, right);
        area.draw_text(&label, &style.pos(Pos::new(HPos::Left, VPos::Center)), (x, y))?;
    }
    Ok(())
}

fn font(size: f64) -> FontDesc<'static> {
    // The backend shrinks letters by this factor.
    FontDesc::new(FontFamily::SansSerif, size * 1.24, FontStyle::Normal)
}

fn text(area: &Area<'_>, size: f64, colour: RGBColor) -> TextStyle<'static> {
    TextStyle { color: colour.to_backend_color(), ..font(size).into_text_style(area) }
}

/// Minimum distance of labels in pixels.
pub(super) const APART: i32 = 17;

/// Moves labels at these heights apart, as little as necessary, and keeps them between `top` and
/// `bottom` if they fit. The result is in the order of the input.
pub(super) fn spread(heights: &[i32], top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|&index| (heights[index], index));
    let mut placed: Vec<i32> = order.iter().map(|&index| heights[index]).collect();
    // Moves labels down until none overlap, then up from the bottom if some are below it.
    let mut floor = top;
    for height in &mut placed {
        *height = (*height).max(floor);
        floor = *height + APART;
    }
    let mut ceiling = bottom;
    for height in placed.iter_mut().rev() {
        *height = (*height).min(ceiling);
        ceiling = *height - APART;
    }
    let mut result = vec![0; heights.len()];
    for (position, index) in order.into_iter().enumerate() {
        result[index] = placed[position];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_is_too_long_ends_with_an_ellipsis() {
        let space = |label: &str| {
            space_for_labels([Line { label: label.into(), points: Vec::new() }].iter())
        };
        for label in ["vs", "buddy_system_allocator", "base: pcp.high_order_drain=every-free"] {
            assert_eq!(within(label, space(label)), label);
        }
        assert_eq!(
            within("base: pcp.high_order_drain=every-free", PART_RIGHT),
            "base: pcp.high_order_…"
        );
    }

    #[test]
    fn overlapping_labels_are_moved_apart_and_keep_their_order() {
        assert_eq!(spread(&[10, 200, 100], 0, 300), [10, 200, 100]);
        assert_eq!(spread(&[100, 101, 99], 0, 300), [116, 133, 99]);
        assert_eq!(spread(&[300, 299], 0, 300), [300, 283]);
        assert_eq!(spread(&[0, 0], 0, 300), [0, 17]);
    }
}
