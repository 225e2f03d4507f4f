//! Sounds as WAV files with 16-bit samples, which every server takes.

use std::io::Cursor;

use lewton::inside_ogg::OggStreamReader;
use nanomp3::SliceReader;

use crate::error::MediaError;
use crate::format::Format;
use crate::opus::of_opus;
use crate::picture::guarded;

/// The most samples that are decoded: five hours of stereo at 48 kHz.
const MAXIMUM_SAMPLES: usize = 2 * 48_000 * 3600 * 5;

/// The bytes in which the first packet of an Ogg file begins.
const FIRST_PAGE: usize = 27 + 255;

/// The rate and the length of clips.
const CLIP_RATE: u32 = 8000;
const CLIP_SECONDS: usize = 10;

/// Converts a sound to a WAV file with 16-bit samples.
pub fn as_wav(bytes: &[u8]) -> Result<Vec<u8>, MediaError> {
    let (samples, channels, rate) = decoded(bytes)?;
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    Ok(written(&data, 16, channels, rate))
}

/// The first seconds of a sound as a small WAV file: one channel of eight bits at a low rate.
pub(crate) fn clip(bytes: &[u8]) -> Result<Vec<u8>, MediaError> {
    let (samples, channels, rate) = decoded(bytes)?;
    let step = usize::try_from(rate.div_ceil(CLIP_RATE).max(1)).unwrap_or(1);
    let width = step * usize::from(channels);
    let rate = rate / u32::try_from(step).unwrap_or(1);
    let most = CLIP_SECONDS * usize::try_from(rate).unwrap_or(0);
    let mean =
        |window: &[i16]| window.iter().map(|sample| i32::from(*sample)).sum::<i32>() / window.len() as i32;
    let data: Vec<u8> = samples
        .chunks_exact(width.max(1))
        .take(most)
        .map(|window| ((mean(window) >> 8) + 128) as u8)
        .collect();
    Ok(written(&data, 8, 1, rate))
}

fn decoded(bytes: &[u8]) -> Result<Decoded, MediaError> {
    let format = Format::of(bytes).ok_or(MediaError::Unknown { kind: "sounds", bytes: bytes.len() })?;
    guarded(format, || match format {
        Format::Wav => of_wav(bytes),
        Format::Flac => of_flac(bytes),
        Format::Mp3 => of_mp3(bytes),
        Format::Ogg => of_ogg(bytes),
        Format::Opus => of_opus(bytes),
        format => Err(MediaError::Conversion { format, target: "WAV" }),
    })
}

/// Samples, all channels in turn, the number of channels, and the rate.
pub(crate) type Decoded = (Vec<i16>, u16, u32);

fn of_mp3(bytes: &[u8]) -> Result<Decoded, MediaError> {
    let fail = |error: nanomp3::Error| MediaError::damaged(Format::Mp3, error);
    let mut reader: SliceReader<'_, i16> = SliceReader::new(bytes);
    let Some(channels) = reader.channels() else {
        return Err(MediaError::damaged(Format::Mp3, "it has no frames"));
    };
    let rate = reader.sample_rate();
    let mut samples = Vec::new();
    while let Some(frame) = reader.read_frame().map_err(fail)? {
        samples.extend_from_slice(frame);
        limited(Format::Mp3, samples.len())?;
    }
    Ok((samples, channels.num().into(), rate))
}

fn of_flac(bytes: &[u8]) -> Result<Decoded, MediaError> {
    let fail = |error| MediaError::damaged(Format::Flac, error);
    let mut reader = claxon::FlacReader::new(Cursor::new(bytes)).map_err(fail)?;
    let info = reader.streaminfo();
    let bits = info.bits_per_sample;
    let mut samples = Vec::new();
    for sample in reader.samples() {
        let sample = sample.map_err(fail)?;
        let scaled = if bits > 16 { sample >> (bits - 16) } else { sample << (16 - bits) };
        samples.push(clamped(f64::from(scaled)));
        limited(Format::Flac, samples.len())?;
    }
    Ok((samples, u16::try_from(info.channels).unwrap_or(1), info.sample_rate))
}

fn of_ogg(bytes: &[u8]) -> Result<Decoded, MediaError> {
    let fail = |error: lewton::VorbisError| MediaError::damaged(Format::Ogg, error);
    if !bytes.windows(7).take(FIRST_PAGE).any(|window| window == b"\x01vorbis") {
        let what = "Ogg with neither Vorbis nor Opus".to_owned();
        return Err(MediaError::Unsupported { what, target: "WAV" });
    }
    let mut reader = OggStreamReader::new(Cursor::new(bytes)).map_err(fail)?;
    let mut samples = Vec::new();
    while let Some(packet) = reader.read_dec_packet_itl().map_err(fail)? {
        samples.extend(packet);
        limited(Format::Ogg, samples.len())?;
    }
    // The last packet may have more samples than the stream.
    if let Some(length) = reader.get_last_absgp().and_then(|length| usize::try_from(length).ok()) {
        samples.truncate(length.saturating_mul(reader.ident_hdr.audio_channels.into()));
    }
    Ok((samples, u16::from(reader.ident_hdr.audio_channels), reader.ident_hdr.audio_sample_rate))
}

/// Fails if a sound is too long to be decoded.
pub(crate) fn limited(format: Format, samples: usize) -> Result<(), MediaError> {
    if samples > MAXIMUM_SAMPLES {
        return Err(MediaError::damaged(format, format!("it has more than {MAXIMUM_SAMPLES} samples")));
    }
    Ok(())
}

fn of_wav(bytes: &[u8]) -> Result<Decoded, MediaError> {
    let bad = |message: &str| MediaError::damaged(Format::Wav, message);
    let head = chunk(bytes, *b"fmt ").ok_or_else(|| bad("it has no chunk `fmt `"))?;
    let data = chunk(bytes, *b"data").ok_or_else(|| bad("it has no chunk `data`"))?;
    let two = |at: usize| head.get(at..at + 2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let short = || bad("its head is too short");
    let (channels, bits) = (two(2).ok_or_else(short)?, two(14).ok_or_else(short)?);
    let rate =
        two(4).zip(two(6)).map(|(low, high)| u32::from(high) << 16 | u32::from(low)).ok_or_else(short)?;
    let kind = match two(0).ok_or_else(short)? {
        // The extensible form has the kind further down.
        0xfffe => two(24).ok_or_else(short)?,
        kind => kind,
    };
    let each = |width: usize, sample: &dyn Fn(&[u8]) -> i16| data.chunks_exact(width).map(sample).collect();
    let float = |value: f64| clamped((value * 32768.0).round());
    let samples: Vec<i16> = match (kind, bits) {
        (1, 8) => each(1, &|byte| (i16::from(byte[0]) - 128) << 8),
        (1, 16) => each(2, &|pair| i16::from_le_bytes([pair[0], pair[1]])),
        (1, 24) => each(3, &|three| i16::from_le_bytes([three[1], three[2]])),
        (1, 32) => each(4, &|four| i16::from_le_bytes([four[2], four[3]])),
        (3, 32) => each(4, &|four| float(f32::from_le_bytes([four[0], four[1], four[2], four[3]]).into())),
        (3, 64) => each(8, &|eight| float(eight.try_into().map_or(0.0, f64::from_le_bytes))),
        _ => return Err(bad(&format!("samples of kind {kind} with {bits} bits are not supported"))),
    };
    Ok((samples, channels.max(1), rate))
}

/// The content of the first chunk with a name.
fn chunk(bytes: &[u8], name: [u8; 4]) -> Option<&[u8]> {
    let mut rest = bytes.get(12..)?;
    loop {
        let (head, tail) = rest.split_at_checked(8)?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if head[..4] == name {
            return Some(&tail[..length.min(tail.len())]);
        }
        rest = tail.get(length.checked_add(length % 2)?..)?;
    }
}

fn clamped(value: f64) -> i16 {
    // The conversion saturates.
    value as i16
}

fn written(data: &[u8], bits: u16, channels: u16, rate: u32) -> Vec<u8> {
    let mut file = Vec::with_capacity(data.len() + 44);
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
    let frame = channels.saturating_mul(bits / 8);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&number(data.len() + 36));
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&channels.to_le_bytes());
    file.extend_from_slice(&rate.to_le_bytes());
    file.extend_from_slice(&rate.saturating_mul(frame.into()).to_le_bytes());
    file.extend_from_slice(&frame.to_le_bytes());
    file.extend_from_slice(&bits.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&number(data.len()));
    file.extend_from_slice(data);
    file
}
