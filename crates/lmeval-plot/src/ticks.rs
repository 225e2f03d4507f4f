//! Positions and labels of ticks.

use crate::Scale;

/// A range of numbers on an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Range {
    /// The range that holds all finite numbers, with a little room where `has_room`.
    pub(crate) fn of(numbers: impl Iterator<Item = f64>, scale: Scale, has_room: bool) -> Self {
        let numbers = numbers.map(|number| project(number, scale)).filter(|number| number.is_finite());
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
            (low.min(number), high.max(number))
        });
        if low > high {
            return Self { scale, low: 0.0, high: 1.0 };
        }
        let room = match high - low {
            0.0 => 0.5 * low.abs().max(if scale == Scale::Log2 { 1.0 } else { 1e-3 }),
            span if has_room => 0.05 * span,
            _ => 0.0,
        };
        Self { scale, low: low - room, high: high + room }
    }

    /// Where a number is, from 0 to 1; `None` if it cannot be shown.
    pub(crate) fn position(&self, number: f64) -> Option<f64> {
        let position = (project(number, self.scale) - self.low) / (self.high - self.low);
        position.is_finite().then_some(position)
    }

    /// Up to about `count` round numbers within the range, with their labels.
    pub(crate) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let (numbers, step) = match self.scale {
            Scale::Linear => {
                let step = round_step((self.high - self.low) / count.max(1) as f64);
                let numbers = multiples(self.low, self.high, step);
                (numbers.collect::<Vec<_>>(), step)
            }
            Scale::Log2 => {
                let step = ((self.high - self.low) / count.max(1) as f64).ceil().max(1.0);
                let powers = multiples(self.low - 1e-9, self.high + 1e-9, step);
                (powers.map(f64::exp2).collect(), 0.0)
            }
        };
        numbers.into_iter().map(|number| (number, label(number, step))).collect()
    }
}

fn project(number: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Linear => number,
        Scale::Log2 if number > 0.0 => number.log2(),
        Scale::Log2 => f64::NAN,
    }
}

/// The multiples of a step from `low` to `high`.
fn multiples(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (low / step).ceil();
    let count = ((high / step).floor() - first).clamp(-1.0, 1000.0) as i64;
    (0..=count).map(move |index| (first + index as f64) * step)
}

/// The next larger of 1, 2 and 5, times a power of ten.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// A number as a label, with as many decimals as the step between ticks needs.
fn label(number: f64, step: f64) -> String {
    const THOUSANDS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    const BINARY: [(f64, &str); 2] = [(1_048_576.0, "M"), (1024.0, "k")];
    if step == 0.0 {
        let unit = BINARY.into_iter().find(|(unit, _)| number >= *unit && (number / unit).fract() == 0.0);
        return unit.map_or_else(|| format!("{number}"), |(unit, name)| format!("{}{name}", number / unit));
    }
    let size = number.abs().max(step);
    let (unit, name) = THOUSANDS.into_iter().find(|(unit, _)| size >= 10.0 * unit).unwrap_or((1.0, ""));
    let decimals = (-(step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
    // Without a negative zero.
    let number = if (number / step).abs() < 0.5 { 0.0 } else { number / unit };
    let name = if number == 0.0 { "" } else { name };
    format!("{number:.decimals$}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(numbers: &[f64], scale: Scale, count: usize) -> Vec<String> {
        let range = Range::of(numbers.iter().copied(), scale, false);
        range.ticks(count).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&[0.0, 1.0], Scale::Linear, 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&[-0.3, 0.31], Scale::Linear, 4), ["-0.2", "0.0", "0.2"]);
        assert_eq!(labels(&[0.0, 120_000.0], Scale::Linear, 4), ["0", "50k", "100k"]);
        assert_eq!(labels(&[0.412, 0.418], Scale::Linear, 3), ["0.412", "0.414", "0.416", "0.418"]);
        assert_eq!(labels(&[256.0, 16_384.0], Scale::Log2, 8), ["256", "512", "1k", "2k", "4k", "8k", "16k"]);
        assert_eq!(labels(&[256.0, 16_384.0], Scale::Log2, 3), ["256", "1k", "4k", "16k"]);
    }

    #[test]
    fn any_numbers_have_a_range() {
        for numbers in [&[][..], &[f64::NAN, f64::INFINITY], &[0.0], &[3.0, 3.0], &[-1.0]] {
            for scale in [Scale::Linear, Scale::Log2] {
                let range = Range::of(numbers.iter().copied(), scale, true);
                assert!(range.low < range.high, "{numbers:?} {range:?}");
                assert!(range.ticks(5).len() < 20);
                assert_eq!(range.position(f64::NAN), None);
            }
        }
        assert_eq!(Range::of([1.0, 4.0].into_iter(), Scale::Log2, false).position(2.0), Some(0.5));
        assert_eq!(Range::of([1.0, 4.0].into_iter(), Scale::Log2, false).position(0.0), None);
    }
}
