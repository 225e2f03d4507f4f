//! Small versions of files for the viewer and for reports.

use lmeval_pycompat::{Media, MediaKind};

use crate::format::Format;
use crate::picture::thumbnail;
use crate::sound::clip;
use crate::summary::data_url;

/// The width and height of a thumbnail at most.
const SIDE: u32 = 320;

/// The bytes of a sound that is shown as it is.
const SOUND: usize = 48 << 10;

/// The bytes of a preview at most; larger ones are left out.
const MOST: usize = 128 << 10;

/// A `data:` address with a small version of a file: a thumbnail of an image, at most ten seconds of a sound. `None` if the
/// file cannot be decoded, or its small version is large.
pub fn preview(media: &Media) -> Option<String> {
    let bytes = media.bytes().ok()?;
    let (format, small) = if media.kind() == MediaKind::Image {
        let small = thumbnail(&bytes, SIDE).ok()?;
        (small.format, small.bytes)
    } else if bytes.len() <= SOUND {
        (Format::of(&bytes)?, bytes.to_vec())
    } else {
        (Format::Wav, clip(&bytes).ok()?)
    };
    (small.len() <= MOST).then(|| data_url(format, &small))
}
