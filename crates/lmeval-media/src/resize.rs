//! Images that are made smaller before a model gets them.

use std::io::Cursor;

use image::{DynamicImage, GrayAlphaImage, GrayImage, ImageFormat, RgbImage, RgbaImage};
use lmeval_pycompat::Media;

use crate::error::MediaError;
use crate::facts::facts;
use crate::format::Format;
use crate::picture::decoded;
use crate::resample::Pixels;

/// The largest size of an image that is sent. Smaller ones stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The width in pixels at most.
    pub width: Option<u32>,
    /// The height in pixels at most.
    pub height: Option<u32>,
    /// The longer side in pixels at most, if there is neither width nor height.
    pub side: Option<u32>,
}

impl Bounds {
    /// The size that an image gets, with its proportions; `None` if it stays as it is.
    pub fn target(self, width: u32, height: u32) -> Option<(u32, u32)> {
        let (wide, high) = (f64::from(width), f64::from(height));
        // Reference: divided first, then multiplied, then truncated.
        let other = |of: f64, side: f64, bound: u32| (of / side * f64::from(bound)) as u32;
        let (new_width, new_height) = match self {
            Self { width: Some(most_wide), height: Some(most_high), .. } => {
                if width <= most_wide && height <= most_high {
                    return None;
                }
                let ratio = (f64::from(most_wide) / wide).min(f64::from(most_high) / high);
                ((wide * ratio) as u32, (high * ratio) as u32)
            }
            Self { width: Some(most), .. } if width > most => (most, other(high, wide, most)),
            Self { width: None, height: Some(most), .. } if height > most => (other(wide, high, most), most),
            Self { width: None, height: None, side: Some(most) } if width.max(height) > most => {
                if width > height { (most, other(high, wide, most)) } else { (other(wide, high, most), most) }
            }
            _ => return None,
        };
        Some((new_width.max(1), new_height.max(1)))
    }
}

/// The PNG file of an image that is too large, in the size it gets; `None` if it may stay as it is.
///
/// The pixels are those of Pillow: bicubic, or the nearest ones of an image with a palette or with black and white alone.
pub fn resized(image: &Media, bounds: Bounds) -> Result<Option<Vec<u8>>, MediaError> {
    if let Some((width, height)) = facts(image)?.size
        && bounds.target(width, height).is_none()
        && bounds.target(height, width).is_none()
    {
        return Ok(None);
    }
    let bytes = image.bytes()?;
    let picture = decoded(&bytes)?;
    let Some((width, height)) = bounds.target(picture.width(), picture.height()) else { return Ok(None) };
    let mode = image.option().map(|mode| &**mode);
    let is_nearest = mode.is_none_or(|mode| matches!(mode, "1" | "P")) && has_palette(&bytes);
    let mut pixels = pixels(picture, &bytes, mode);
    let (width, height) = (width as usize, height as usize);
    let has_alpha = pixels.channels.is_multiple_of(2);
    let scaled = match (is_nearest, has_alpha) {
        (true, _) => pixels.nearest(width, height),
        (false, false) => pixels.bicubic(width, height),
        (false, true) => {
            pixels.premultiply();
            let mut scaled = pixels.bicubic(width, height);
            scaled.unpremultiply();
            scaled
        }
    };
    let mut file = Cursor::new(Vec::new());
    picture_of(scaled)
        .ok_or_else(|| MediaError::damaged(Format::Png, "its size is wrong"))?
        .write_to(&mut file, ImageFormat::Png)
        .map_err(|error| MediaError::damaged(Format::Png, error))?;
    Ok(Some(file.into_inner()))
}

/// The channels of an image as Pillow opens it, in the mode that its column declares.
fn pixels(picture: DynamicImage, bytes: &[u8], mode: Option<&str>) -> Pixels {
    // Reference: of 16 bits, the upper ones are kept.
    let picture = match picture {
        DynamicImage::ImageRgb16(image) => {
            let data = image.iter().map(|value| (value >> 8) as u8).collect();
            RgbImage::from_raw(image.width(), image.height(), data)
                .map_or_else(DynamicImage::default, Into::into)
        }
        DynamicImage::ImageRgba16(image) => {
            let data = image.iter().map(|value| (value >> 8) as u8).collect();
            RgbaImage::from_raw(image.width(), image.height(), data)
                .map_or_else(DynamicImage::default, Into::into)
        }
        other => other,
    };
    let colour = picture.color();
    // Reference: transparent entries of a palette, and one transparent colour of a PNG file without an alpha channel, are notes
    // that are lost when the receiver converts the image.
    let is_note = has_palette(bytes) || matches!(png_kind(bytes), Some((_, 0 | 2)));
    let has_alpha = colour.has_alpha() && !is_note;
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let (channels, data) = match (mode, colour.has_color(), has_alpha) {
        (Some("L"), true, _) => (1, luma(&picture.to_rgb8())),
        (Some("L"), false, _) | (None, false, false) => (1, picture.to_luma8().into_raw()),
        (Some("RGB"), ..) | (None, true, false) => (3, picture.to_rgb8().into_raw()),
        (Some("LA") | None, false, true) => (2, picture.to_luma_alpha8().into_raw()),
        (Some("RGBA"), ..) | (None, true, true) => (4, picture.to_rgba8().into_raw()),
        (Some(_), true, true) => (4, picture.to_rgba8().into_raw()),
        (Some(_), ..) => (3, picture.to_rgb8().into_raw()),
    };
    Pixels { width, height, channels, data }
}

/// Brightness by ITU-R 601-2, in 16 fraction bits.
fn luma(image: &RgbImage) -> Vec<u8> {
    let grey = |[red, green, blue]: [u8; 3]| {
        (u32::from(red) * 19_595 + u32::from(green) * 38_470 + u32::from(blue) * 7_471 + 0x8000) >> 16
    };
    image.pixels().map(|pixel| grey(pixel.0) as u8).collect()
}

fn picture_of(pixels: Pixels) -> Option<DynamicImage> {
    let (width, height) = (u32::try_from(pixels.width).ok()?, u32::try_from(pixels.height).ok()?);
    match pixels.channels {
        1 => GrayImage::from_raw(width, height, pixels.data).map(Into::into),
        2 => GrayAlphaImage::from_raw(width, height, pixels.data).map(Into::into),
        3 => RgbImage::from_raw(width, height, pixels.data).map(Into::into),
        _ => RgbaImage::from_raw(width, height, pixels.data).map(Into::into),
    }
}

/// The bit depth and the colour type of a PNG file.
fn png_kind(bytes: &[u8]) -> Option<(u8, u8)> {
    (Format::of(bytes) == Some(Format::Png)).then(|| Some((*bytes.get(24)?, *bytes.get(25)?)))?
}

/// Whether Pillow opens a file with a palette, or with one bit per pixel.
fn has_palette(bytes: &[u8]) -> bool {
    match Format::of(bytes) {
        Some(Format::Png) => matches!(png_kind(bytes), Some((_, 3) | (1, 0))),
        Some(Format::Gif) => {
            let packed = bytes.get(10).copied().unwrap_or_default();
            let colours = bytes.get(13..13 + (6 << (packed & 7))).filter(|_| packed & 0x80 != 0);
            colours.is_none_or(|colours| !is_ramp(colours.chunks_exact(3)))
        }
        Some(Format::Bmp) => {
            let number = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
            let depth_at = if number(14) == Some(12) { 24 } else { 28 };
            match number(depth_at) {
                Some(1) => true,
                Some(bits @ 2..=8) => {
                    let start = 14 + usize::from(number(14).unwrap_or(40));
                    let colours = bytes.get(start..start + (4 << bits));
                    colours.is_none_or(|colours| !is_ramp(colours.chunks_exact(4)))
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Whether a palette has the shades of grey from black on, each at its own index.
fn is_ramp<'c>(colours: impl Iterator<Item = &'c [u8]>) -> bool {
    colours.enumerate().all(|(index, colour)| colour[..3].iter().all(|value| usize::from(*value) == index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_proportions_and_never_grow() {
        let bounds = |width, height, side| Bounds { width, height, side };
        for (given, size, expected) in [
            (bounds(None, None, None), (48, 32), None),
            (bounds(Some(60), None, None), (48, 32), None),
            (bounds(Some(24), None, None), (48, 32), Some((24, 16))),
            (bounds(None, Some(10), None), (48, 32), Some((15, 10))),
            (bounds(Some(20), Some(9), None), (48, 32), Some((13, 9))),
            (bounds(Some(60), Some(9), None), (48, 32), Some((13, 9))),
            (bounds(None, None, Some(21)), (48, 32), Some((21, 14))),
            (bounds(None, None, Some(21)), (32, 48), Some((14, 21))),
            (bounds(None, None, Some(48)), (48, 32), None),
            (bounds(Some(1), None, None), (480, 3), Some((1, 1))),
            // 49 / 49 * 9 is 9, 49 * (9 / 49) is less.
            (bounds(Some(9), None, None), (49, 49), Some((9, 9))),
        ] {
            assert_eq!(given.target(size.0, size.1), expected, "{given:?} {size:?}");
        }
    }
}
