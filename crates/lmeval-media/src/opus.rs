//! Opus in Ogg files.

use std::fmt::Display;
use std::io::Cursor;

use ogg::PacketReader;
use opus_decoder::OpusDecoder;

use crate::error::MediaError;
use crate::format::Format;
use crate::sound::{Decoded, limited};

/// Opus is decoded at this rate, whatever was recorded.
const RATE: u32 = 48_000;

/// The samples of a packet in each channel at most: 120 ms.
const LONGEST_PACKET: usize = 5760;

/// The first packet of a stream.
struct Head {
    channels: u8,
    /// Samples of each channel that the decoder needs to settle.
    skipped: usize,
    /// The factor of the output.
    gain: f64,
}

impl Head {
    fn read(packet: &[u8]) -> Result<Self, MediaError> {
        let two = |at: usize| Some([*packet.get(at)?, *packet.get(at + 1)?]);
        let (Some(channels), Some(skipped), Some(gain), Some(family)) =
            (packet.get(9), two(10), two(16), packet.get(18))
        else {
            return Err(MediaError::damaged(Format::Opus, "its head is too short"));
        };
        if *family != 0 || !matches!(channels, 1 | 2) {
            let message = format!("Opus with {channels} channels in family {family}");
            return Err(MediaError::Unsupported { what: message, target: "WAV" });
        }
        // In decibels, with 8 fraction bits.
        let decibels = f64::from(i16::from_le_bytes(gain)) / 256.0;
        Ok(Self {
            channels: *channels,
            skipped: u16::from_le_bytes(skipped).into(),
            gain: 10_f64.powf(decibels / 20.0),
        })
    }
}

/// Decodes a file: without the samples before its start and after its end.
pub(crate) fn of_opus(bytes: &[u8]) -> Result<Decoded, MediaError> {
    fn failed(error: impl Display) -> MediaError {
        MediaError::damaged(Format::Opus, error)
    }
    let mut packets = PacketReader::new(Cursor::new(bytes));
    let head = Head::read(&packets.read_packet_expected().map_err(failed)?.data)?;
    // The second packet has the names of artist and song.
    packets.read_packet_expected().map_err(failed)?;
    let channels = usize::from(head.channels);
    let mut decoder = OpusDecoder::new(RATE, channels).map_err(failed)?;
    let mut room = vec![0_i16; LONGEST_PACKET * channels];
    let (mut samples, mut end) = (Vec::new(), None);
    while let Some(packet) = packets.read_packet().map_err(failed)? {
        let count = decoder.decode(&packet.data, &mut room, false).map_err(failed)?;
        samples.extend_from_slice(room.get(..count * channels).unwrap_or(&room));
        limited(Format::Opus, samples.len())?;
        if packet.last_in_page() {
            end = usize::try_from(packet.absgp_page()).ok();
        }
    }
    if let Some(end) = end {
        samples.truncate(end.saturating_mul(channels));
    }
    samples.drain(..(head.skipped * channels).min(samples.len()));
    if (head.gain - 1.0).abs() > f64::EPSILON {
        for sample in &mut samples {
            *sample = (f64::from(*sample) * head.gain).round() as i16;
        }
    }
    Ok((samples, head.channels.into(), RATE))
}
