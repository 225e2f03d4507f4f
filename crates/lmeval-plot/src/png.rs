//! Drawings as PNG.

use std::fmt;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use tiny_skia::{
    FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, StrokeDash,
    Transform,
};

use crate::shape::{Anchor, Color, DASH, Drawing, OPACITY, RADIUS, Shape};

/// Pixels per unit.
const SCALE: f32 = 2.0;
/// The height of characters in pixels.
const HEIGHT: RasterHeight = RasterHeight::Size24;
/// How far above the lower end of a character its baseline is, in pixels.
const DESCENT: i64 = 6;

/// The drawing has too many pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The drawing is too large for a PNG image; write it as SVG")
    }
}

impl std::error::Error for TooLarge {}

pub(crate) fn write(drawing: &Drawing) -> Result<Vec<u8>, TooLarge> {
    let size = |units: f64| (units as f32 * SCALE).ceil() as u32;
    let mut pixels = Pixmap::new(size(drawing.width), size(drawing.height)).ok_or(TooLarge)?;
    pixels.fill(tiny_skia::Color::WHITE);
    for shape in &drawing.shapes {
        draw(&mut pixels, shape);
    }
    pixels.encode_png().map_err(|_| TooLarge)
}

fn draw(pixels: &mut Pixmap, shape: &Shape) {
    let scale = Transform::from_scale(SCALE, SCALE);
    match shape {
        Shape::Line { points, color, width, is_dashed } => {
            let Some(path) = path(points, false) else { return };
            let dashes =
                StrokeDash::new(DASH.map(|length| length as f32).to_vec(), 0.0).filter(|_| *is_dashed);
            let stroke = Stroke {
                width: *width as f32,
                line_cap: LineCap::Butt,
                line_join: LineJoin::Round,
                dash: dashes,
                ..Stroke::default()
            };
            pixels.stroke_path(&path, &paint(*color, 1.0), &stroke, scale, None);
        }
        Shape::Area { points, color } => {
            let Some(path) = path(points, true) else { return };
            pixels.fill_path(&path, &paint(*color, OPACITY), FillRule::Winding, scale, None);
        }
        Shape::Mark { points, color } => {
            let Some(path) = path(points, true) else { return };
            pixels.fill_path(&path, &paint(*color, 1.0), FillRule::Winding, scale, None);
        }
        Shape::Dot { center: (x, y), color } => {
            let Some(path) = PathBuilder::from_circle(*x as f32, *y as f32, RADIUS as f32) else { return };
            pixels.fill_path(&path, &paint(*color, 1.0), FillRule::Winding, scale, None);
        }
        Shape::Text { at, text, anchor, is_bold, color } => {
            let weight = if *is_bold { FontWeight::Bold } else { FontWeight::Regular };
            write_text(pixels, *at, text, *anchor, weight, *color);
        }
    }
}

fn path(points: &[(f64, f64)], is_closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (index, (x, y)) in points.iter().enumerate() {
        match index {
            0 => builder.move_to(*x as f32, *y as f32),
            _ => builder.line_to(*x as f32, *y as f32),
        }
    }
    if is_closed {
        builder.close();
    }
    builder.finish()
}

fn paint([red, green, blue]: Color, opacity: f64) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, (opacity * 255.0).round() as u8);
    paint
}

/// Writes characters next to each other. Those that the font lacks become question marks.
fn write_text(
    pixels: &mut Pixmap,
    (x, y): (f64, f64),
    text: &str,
    anchor: Anchor,
    weight: FontWeight,
    color: Color,
) {
    let step = get_raster_width(weight, HEIGHT) as i64;
    let length = step * text.chars().count() as i64;
    let start = (x * f64::from(SCALE)).round() as i64;
    let left = match anchor {
        Anchor::Start => start,
        Anchor::Middle => start - length / 2,
        Anchor::End => start - length,
    };
    let top = (y * f64::from(SCALE)).round() as i64 + DESCENT - HEIGHT.val() as i64;
    for (index, character) in text.chars().enumerate() {
        let raster = get_raster(replacement(character), weight, HEIGHT);
        let Some(raster) = raster.or_else(|| get_raster('?', weight, HEIGHT)) else { continue };
        for (row, line) in raster.rows().enumerate() {
            for (column, intensity) in line.iter().enumerate().filter(|(_, intensity)| **intensity > 0) {
                let (x, y) = (left + index as i64 * step + column as i64, top + row as i64);
                blend(pixels, x, y, color, *intensity);
            }
        }
    }
}

/// A similar character of the font.
fn replacement(character: char) -> char {
    match character {
        '…' => '.',
        '–' | '—' | '−' => '-',
        other => other,
    }
}

/// Mixes a color into an opaque pixel.
fn blend(pixels: &mut Pixmap, x: i64, y: i64, color: Color, intensity: u8) {
    let (width, height) = (i64::from(pixels.width()), i64::from(pixels.height()));
    if !(0..width).contains(&x) || !(0..height).contains(&y) {
        return;
    }
    let pixel = &mut pixels.pixels_mut()[(y * width + x) as usize];
    let mixed = [pixel.red(), pixel.green(), pixel.blue()].into_iter().zip(color).map(|(old, new)| {
        let share = u32::from(intensity);
        ((u32::from(old) * (255 - share) + u32::from(new) * share) / 255) as u8
    });
    let mixed: Vec<u8> = mixed.collect();
    if let Some(mixed) = PremultipliedColorU8::from_rgba(mixed[0], mixed[1], mixed[2], 255) {
        *pixel = mixed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Figure, Mark, Panel, Point, Scale, Series};

    #[test]
    fn images_have_lines_and_letters() {
        let axis = |scale| Axis { label: "é…–x".to_owned(), scale };
        let points: Vec<Point> = [512.0, 2048.0]
            .map(|x| Point {
                x,
                y: x / 4096.0,
                band: Some((0.0, 1.0)),
                mark: Some(Mark { rises: true, is_better: false }),
            })
            .to_vec();
        let panel = Panel {
            title: "gsm8k".to_owned(),
            x: axis(Scale::Log2),
            y: axis(Scale::Linear),
            series: vec![Series { name: String::new(), points, is_dashed: false }],
            levels: Vec::new(),
        };
        let drawing = Figure { title: "Score".to_owned(), panels: vec![panel] }.to_png().unwrap();
        let read = Pixmap::decode_png(&drawing).unwrap();
        let has = |wanted: Color| {
            let color = |pixel: &PremultipliedColorU8| [pixel.red(), pixel.green(), pixel.blue()];
            read.pixels().iter().any(|pixel| color(pixel) == wanted)
        };
        assert!(has(crate::shape::series_color(0)) && has(crate::shape::INK) && has([255; 3]));
        assert!(has(crate::shape::WORSE) && !has(crate::shape::BETTER));
    }

    #[test]
    fn too_many_pixels_are_an_error() {
        let drawing = Drawing { width: 1e9, height: 1e9, shapes: Vec::new() };
        assert_eq!(write(&drawing), Err(TooLarge));
    }
}
