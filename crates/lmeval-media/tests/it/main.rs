//! Formats, checks, conversions and damaged files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod resize;
mod sound;

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use lmeval_media::{
    Bounds, Format, as_png, as_wav, checked, data_url, facts, oriented, resized, summary, thumbnail,
};
use lmeval_pycompat::{Media, MediaKind, json};

const FLAC: &[u8] = include_bytes!("../fixtures/tone.flac");
const FLAC_24: &[u8] = include_bytes!("../fixtures/tone24.flac");
const OGG: &[u8] = include_bytes!("../fixtures/tone.ogg");
const MP3: &[u8] = include_bytes!("../fixtures/tone.mp3");
const OPUS: &[u8] = include_bytes!("../fixtures/chirp.opus");
const WAV: &[u8] = include_bytes!("../fixtures/tone16.wav");
const WAV_64: &[u8] = include_bytes!("../fixtures/tone_f64.wav");

const IMAGES: [(ImageFormat, Format); 6] = [
    (ImageFormat::Png, Format::Png),
    (ImageFormat::Jpeg, Format::Jpeg),
    (ImageFormat::Gif, Format::Gif),
    (ImageFormat::WebP, Format::WebP),
    (ImageFormat::Bmp, Format::Bmp),
    (ImageFormat::Tiff, Format::Tiff),
];

fn drawing(width: u32, height: u32) -> DynamicImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([(x * 7) as u8, (y * 11) as u8, (x * y) as u8])).into()
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, format).unwrap();
    file.into_inner()
}

fn media(kind: MediaKind, bytes: &[u8]) -> Media {
    Media::from_bytes(kind, bytes)
}

#[test]
fn reads_the_heads_of_all_formats() {
    for (written, format) in IMAGES {
        let file = encoded(&drawing(33, 20), written);
        let image = media(MediaKind::Image, &file);
        let found = facts(&image).unwrap();
        assert_eq!((found.format, found.size, found.bytes), (format, Some((33, 20)), file.len()));
        checked(&image).unwrap();
        assert!(checked(&media(MediaKind::Audio, &file)).is_err(), "an image is no sound");
        assert!(!oriented(&file));
    }
    for (file, format) in [
        (FLAC, Format::Flac),
        (OGG, Format::Ogg),
        (OPUS, Format::Opus),
        (MP3, Format::Mp3),
        (WAV, Format::Wav),
        (WAV_64, Format::Wav),
    ] {
        let sound = media(MediaKind::Audio, file);
        assert_eq!(facts(&sound).unwrap().format, format);
        checked(&sound).unwrap();
    }
}

#[test]
fn conversions_keep_pixels_and_samples() {
    let drawing = drawing(33, 20);
    for format in [ImageFormat::Bmp, ImageFormat::Tiff, ImageFormat::Png] {
        let png = as_png(&encoded(&drawing, format)).unwrap();
        assert_eq!(image::load_from_memory(&png).unwrap().to_rgb8(), drawing.to_rgb8());
    }
    // The header of our WAV files has 44 bytes; soundfile wrote the same samples.
    let samples = |file: &[u8]| as_wav(file).unwrap()[44..].to_vec();
    assert_eq!(samples(FLAC), samples(WAV));
    assert!(WAV.ends_with(&samples(WAV)));
    assert_eq!(as_wav(FLAC).unwrap(), as_wav(&as_wav(FLAC).unwrap()).unwrap());
    let mono = samples(WAV_64);
    let near = |file: &[u8], most: i32| {
        let read = |bytes: &[u8]| -> Vec<i32> {
            bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]).into()).collect()
        };
        let (left, right) = (read(&samples(file)), read(&mono));
        assert_eq!(left.len(), right.len());
        let worst = left.iter().zip(&right).map(|(left, right)| (left - right).abs()).max().unwrap();
        assert!(worst <= most, "{worst}");
    };
    near(FLAC_24, 1);
    // Lossy, and the first samples of a stream are the worst.
    near(OGG, 3000);
}

#[test]
fn thumbnails_are_small() {
    let file = encoded(&drawing(2000, 1000), ImageFormat::Png);
    let small = thumbnail(&file, 256).unwrap();
    let shown = image::load_from_memory(&small.bytes).unwrap();
    assert_eq!((small.format, shown.width(), shown.height()), (Format::Jpeg, 256, 128));
    assert!(small.bytes.len() < 32_000, "{}", small.bytes.len());
    let clear = encoded(&drawing(300, 10).to_rgba8().into(), ImageFormat::Png);
    assert_eq!(thumbnail(&clear, 256).unwrap().format, Format::Png);
}

#[test]
fn summaries_have_hash_format_and_size() {
    let file = encoded(&drawing(3, 2), ImageFormat::Bmp);
    let image = media(MediaKind::Image, &file);
    let text = json::dumps(&summary(&image), &json::Options::default()).unwrap();
    let hash = image.digest_text();
    assert_eq!(
        text,
        format!(
            r#"{{"image": "sha256:{hash}", "format": "bmp", "width": 3, "height": 2, "bytes": {}}}"#,
            file.len()
        )
    );
    assert_eq!(data_url(Format::Gif, b"GIF8"), "data:image/gif;base64,R0lGOA==");
}

#[test]
fn damaged_files_are_errors() {
    let images: Vec<Vec<u8>> = IMAGES.iter().map(|(format, _)| encoded(&drawing(40, 30), *format)).collect();
    let mut samples: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
    samples.extend([FLAC, OGG, OPUS, MP3, WAV, WAV_64]);
    let mut tried = 0;
    lmeval_testkit::mutate(&samples, 1200, |bytes| {
        tried += 1;
        for kind in [MediaKind::Image, MediaKind::Audio] {
            let _ = checked(&media(kind, bytes));
            let _ = summary(&media(kind, bytes));
        }
        let _ = oriented(bytes);
        let _ = as_png(bytes);
        let _ = thumbnail(bytes, 64);
        let _ = as_wav(bytes);
        let bounds = Bounds { side: Some(9), ..Bounds::default() };
        let _ = resized(&media(MediaKind::Image, bytes), bounds);
    });
    assert!(tried >= 1200);
}

/// The most memory of this process, in KiB.
#[cfg(target_os = "linux")]
#[test]
fn damaged_files_take_little_memory() {
    damaged_files_are_errors();
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(kib < 1 << 20, "{kib} KiB");
}
