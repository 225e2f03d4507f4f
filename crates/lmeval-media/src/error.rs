//! Why a file cannot be used.

use crate::facts::{MAXIMUM_BYTES, MAXIMUM_PIXELS};
use crate::format::Format;

/// Why an image or a sound cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Io(#[from] std::io::Error),
    /// The content has the signature of no supported format.
    #[error("the {bytes} bytes are in no known format for {kind}")]
    Unknown {
        /// What the column has: images or sounds.
        kind: &'static str,
        /// The size of the file.
        bytes: usize,
    },
    /// The file starts like one of its format, but cannot be decoded.
    #[error("the {} file is damaged: {message}", .format.name())]
    Damaged {
        /// The format that the signature names.
        format: Format,
        /// What is wrong.
        message: String,
    },
    /// The image has too many pixels to be a picture: probably a decompression bomb.
    #[error("an image of {width}×{height} pixels is larger than the limit of {MAXIMUM_PIXELS} pixels")]
    Pixels {
        /// The width that the file declares.
        width: u32,
        /// The height that the file declares.
        height: u32,
    },
    /// The file is too large to be sent.
    #[error("a file of {0} bytes is larger than the limit of {MAXIMUM_BYTES} bytes")]
    Bytes(u64),
    /// The conversion exists for no such format.
    #[error("{} files cannot be converted to {target}", .format.name())]
    Conversion {
        /// The format of the file.
        format: Format,
        /// The format that is needed.
        target: &'static str,
    },
    /// The conversion exists for the format, and not for this variant of it.
    #[error("{what} cannot be converted to {target}")]
    Unsupported {
        /// The variant.
        what: String,
        /// The format that is needed.
        target: &'static str,
    },
}

impl MediaError {
    /// What to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io(_) => "Paths in a dataset are relative to the folder in which the command runs",
            Self::Unknown { .. } => {
                "Images are PNG, JPEG, GIF, WebP, BMP or TIFF files; sounds are WAV, FLAC, MP3 or Ogg files with Vorbis or Opus"
            }
            Self::Damaged { .. } => {
                "Replace the file, or leave the document out with `--samples` or `process_docs`"
            }
            Self::Pixels { .. } | Self::Bytes(_) => "Make the file smaller, or leave the document out",
            Self::Conversion { .. } | Self::Unsupported { .. } => {
                "Convert the files of the dataset, sounds for example with `ffmpeg -i FILE FILE.wav`"
            }
        }
    }

    pub(crate) fn damaged(format: Format, message: impl std::fmt::Display) -> Self {
        Self::Damaged { format, message: format!("{message}") }
    }
}
