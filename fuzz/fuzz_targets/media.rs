//! Any bytes are an image, a sound, or an error: heads, conversions, sizes and previews.
#![no_main]

use lmeval_media::{Bounds, as_png, as_wav, checked, oriented, preview, resized, summary};
use lmeval_pycompat::{Media, MediaKind};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for kind in [MediaKind::Image, MediaKind::Audio] {
        let media = Media::from_bytes(kind, bytes);
        let _ = (checked(&media), summary(&media), preview(&media));
        let _ = resized(&media, Bounds { side: Some(16), ..Bounds::default() });
    }
    let _ = (oriented(bytes), as_png(bytes), as_wav(bytes));
});
