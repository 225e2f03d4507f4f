//! What a file declares about itself.

use std::io::Cursor;

use image::ImageReader;
use lmeval_pycompat::{Media, MediaKind};

use crate::error::MediaError;
use crate::format::Format;
use crate::picture;

/// The most pixels of an image: the number from which Pillow takes a file for a decompression bomb.
pub const MAXIMUM_PIXELS: u64 = 178_956_970;

/// The largest file.
pub(crate) const MAXIMUM_BYTES: u64 = 1 << 30;

/// What a file declares about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The format.
    pub format: Format,
    /// The size of the file.
    pub bytes: usize,
    /// The width and the height of an image.
    pub size: Option<(u32, u32)>,
}

/// Reads the head of a file. Fails if it is in no format of its kind, damaged, or too large.
pub fn facts(media: &Media) -> Result<Facts, MediaError> {
    facts_of(media.kind(), &media.bytes()?)
}

fn facts_of(kind: MediaKind, bytes: &[u8]) -> Result<Facts, MediaError> {
    let is_image = kind == MediaKind::Image;
    let format =
        Format::of(bytes).filter(|format| format.is_image() == is_image).ok_or(MediaError::Unknown {
            kind: if is_image { "images" } else { "sounds" },
            bytes: bytes.len(),
        })?;
    if bytes.len() as u64 > MAXIMUM_BYTES {
        return Err(MediaError::Bytes(bytes.len() as u64));
    }
    let Some(decoder) = format.decoder() else {
        return Ok(Facts { format, bytes: bytes.len(), size: None });
    };
    let size = picture::guarded(format, || {
        let reader = ImageReader::with_format(Cursor::new(bytes), decoder);
        reader.into_dimensions().map_err(|error| MediaError::damaged(format, error))
    });
    let (width, height) = match size {
        Ok(size) => size,
        // Rare variants that the decoder does not know are left to the receiver; their size is unknown.
        Err(_) if picture::is_unusual(format, bytes) => {
            return Ok(Facts { format, bytes: bytes.len(), size: None });
        }
        Err(error) => return Err(error),
    };
    if u64::from(width) * u64::from(height) > MAXIMUM_PIXELS {
        return Err(MediaError::Pixels { width, height });
    }
    Ok(Facts { format, bytes: bytes.len(), size: Some((width, height)) })
}

/// Checks a file before it becomes part of a request: also that its end is there.
pub fn checked(media: &Media) -> Result<(), MediaError> {
    let bytes = media.bytes()?;
    let facts = facts_of(media.kind(), &bytes)?;
    let is_complete = match facts.format {
        Format::Png => contains(&bytes, b"IEND"),
        Format::Jpeg => contains(&bytes, &[0xff, 0xd9]),
        Format::WebP => declared(&bytes).is_some_and(|length| length <= bytes.len()),
        Format::Wav => contains(&bytes, b"data"),
        _ => true,
    };
    if is_complete {
        return Ok(());
    }
    if matches!(facts.format, Format::Png | Format::WebP) && picture::decoded(&bytes).is_ok() {
        // All pixels are there; only what follows them is missing.
        return Ok(());
    }
    Err(MediaError::damaged(facts.format, "it ends early"))
}

/// The length of a RIFF file.
fn declared(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(4..8)?.try_into().ok().map(u32::from_le_bytes)?;
    usize::try_from(length).ok()?.checked_add(8)
}

/// Whether some bytes occur, sought from the end.
fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).rev().any(|window| window == wanted)
}
