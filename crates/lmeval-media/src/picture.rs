//! Decoding images: conversion to PNG, and thumbnails.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ExtendedColorType, ImageDecoder as _, ImageFormat, ImageReader, Limits};

use crate::error::MediaError;
use crate::facts::MAXIMUM_PIXELS;
use crate::format::Format;

/// The memory that decoding one image may take.
const MEMORY: u64 = 768 << 20;

/// The quality of thumbnails.
const QUALITY: u8 = 80;

/// A small version of an image.
#[derive(Clone, Debug)]
pub struct Thumbnail {
    /// PNG for an image with transparency, otherwise JPEG.
    pub format: Format,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Runs a decoder; a panic, which damage may cause in any of them, becomes an error.
pub(crate) fn guarded<T>(
    format: Format,
    decode: impl FnOnce() -> Result<T, MediaError>,
) -> Result<T, MediaError> {
    // A decoder that has panicked is not used again.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(MediaError::damaged(format, "the decoder has failed")))
}

/// Whether a file is in a variant that Pillow reads and the decoder may not: only TIFF has so many.
pub(crate) fn is_unusual(format: Format, bytes: &[u8]) -> bool {
    format == Format::Tiff && bytes.len() > 64
}

/// Decodes an image, oriented as its Exif data says.
pub(crate) fn decoded(bytes: &[u8]) -> Result<DynamicImage, MediaError> {
    let format = Format::of(bytes).ok_or(MediaError::Unknown { kind: "images", bytes: bytes.len() })?;
    let decoder = format.decoder().ok_or(MediaError::Conversion { format, target: "pixels" })?;
    guarded(format, || {
        let fail = |error| MediaError::damaged(format, error);
        let mut reader = ImageReader::with_format(Cursor::new(bytes), decoder);
        let mut limits = Limits::default();
        limits.max_alloc = Some(MEMORY);
        reader.limits(limits);
        let mut decoder = reader.into_decoder().map_err(fail)?;
        let (width, height) = decoder.dimensions();
        if u64::from(width) * u64::from(height) > MAXIMUM_PIXELS {
            return Err(MediaError::Pixels { width, height });
        }
        let orientation = decoder.orientation().map_err(fail)?;
        let mut image = DynamicImage::from_decoder(decoder).map_err(fail)?;
        image.apply_orientation(orientation);
        Ok(image)
    })
}

/// Whether the Exif data of an image says that it must be turned or mirrored to be upright.
pub fn oriented(bytes: &[u8]) -> bool {
    let Some(format) = Format::of(bytes) else { return false };
    let Some(decoder) = format.decoder() else { return false };
    let orientation = guarded(format, || {
        let reader = ImageReader::with_format(Cursor::new(bytes), decoder);
        let fail = |error| MediaError::damaged(format, error);
        reader.into_decoder().and_then(|mut decoder| decoder.orientation()).map_err(fail)
    });
    orientation.is_ok_and(|orientation| orientation != Orientation::NoTransforms)
}

/// Converts an image of any format to PNG.
pub fn as_png(bytes: &[u8]) -> Result<Vec<u8>, MediaError> {
    let image = decoded(bytes)?;
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).map_err(|error| MediaError::damaged(Format::Png, error))?;
    Ok(file.into_inner())
}

/// Makes a version of an image that is at most `side` pixels wide and high.
pub fn thumbnail(bytes: &[u8], side: u32) -> Result<Thumbnail, MediaError> {
    let image = decoded(bytes)?;
    let small =
        if image.width() > side || image.height() > side { image.thumbnail(side, side) } else { image };
    let fail = |error| MediaError::damaged(Format::Jpeg, error);
    let mut file = Vec::new();
    if small.color().has_alpha() {
        let small = small.to_rgba8();
        small.write_to(&mut Cursor::new(&mut file), ImageFormat::Png).map_err(fail)?;
        return Ok(Thumbnail { format: Format::Png, bytes: file });
    }
    let small = small.to_rgb8();
    JpegEncoder::new_with_quality(&mut file, QUALITY)
        .encode(small.as_raw(), small.width(), small.height(), ExtendedColorType::Rgb8)
        .map_err(fail)?;
    Ok(Thumbnail { format: Format::Jpeg, bytes: file })
}
