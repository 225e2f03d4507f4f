//! From a figure to shapes.

use crate::shape::{Anchor, BETTER, CHARACTER, Color, Drawing, GRAY, INK, PALE, Shape, WORSE, series_color};
use crate::ticks::Range;
use crate::{Figure, Mark, Panel, Series};

/// Panels side by side, at most.
const COLUMNS: usize = 3;
/// The size of a panel with its labels.
const PANEL: (f64, f64) = (320.0, 230.0);
/// The space around the lines of a panel: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (48.0, 40.0, 14.0, 38.0);
/// The height of the heading.
const LINE: f64 = 20.0;
/// The height of a line of a legend.
const LEGEND: f64 = 16.0;
/// The space at the edges.
const EDGE: f64 = 10.0;

/// Places everything.
pub(crate) fn drawing(figure: &Figure) -> Drawing {
    let columns = figure.panels.len().clamp(1, COLUMNS);
    let rows = figure.panels.len().div_ceil(columns).max(1);
    let width = PANEL.0 * columns as f64 + 2.0 * EDGE;
    let mut shapes = Vec::new();
    let mut top = EDGE;
    if !figure.title.is_empty() {
        top += LINE;
        shapes.push(text((EDGE, top - 6.0), &figure.title, Anchor::Start, true, INK, width - 2.0 * EDGE));
    }
    let lines = figure.panels.iter().map(legend_lines).max().unwrap_or(0);
    let height = PANEL.1 + LEGEND * lines as f64;
    for (index, panel) in figure.panels.iter().enumerate() {
        let (column, row) = (index % columns, index / columns);
        let corner = (EDGE + PANEL.0 * column as f64, top + height * row as f64);
        draw_panel(panel, corner, lines, &mut shapes);
    }
    Drawing { width, height: top + height * rows as f64 + EDGE, shapes }
}

/// The names of the series of a panel, in lines of their own below its labels; a single series needs none.
fn legend(panel: &Panel, (left, top): (f64, f64), shapes: &mut Vec<Shape>) {
    let room = PANEL.0 - MARGIN.2;
    let (mut x, mut y) = (8.0, top + 46.0);
    for (index, series) in panel.series.iter().enumerate() {
        let length = 24.0 + CHARACTER * series.name.chars().count() as f64 + 10.0;
        if x > 8.0 && x + length > room {
            (x, y) = (8.0, y + LEGEND);
        }
        shapes.push(line(vec![(left + x, y - 4.0), (left + x + 18.0, y - 4.0)], index, series));
        shapes.push(text((left + x + 24.0, y), &series.name, Anchor::Start, false, GRAY, room - x - 24.0));
        x += length;
    }
}

/// The lines that the legend of a panel takes.
fn legend_lines(panel: &Panel) -> usize {
    let mut shapes = Vec::new();
    if panel.series.len() > 1 {
        legend(panel, (0.0, 0.0), &mut shapes);
    }
    let lines = shapes.iter().filter_map(|shape| match shape {
        Shape::Text { at: (_, y), .. } => Some(((y - 46.0) / LEGEND).round() as usize + 1),
        _ => None,
    });
    lines.max().unwrap_or(0)
}

/// Draws a panel whose legend has room for some lines.
fn draw_panel(panel: &Panel, (left, top): (f64, f64), lines: usize, shapes: &mut Vec<Shape>) {
    let (x0, x1) = (left + MARGIN.0, left + PANEL.0 - MARGIN.2);
    let above = LEGEND * lines as f64;
    let (y0, y1) = (top + above + PANEL.1 - MARGIN.3, top + above + MARGIN.1);
    if panel.series.len() > 1 {
        legend(panel, (left, top), shapes);
    }
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let xs = Range::of(points().map(|point| point.x), panel.x.scale, false);
    let ends = points().flat_map(|point| point.band.map(|(low, high)| [low, high]).into_iter().flatten());
    let levels = panel.levels.iter().map(|level| level.value);
    let ys = Range::of(points().map(|point| point.y).chain(ends).chain(levels), panel.y.scale, true);
    let x = |number: f64| Some(x0 + (x1 - x0) * xs.position(number)?);
    let y = |number: f64| Some(y0 + (y1 - y0) * ys.position(number)?);
    shapes.push(text((left + 8.0, top + 14.0), &panel.title, Anchor::Start, true, INK, PANEL.0 - 16.0));
    shapes.push(text((left + 8.0, top + 30.0), &panel.y.label, Anchor::Start, false, GRAY, PANEL.0 - 16.0));
    for (number, label) in ys.ticks(4) {
        let Some(y) = y(number) else { continue };
        shapes.push(Shape::Line {
            points: vec![(x0, y), (x1, y)],
            color: PALE,
            width: 1.0,
            is_dashed: false,
        });
        shapes.push(text((x0 - 6.0, y + 4.0), &label, Anchor::End, false, GRAY, MARGIN.0));
    }
    for (number, label) in xs.ticks(5) {
        let Some(x) = x(number) else { continue };
        let points = vec![(x, y0), (x, y0 + 4.0)];
        shapes.push(Shape::Line { points, color: GRAY, width: 1.0, is_dashed: false });
        shapes.push(text((x, y0 + 17.0), &label, Anchor::Middle, false, GRAY, PANEL.0));
    }
    let points = vec![(x0, y0), (x1, y0)];
    shapes.push(Shape::Line { points, color: GRAY, width: 1.0, is_dashed: false });
    shapes.push(text((x1, y0 + 32.0), &panel.x.label, Anchor::End, false, GRAY, PANEL.0 - MARGIN.0));
    for level in &panel.levels {
        let Some(y) = y(level.value) else { continue };
        shapes.push(Shape::Line { points: vec![(x0, y), (x1, y)], color: GRAY, width: 1.0, is_dashed: true });
        shapes.push(text((x1, y - 4.0), &level.name, Anchor::End, false, GRAY, PANEL.0 - MARGIN.0));
    }
    let place = |x_of: f64, y_of: f64| Some((x(x_of)?, y(y_of)?));
    for (index, series) in panel.series.iter().enumerate() {
        draw_series(series, index, &place, shapes);
    }
}

/// Draws the bands, lines and dots of a series. Points that have no place interrupt it.
fn draw_series(
    series: &Series,
    index: usize,
    place: &dyn Fn(f64, f64) -> Option<(f64, f64)>,
    shapes: &mut Vec<Shape>,
) {
    let pieces: Vec<_> = series
        .points
        .split(|point| place(point.x, point.y).is_none())
        .filter(|piece| !piece.is_empty())
        .collect();
    for piece in &pieces {
        let end = |choose: fn((f64, f64)) -> f64| {
            piece.iter().filter_map(move |point| place(point.x, choose(point.band?)))
        };
        let (low, high): (Vec<_>, Vec<_>) = (end(|band| band.0).collect(), end(|band| band.1).collect());
        if low.len() == high.len() && low.len() > 1 {
            let points = low.into_iter().chain(high.into_iter().rev()).collect();
            shapes.push(Shape::Area { points, color: color(index, series) });
        }
    }
    for piece in pieces {
        let points: Vec<_> = piece.iter().filter_map(|point| place(point.x, point.y)).collect();
        let dots = points.iter().map(|center| Shape::Dot { center: *center, color: color(index, series) });
        let dots: Vec<_> = dots.filter(|_| !series.is_dashed && points.len() <= 60).collect();
        let marks = piece.iter().filter_map(|point| Some(triangle(place(point.x, point.y)?, point.mark?)));
        let marks: Vec<_> = marks.collect();
        shapes.push(line(points, index, series));
        shapes.extend(dots.into_iter().chain(marks));
    }
}

/// The triangle of a mark, which points to its point.
fn triangle((x, y): (f64, f64), mark: Mark) -> Shape {
    let color = if mark.is_better { BETTER } else { WORSE };
    let down = if mark.rises { 1.0 } else { -1.0 };
    let (base, tip) = (y + down * 11.0, y + down * 4.0);
    Shape::Mark { points: vec![(x - 4.0, base), (x + 4.0, base), (x, tip)], color }
}

fn line(points: Vec<(f64, f64)>, index: usize, series: &Series) -> Shape {
    Shape::Line { points, color: color(index, series), width: 1.8, is_dashed: series.is_dashed }
}

fn color(index: usize, series: &Series) -> Color {
    if series.is_dashed { GRAY } else { series_color(index) }
}

/// A text that is at most `room` wide.
fn text(at: (f64, f64), text: &str, anchor: Anchor, is_bold: bool, color: Color, room: f64) -> Shape {
    let most = (room / CHARACTER).max(1.0) as usize;
    let text: String =
        text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    let text = match text.char_indices().nth(most) {
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
        None => text,
    };

    Shape::Text { at, text, anchor, is_bold, color }
}
