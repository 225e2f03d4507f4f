//! Line charts of scores as SVG and PNG: small panels side by side, with bands for intervals and dashed lines for levels
//! such as chance.
//!
//! ```
//! use lmeval_plot::{Axis, Figure, Panel, Point, Scale, Series};
//!
//! let points = [(1024.0, 0.43), (4096.0, 0.62)].map(|(x, y)| Point { x, y, band: None, mark: None });
//! let panel = Panel {
//!     title: "gpqa".to_owned(),
//!     x: Axis { label: "tokens".to_owned(), scale: Scale::Log2 },
//!     y: Axis { label: "acc".to_owned(), scale: Scale::Linear },
//!     series: vec![Series { name: "acc".to_owned(), points: points.to_vec(), is_dashed: false }],
//!     levels: Vec::new(),
//! };
//! let figure = Figure { title: "Score by budget".to_owned(), panels: vec![panel] };
//! assert!(figure.to_svg().starts_with("<svg"));
//! ```

mod layout;
mod png;
mod shape;
mod svg;
mod ticks;

pub use png::TooLarge;

/// A drawing with one or more panels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The heading.
    pub title: String,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
}

/// One chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it shows, such as a task.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines. A series has the same color in all panels, by its position.
    pub series: Vec<Series>,
    /// Horizontal dashed lines, such as chance.
    pub levels: Vec<Level>,
}

/// What an axis measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// How numbers are spread.
    pub scale: Scale,
}

/// How numbers are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Each doubling takes the same space. Numbers must be positive; others are left out.
    Log2,
}

/// A line through points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points, in drawing order. Points with NaN or infinity interrupt the line.
    pub points: Vec<Point>,
    /// Whether the line is dashed, for quantities beside the main one.
    pub is_dashed: bool,
}

/// A point with an optional interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Its position.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// The lower and the upper end of the interval around the value.
    pub band: Option<(f64, f64)>,
    /// A triangle at the point.
    pub mark: Option<Mark>,
}

/// A triangle that says how a point differs from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whether the value is higher: the triangle points up, below the line. Otherwise it points down, above the line.
    pub rises: bool,
    /// Whether that is better: the triangle is green, otherwise red.
    pub is_better: bool,
}

/// A horizontal line.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// Width and height in units.
    pub fn size(&self) -> (f64, f64) {
        let drawing = layout::drawing(self);
        (drawing.width, drawing.height)
    }

    /// The drawing as an SVG document without scripts, styles or links.
    pub fn to_svg(&self) -> String {
        svg::write(&layout::drawing(self))
    }

    /// The drawing as a PNG image with two pixels per unit.
    pub fn to_png(&self) -> Result<Vec<u8>, TooLarge> {
        png::write(&layout::drawing(self))
    }
}
