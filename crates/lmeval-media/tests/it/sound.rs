//! Decoded sounds beside those of libsndfile, whose WAV files are beside the samples.

use lmeval_media::{Format, as_wav, checked, preview};
use lmeval_pycompat::{Media, MediaKind};

/// Chirps, with one channel and two, and what libsndfile 1.2 decodes.
const FILES: [(&str, &[u8], &[u8]); 4] = [
    ("opus", include_bytes!("../fixtures/chirp.opus"), include_bytes!("../fixtures/chirp.opus.wav")),
    ("opus", include_bytes!("../fixtures/stereo.opus"), include_bytes!("../fixtures/stereo.opus.wav")),
    ("mp3", include_bytes!("../fixtures/chirp.mp3"), include_bytes!("../fixtures/chirp.mp3.wav")),
    ("mp3", include_bytes!("../fixtures/stereo.mp3"), include_bytes!("../fixtures/stereo.mp3.wav")),
];

fn samples(file: &[u8]) -> Vec<i32> {
    file.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]).into()).collect()
}

#[test]
fn opus_and_mp3_are_decoded_as_libsndfile_does() {
    for (number, (name, file, decoded)) in FILES.iter().enumerate() {
        assert_eq!(Format::of(file).unwrap().name(), *name);
        checked(&Media::from_bytes(MediaKind::Audio, *file)).unwrap();
        let wav = as_wav(file).unwrap();
        // Length, channels and rate.
        assert_eq!(wav[..44], decoded[..44], "{name} {number}");
        let pairs = samples(&wav[44..]).into_iter().zip(samples(&decoded[44..]));
        let worst = pairs.map(|(own, other)| (own - other).abs()).max().unwrap();
        assert!(worst <= 2, "{name} {number}: {worst}");
    }
}

/// The page of an Ogg file with one packet.
fn page(packet: &[u8]) -> Vec<u8> {
    let mut page = b"OggS\0\x02".to_vec();
    page.extend([0; 20]);
    page.extend([1, u8::try_from(packet.len()).unwrap()]);
    page.extend(packet);
    let checksum = page.iter().fold(0_u32, |mut sum, byte| {
        sum ^= u32::from(*byte) << 24;
        (0..8).for_each(|_| sum = sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 });
        sum
    });
    page[22..26].copy_from_slice(&checksum.to_le_bytes());
    page
}

#[test]
fn variants_that_are_not_decoded_say_what_to_do() {
    let surround = page(b"OpusHead\x01\x06\x38\x01\x80\xbb\0\0\0\0\x01\x04\x02\0\x04\x01\x02\x03\x05");
    let speex = page(b"Speex   1.2.0");
    for (file, message) in [
        (surround, "Opus with 6 channels in family 1 cannot be converted to WAV"),
        (speex, "Ogg with neither Vorbis nor Opus cannot be converted to WAV"),
    ] {
        let error = as_wav(&file).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(error.hint().contains("ffmpeg"), "{}", error.hint());
    }
    let cut = &FILES[0].1[..900];
    assert!(as_wav(cut).unwrap_err().to_string().starts_with("the opus file is damaged"));
    assert!(as_wav(b"ID3 no frames").unwrap_err().to_string().contains("it has no frames"));
}

#[test]
fn long_sounds_are_shown_as_clips() {
    // A minute, by repeating the frames of a file.
    let mp3 = FILES[2].1.repeat(600);
    assert!(mp3.len() > 48 << 10);
    let url = preview(&Media::from_bytes(MediaKind::Audio, mp3)).unwrap();
    assert!(url.starts_with("data:audio/wav;base64,") && url.len() < 128 << 10, "{}", url.len());
}
