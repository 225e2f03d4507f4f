//! Scaling of pixels as Pillow does it.

/// The fraction bits of coefficients: 8 bits of a channel and 2 of the filter's overshoot fit into 32 bits beside them.
const PRECISION: u32 = 32 - 8 - 2;

/// How far the bicubic filter reaches, in pixels of the larger of the two images.
const REACH: f64 = 2.0;

/// Channels of eight bits, interleaved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) channels: usize,
    pub(crate) data: Vec<u8>,
}

/// The source pixels of a target pixel: the first one, and the weights of it and those after it.
struct Window {
    start: usize,
    weights: Vec<i32>,
}

/// The bicubic filter with a = -1/2.
fn bicubic(distance: f64) -> f64 {
    const A: f64 = -0.5;
    let x = distance.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < REACH {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

/// The windows of all target pixels along one axis.
fn windows(source: usize, target: usize) -> Vec<Window> {
    let scale = source as f64 / target as f64;
    let widening = scale.max(1.0);
    let support = REACH * widening;
    let window = |index: usize| {
        let center = (index as f64 + 0.5) * scale;
        // The conversions truncate, and negative numbers become 0.
        let start = (center - support + 0.5) as usize;
        let end = ((center + support + 0.5) as usize).min(source);
        let weight = |at: usize| bicubic((at as f64 - center + 0.5) * (1.0 / widening));
        let weights: Vec<f64> = (start..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: f64| {
            let scaled = (if sum == 0.0 { weight } else { weight / sum }) * f64::from(1_u32 << PRECISION);
            (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i32
        };
        Window { start, weights: weights.into_iter().map(fixed).collect() }
    };
    (0..target).map(window).collect()
}

/// A weighted sum of channel values as a channel value.
fn rounded(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

impl Pixels {
    /// The image in another size, by the bicubic filter: first the width, then the height.
    pub(crate) fn bicubic(&self, width: usize, height: usize) -> Self {
        let narrowed = if width == self.width { self.clone() } else { self.horizontal(width) };
        if height == self.height { narrowed } else { narrowed.vertical(height) }
    }

    fn horizontal(&self, width: usize) -> Self {
        let (channels, windows) = (self.channels, windows(self.width, width));
        let mut data = Vec::with_capacity(width * self.height * channels);
        for row in self.data.chunks_exact(self.width * channels) {
            for window in &windows {
                for channel in 0..channels {
                    let from = row[window.start * channels..].iter().skip(channel).step_by(channels);
                    data.push(weighted(from, &window.weights));
                }
            }
        }
        Self { width, height: self.height, channels, data }
    }

    fn vertical(&self, height: usize) -> Self {
        let stride = self.width * self.channels;
        let mut data = Vec::with_capacity(stride * height);
        for window in windows(self.height, height) {
            for at in 0..stride {
                let from = self.data[window.start * stride + at..].iter().step_by(stride);
                data.push(weighted(from, &window.weights));
            }
        }
        Self { width: self.width, height, channels: self.channels, data }
    }

    /// The image in another size, each pixel that of the nearest one.
    pub(crate) fn nearest(&self, width: usize, height: usize) -> Self {
        let (columns, rows) = (nearest(self.width, width), nearest(self.height, height));
        let mut data = Vec::with_capacity(width * height * self.channels);
        for row in rows {
            for column in &columns {
                let start = (row * self.width + column) * self.channels;
                data.extend_from_slice(&self.data[start..start + self.channels]);
            }
        }
        Self { width, height, channels: self.channels, data }
    }

    /// Multiplies the colours by the last channel, the opacity.
    pub(crate) fn premultiply(&mut self) {
        self.each_colour(|colour, alpha| {
            let product = u32::from(colour) * u32::from(alpha) + 128;
            (((product >> 8) + product) >> 8) as u8
        });
    }

    /// Divides the colours by the last channel, the opacity.
    pub(crate) fn unpremultiply(&mut self) {
        self.each_colour(|colour, alpha| match alpha {
            0 | 255 => colour,
            alpha => (u32::from(colour) * 255 / u32::from(alpha)).min(255) as u8,
        });
    }

    fn each_colour(&mut self, change: impl Fn(u8, u8) -> u8) {
        for pixel in self.data.chunks_exact_mut(self.channels) {
            if let Some((alpha, colours)) = pixel.split_last_mut() {
                for colour in colours {
                    *colour = change(*colour, *alpha);
                }
            }
        }
    }
}

fn weighted<'v>(values: impl Iterator<Item = &'v u8>, weights: &[i32]) -> u8 {
    let half = 1_i32 << (PRECISION - 1);
    rounded(weights.iter().zip(values).fold(half, |sum, (weight, value)| sum + weight * i32::from(*value)))
}

/// The index of the nearest source pixel of each target pixel.
fn nearest(source: usize, target: usize) -> Vec<usize> {
    let step = source as f64 / target as f64;
    // Reference: positions are added up, so that their rounding errors are, too.
    let positions = std::iter::successors(Some(step * 0.5), |position| Some(position + step));
    positions.take(target).map(|position| (position as usize).min(source - 1)).collect()
}
