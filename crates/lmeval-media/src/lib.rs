//! Images and sounds of documents: what a file is, whether it can be used, and the forms in which it is sent and shown.
//!
//! A file is sent as it is wherever its receiver takes its format. It is decoded only to convert a format that servers do not take,
//! and for thumbnails.
//!
//! ```
//! use lmeval_media::{Format, checked, facts};
//! use lmeval_pycompat::{Media, MediaKind};
//!
//! let image = Media::from_bytes(MediaKind::Image, b"BM no bitmap".as_slice());
//! assert_eq!(Format::of(&image.bytes().unwrap()), Some(Format::Bmp));
//! assert!(checked(&image).is_err());
//! ```

mod error;
mod facts;
mod format;
mod opus;
mod picture;
mod preview;
mod resample;
mod resize;
mod sound;
mod summary;
mod text;

pub use error::MediaError;
pub use facts::{Facts, MAXIMUM_PIXELS, checked, facts};
pub use format::Format;
pub use picture::{Thumbnail, as_png, oriented, thumbnail};
pub use preview::preview;
pub use resize::{Bounds, resized};
pub use sound::as_wav;
pub use summary::{data_url, summary};
pub use text::from_text;
