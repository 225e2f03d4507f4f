//! Distributions as bytes.
//!
//! Every token belongs to a tier by the distance of its log-probability from the largest one. Near tokens decide a divergence and are exact to
//! single precision; far ones are many and weigh little, so that a few bits are enough.

use lmeval_core::Distribution;

use super::store::{FIXED, Stored, number};

/// The width of a tier in nats.
const WIDTH: f64 = 4.0;
/// Bits of a distance in each tier after the first; further tiers have those of the last. A step of tier `t` is `4 / 2^bits`, and its
/// tokens have at most `e^(−4t)` of the largest probability.
const BITS: [u32; 4] = [18, 14, 11, 9];
/// The number of tiers. Tokens that are further below the most likely one belong to the rest: their probability is below 1e-27.
const TIERS: usize = 16;
/// Bits of the number of tokens of a tier, and of the parameter of the Rice code of their gaps.
const COUNT: u32 = 24;
const PARAMETER: u32 = 5;
/// A quotient in the Rice code that means: the whole gap follows.
const ESCAPE: u32 = 24;

/// The payload of a distribution, and how many tokens it lists.
pub(super) fn encode(stored: &Stored) -> (Vec<u8>, u64) {
    let Stored { logprob, distribution } = stored;
    let largest = distribution.likely.iter().map(|(_, logprob)| *logprob).fold(f64::NEG_INFINITY, f64::max);
    let mut rest = distribution.rest;
    let mut tiers: Vec<Vec<(u32, f64)>> = vec![Vec::new(); TIERS];
    let mut listed = 0_u32;
    for &(token, logprob) in &distribution.likely {
        let distance = largest - logprob;
        match tiers.get_mut((distance / WIDTH) as usize).filter(|_| distance.is_finite()) {
            Some(tier) => {
                tier.push((token, distance));
                listed += 1;
            }
            None => rest += logprob.exp(),
        }
    }
    let mut payload = Vec::with_capacity(FIXED + 2 * listed as usize);
    for number in [*logprob, largest, rest] {
        payload.extend_from_slice(&number.to_le_bytes());
    }
    payload.extend_from_slice(&listed.to_le_bytes());
    let mut bits = BitWriter { bytes: payload, word: 0, filled: 0 };
    let mut left = listed;
    for (index, tier) in tiers.iter().enumerate() {
        if left == 0 {
            break;
        }
        write_tier(&mut bits, index, tier);
        left -= tier.len() as u32;
    }
    (bits.finish(), u64::from(listed))
}

fn write_tier(bits: &mut BitWriter, tier: usize, tokens: &[(u32, f64)]) {
    bits.write(tokens.len() as u32, COUNT);
    let Some((last, _)) = tokens.last() else { return };
    let mean = (last / tokens.len() as u32).max(1);
    let parameter = mean.ilog2();
    bits.write(parameter, PARAMETER);
    let mut next = 0;
    for &(token, distance) in tokens {
        let gap = token - next;
        let quotient = gap >> parameter;
        if quotient < ESCAPE {
            // A one after as many zeros.
            bits.write(1 << quotient, quotient + 1);
            bits.write(gap & ((1 << parameter) - 1), parameter);
        } else {
            bits.write(0, ESCAPE);
            bits.write(gap, 32);
        }
        next = token + 1;
        match width(tier) {
            None => bits.write((distance as f32).to_bits(), 32),
            Some(width) => {
                let scale = f64::from(1_u32 << width) / WIDTH;
                let code = ((distance - tier as f64 * WIDTH) * scale) as u32;
                bits.write(code.min((1 << width) - 1), width);
            }
        }
    }
}

/// The bits of a distance; `None` for a number in single precision.
fn width(tier: usize) -> Option<u32> {
    Some(BITS[tier.checked_sub(1)?.min(BITS.len() - 1)])
}

/// Reads a payload; `None` if it is damaged.
pub(super) fn decode(payload: &[u8]) -> Option<Stored> {
    let (fixed, bytes) = payload.split_at_checked(FIXED)?;
    let float = |at: usize| f64::from_le_bytes(std::array::from_fn(|index| fixed[at + index]));
    let (logprob, largest, rest) = (float(0), float(8), float(16));
    let count = number(fixed, 24) as usize;
    let mut likely = Vec::with_capacity(count.min(8 * payload.len()));
    let mut bits = BitReader { bytes, word: 0, filled: 0 };
    let mut tier = 0;
    while likely.len() < count && tier < TIERS {
        read_tier(&mut bits, tier, largest, count, &mut likely)?;
        tier += 1;
    }
    if likely.len() != count || !bits.bytes.is_empty() {
        return None;
    }
    // Each tier is in order already, which a stable sort makes use of.
    likely.sort_by_key(|(token, _)| *token);
    // Rounding has changed the sum a little; without this, the error of a divergence would be of first order in it.
    let normaliser = (likely.iter().map(|(_, logprob)| logprob.exp()).sum::<f64>() + rest).ln();
    for (_, logprob) in &mut likely {
        *logprob -= normaliser;
    }
    Some(Stored { logprob, distribution: Distribution { likely, rest: rest / normaliser.exp() } })
}

fn read_tier(
    bits: &mut BitReader<'_>,
    tier: usize,
    largest: f64,
    most: usize,
    likely: &mut Vec<(u32, f64)>,
) -> Option<()> {
    let count = bits.read(COUNT)? as usize;
    if count == 0 {
        return Some(());
    }
    if likely.len() + count > most {
        return None;
    }
    let parameter = bits.read(PARAMETER)?;
    let mut next = 0_u32;
    for _ in 0..count {
        let mut quotient = 0;
        while quotient < ESCAPE && bits.read(1)? == 0 {
            quotient += 1;
        }
        let gap = if quotient < ESCAPE {
            quotient.checked_shl(parameter)? | bits.read(parameter)?
        } else {
            bits.read(32)?
        };
        let token = next.checked_add(gap)?;
        next = token.checked_add(1)?;
        let distance = match width(tier) {
            None => f64::from(f32::from_bits(bits.read(32)?)),
            Some(width) => {
                // The middle of the step.
                let step = WIDTH / f64::from(1_u32 << width);
                tier as f64 * WIDTH + (f64::from(bits.read(width)?) + 0.5) * step
            }
        };
        likely.push((token, largest - distance));
    }
    Some(())
}

/// Writes numbers of any width, the lowest bit first.
struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    filled: u32,
}

impl BitWriter {
    /// Writes the lowest `width` bits of a number, 32 at most.
    fn write(&mut self, number: u32, width: u32) {
        self.word |= u64::from(number) << self.filled;
        self.filled += width;
        while self.filled >= 8 {
            self.bytes.push(self.word as u8);
            self.word >>= 8;
            self.filled -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.bytes.push(self.word as u8);
        }
        self.bytes
    }
}

/// Reads what [`BitWriter`] has written.
struct BitReader<'a> {
    bytes: &'a [u8],
    word: u64,
    filled: u32,
}

impl BitReader<'_> {
    fn read(&mut self, width: u32) -> Option<u32> {
        while self.filled < width {
            let (&byte, after) = self.bytes.split_first()?;
            self.word |= u64::from(byte) << self.filled;
            (self.bytes, self.filled) = (after, self.filled + 8);
        }
        let number = (self.word & ((1 << width) - 1)) as u32;
        self.word >>= width;
        self.filled -= width;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use lmeval_core::Kept;

    use super::super::measure;
    use super::*;

    fn stored(shift: u16, share: f64) -> Stored {
        let logits: Vec<f32> = (0..3000_u16)
            .map(|index| (f32::from(index + shift) * 1.1).sin() * 7.0 - f32::from(index % 11))
            .collect();
        let distribution = Distribution::of_logits(&logits, Kept { share, most: usize::MAX, top: 0 });
        Stored { logprob: -1.5, distribution }
    }

    #[test]
    fn rounding_hardly_changes_a_divergence() {
        for share in [0.9, 0.9999, 1.0] {
            for shift in [1, 7, 300] {
                let (before, other) = (stored(0, share), stored(shift, 1.0));
                let after = decode(&encode(&before).0).unwrap();
                assert_eq!(after.logprob, before.logprob);
                let tokens = |stored: &Stored| -> Vec<u32> {
                    stored.distribution.likely.iter().map(|(token, _)| *token).collect()
                };
                assert_eq!(tokens(&after), tokens(&before));
                let zero = measure(&before.distribution, &after.distribution, (0.0, 0.0));
                assert!(zero.kl < 1e-9 && zero.agrees, "{share}: {zero:?}");
                let of = |stored: &Stored| measure(&stored.distribution, &other.distribution, (0.0, 0.0));
                let (exact, found) = (of(&before), of(&after));
                assert!((exact.kl - found.kl).abs() < 1e-6 * exact.kl.max(1.0), "{exact:?} {found:?}");
            }
        }
    }

    #[test]
    fn unlikely_tokens_take_less_room() {
        let (payload, listed) = encode(&stored(0, 1.0));
        assert_eq!(listed, 3000);
        assert!(payload.len() < FIXED + 5 * 3000 / 2, "{}", payload.len());
    }

    #[test]
    fn the_most_likely_of_near_tokens_stays_so() {
        let likely = vec![(0, 0.4999_f64.ln()), (9, 0.500_1_f64.ln()), (70_000, 1e-9_f64.ln())];
        let before = Stored { logprob: -0.7, distribution: Distribution { likely, rest: 0.0 } };
        let after = decode(&encode(&before).0).unwrap();
        assert_eq!(after.distribution.best(), Some(9));
        assert_eq!(after.distribution.likely.len(), 3);
    }

    #[test]
    fn empty_and_impossible_distributions_survive() {
        let empty = Stored { logprob: -1.0, distribution: Distribution { likely: Vec::new(), rest: 1.0 } };
        assert_eq!(decode(&encode(&empty).0).unwrap().distribution.rest, 1.0);
        let likely = vec![(3, 0.0), (4, f64::NEG_INFINITY)];
        let sure = Stored { logprob: 0.0, distribution: Distribution { likely, rest: 0.0 } };
        let after = decode(&encode(&sure).0).unwrap().distribution;
        assert_eq!((after.likely.len(), after.likely[0].0), (1, 3));
    }

    #[test]
    fn damaged_payloads_are_refused() {
        let sound = encode(&stored(0, 0.5)).0;
        for length in 0..sound.len() {
            assert!(decode(&sound[..length]).is_none(), "{length}");
        }
        lmeval_testkit::mutate(&[&sound], 2000, |payload| {
            let _ = decode(payload);
        });
    }
}
