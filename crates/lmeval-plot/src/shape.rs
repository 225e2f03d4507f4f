//! The shapes of a drawing.

/// A color as red, green and blue.
pub(crate) type Color = [u8; 3];

pub(crate) const INK: Color = [0x22, 0x22, 0x22];
pub(crate) const GRAY: Color = [0x77, 0x77, 0x77];
pub(crate) const PALE: Color = [0xe4, 0xe4, 0xe4];

/// Colors that people with any color vision can tell apart.
const SERIES: [Color; 7] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x66, 0x66, 0x66],
];

/// The color of a series by its index.
pub(crate) fn series_color(index: usize) -> Color {
    SERIES[index % SERIES.len()]
}

/// A drawing of a size in units, on a white background.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

/// A shape; later ones are on top.
#[derive(Debug)]
pub(crate) enum Shape {
    Line {
        points: Vec<(f64, f64)>,
        color: Color,
        width: f64,
        is_dashed: bool,
    },
    Area {
        points: Vec<(f64, f64)>,
        color: Color,
    },
    Dot {
        center: (f64, f64),
        color: Color,
    },
    /// An opaque area.
    Mark {
        points: Vec<(f64, f64)>,
        color: Color,
    },
    Text {
        at: (f64, f64),
        text: String,
        anchor: Anchor,
        is_bold: bool,
        color: Color,
    },
}

/// Which part of a text is at its position; vertically, it is the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The colors of marks at points that are better and worse.
pub(crate) const BETTER: Color = [0x1a, 0x7f, 0x37];
pub(crate) const WORSE: Color = [0xc6, 0x28, 0x28];

/// The opacity of areas.
pub(crate) const OPACITY: f64 = 0.18;
/// The radius of dots.
pub(crate) const RADIUS: f64 = 2.5;
/// The size of texts.
pub(crate) const SIZE: f64 = 12.0;
/// The width of a character, on average.
pub(crate) const CHARACTER: f64 = 7.0;
/// The lengths of a dash and of the gap after it.
pub(crate) const DASH: [f64; 2] = [5.0, 4.0];
