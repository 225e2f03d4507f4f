//! File formats by their signatures.

/// A format of images or sounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG, in a JFIF or Exif file.
    Jpeg,
    /// GIF, of which the first frame counts.
    Gif,
    /// WebP, lossy or lossless.
    WebP,
    /// Windows bitmap.
    Bmp,
    /// TIFF, of which the first page counts.
    Tiff,
    /// RIFF WAVE.
    Wav,
    /// FLAC.
    Flac,
    /// MPEG audio, layer 3.
    Mp3,
    /// Ogg, usually with Vorbis.
    Ogg,
    /// Ogg with Opus.
    Opus,
}

impl Format {
    /// The format of a file, from its first bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [0x89, b'P', b'N', b'G', ..] => Self::Png,
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [b'G', b'I', b'F', b'8', ..] => Self::Gif,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::WebP,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Self::Wav,
            [b'B', b'M', ..] => Self::Bmp,
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Self::Tiff,
            [b'f', b'L', b'a', b'C', ..] => Self::Flac,
            [b'O', b'g', b'g', b'S', ..] if has_opus(bytes) => Self::Opus,
            [b'O', b'g', b'g', b'S', ..] => Self::Ogg,
            [b'I', b'D', b'3', ..] => Self::Mp3,
            // The synchronisation of an MPEG frame, layer 3.
            [0xff, second, ..] if second & 0xe6 == 0xe2 => Self::Mp3,
            _ => return None,
        })
    }

    /// Whether this is a format of images.
    pub fn is_image(self) -> bool {
        !matches!(self, Self::Wav | Self::Flac | Self::Mp3 | Self::Ogg | Self::Opus)
    }

    /// The name in messages and samples, and the usual file extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::WebP => "webp",
            Self::Bmp => "bmp",
            Self::Tiff => "tiff",
            Self::Wav => "wav",
            Self::Flac => "flac",
            Self::Mp3 => "mp3",
            Self::Ogg => "ogg",
            Self::Opus => "opus",
        }
    }

    /// The media type, such as `image/png`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
            Self::Bmp => "image/bmp",
            Self::Tiff => "image/tiff",
            Self::Wav => "audio/wav",
            Self::Flac => "audio/flac",
            Self::Mp3 => "audio/mpeg",
            Self::Ogg | Self::Opus => "audio/ogg",
        }
    }

    pub(crate) fn decoder(self) -> Option<image::ImageFormat> {
        Some(match self {
            Self::Png => image::ImageFormat::Png,
            Self::Jpeg => image::ImageFormat::Jpeg,
            Self::Gif => image::ImageFormat::Gif,
            Self::WebP => image::ImageFormat::WebP,
            Self::Bmp => image::ImageFormat::Bmp,
            Self::Tiff => image::ImageFormat::Tiff,
            _ => return None,
        })
    }
}

/// Whether the first packet of an Ogg file is of Opus: it follows the head of its page and the lengths of its segments.
fn has_opus(bytes: &[u8]) -> bool {
    let segments = bytes.get(26).copied().unwrap_or_default();
    bytes.get(27 + usize::from(segments)..).is_some_and(|packet| packet.starts_with(b"OpusHead"))
}
