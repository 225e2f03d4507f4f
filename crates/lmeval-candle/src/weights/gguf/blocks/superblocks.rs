//! Blocks of 256 weights in groups that have small scales of their own.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use super::simple::{LEVELS, levels};
use super::{f16_at, part, u16_at};
use crate::matrix::{affine, nibbles, scaled, signed};

/// One of the four codes of two bits in each byte.
#[inline(always)]
fn two_bits(bytes: &[u8; 32], place: usize) -> [i8; 32] {
    let mut codes = [0; 32];
    for index in 0..32 {
        codes[index] = (bytes[index] >> (2 * place) & 3) as i8;
    }
    codes
}

/// Two bits and a scale and a minimum of four bits per 16 weights.
#[inline(always)]
pub(super) fn q2_k(block: &[u8; 84], into: &mut [f32; 256]) {
    let (scale, minimum) = (f16_at(block, 80), f16_at(block, 82));
    for (half, into) in into.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let bytes = part::<32>(block, 16 + 32 * half);
        for (shift, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let codes = two_bits(bytes, shift);
            for (index, into) in into.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let both = block[8 * half + 2 * shift + index];
                let (scale, offset) = (scale * f32::from(both & 15), -(minimum * f32::from(both >> 4)));
                affine(&codes[16 * index..][..16], scale, offset, into);
            }
        }
    }
}

/// Three bits, of which the third is stored apart, and a scale of six bits per 16 weights.
#[inline(always)]
pub(super) fn q3_k(block: &[u8; 110], into: &mut [f32; 256]) {
    let scale = f16_at(block, 108);
    let high = part::<32>(block, 0);
    for (half, into) in into.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let bytes = part::<32>(block, 32 + 32 * half);
        for (shift, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let bit = 4 * half + shift;
            let mut codes = [0; 32];
            for index in 0..32 {
                let upper = (high[index] >> bit & 1) << 2;
                codes[index] = (bytes[index] >> (2 * shift) & 3 | upper) as i8 - 4;
            }
            for (index, into) in into.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let group = 8 * half + 2 * shift + index;
                // Sixteen scales: four bits of each in eight bytes, then two bits of each in four.
                let low = block[96 + group % 8] >> (4 * (group / 8)) & 15;
                let both = low | (block[104 + group % 4] >> (2 * (group / 4)) & 3) << 4;
                scaled(&codes[16 * index..][..16], scale * f32::from(both.cast_signed() - 32), into);
            }
        }
    }
}

/// The six-bit scales and minimums of eight groups, in twelve bytes.
#[inline(always)]
fn scales_and_minimums(bytes: &[u8; 12]) -> [(u8, u8); 8] {
    std::array::from_fn(|group| {
        if group < 4 {
            (bytes[group] & 63, bytes[group + 4] & 63)
        } else {
            let (low, upper) = (bytes[group + 4], [bytes[group - 4], bytes[group]]);
            (low & 15 | upper[0] >> 6 << 4, low >> 4 | upper[1] >> 6 << 4)
        }
    })
}

/// Four bits with scale and minimum per 32 weights.
#[inline(always)]
pub(super) fn q4_k(block: &[u8; 144], into: &mut [f32; 256]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    let groups = scales_and_minimums(part(block, 4));
    for (pair, into) in into.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        let codes = nibbles::<32>(part(block, 16 + 32 * pair));
        for (index, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (own, least) = groups[2 * pair + index];
            let (scale, offset) = (scale * f32::from(own), -(minimum * f32::from(least)));
            affine(&signed(&codes[index]), scale, offset, into);
        }
    }
}

/// Five bits, of which the fifth is stored apart, with scale and minimum per 32 weights.
#[inline(always)]
pub(super) fn q5_k(block: &[u8; 176], into: &mut [f32; 256]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    let groups = scales_and_minimums(part(block, 4));
    let high = part::<32>(block, 16);
    for (pair, into) in into.as_chunks_mut::<64>().0.iter_mut().enumerate() {
        let mut codes = nibbles::<32>(part(block, 48 + 32 * pair));
        for (index, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let group = 2 * pair + index;
            for (code, high) in codes[index].iter_mut().zip(high) {
                *code |= (high >> group & 1) << 4;
            }
            let (own, least) = groups[group];
            let (scale, offset) = (scale * f32::from(own), -(minimum * f32::from(least)));
            affine(&signed(&codes[index]), scale, offset, into);
        }
    }
}

/// Six bits, of which two are stored apart, with a scale per 16 weights.
#[inline(always)]
pub(super) fn q6_k(block: &[u8; 210], into: &mut [f32; 256]) {
    let scale = f16_at(block, 208);
    for (half, into) in into.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let (low, high) = (part::<64>(block, 64 * half), part::<32>(block, 128 + 32 * half));
        let low = nibbles(low);
        let low = [part::<32>(&low[0], 0), part(&low[0], 32), part(&low[1], 0), part(&low[1], 32)];
        for (quarter, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let mut codes = [0; 32];
            for index in 0..32 {
                let upper = (high[index] >> (2 * quarter) & 3) << 4;
                codes[index] = (low[quarter][index] | upper) as i8 - 32;
            }
            for (index, into) in into.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let own = block[192 + 8 * half + 2 * quarter + index].cast_signed();
                scaled(&codes[16 * index..][..16], scale * f32::from(own), into);
            }
        }
    }
}

/// Eight bits with a scale of 32 bits. The block ends with sums of its weights.
#[inline(always)]
pub(super) fn q8_k(block: &[u8; 292], into: &mut [f32; 256]) {
    let scale = f32::from_le_bytes(*part(block, 0));
    scaled(&signed::<256>(part(block, 4)), scale, into);
}

/// Four-bit codes of levels, with a scale of six bits per 32 weights.
#[inline(always)]
pub(super) fn iq4_xs(block: &[u8; 136], into: &mut [f32; 256]) {
    let (scale, high) = (f16_at(block, 0), u16_at(block, 2));
    for (group, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
        let own = i16::from(low) | ((high >> (2 * group) & 3) << 4).cast_signed();
        scaled(&levels(&LEVELS, part(block, 8 + 16 * group)), scale * f32::from(own - 32), into);
    }
}

/// Ternary weights: a byte has five of them, as a fraction in base three whose digits come out by multiplication.
#[inline(always)]
pub(super) fn tq1_0(block: &[u8; 54], into: &mut [f32; 256]) {
    let scale = f16_at(block, 52);
    let mut codes = [0; 256];
    let mut rest = codes.as_mut_slice();
    for (start, width, digits) in [(0, 32, 5), (32, 16, 5), (48, 4, 4)] {
        let mut power = 1_u8;
        for _ in 0..digits {
            let (own, others) = rest.split_at_mut(width);
            for (code, byte) in own.iter_mut().zip(&block[start..]) {
                *code = ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as i8 - 1;
            }
            power = power.wrapping_mul(3);
            rest = others;
        }
    }
    scaled(&codes, scale, into);
}

/// Ternary weights in two bits.
#[inline(always)]
pub(super) fn tq2_0(block: &[u8; 66], into: &mut [f32; 256]) {
    let scale = f16_at(block, 64);
    for (group, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let mut codes = two_bits(part(block, 32 * (group / 4)), group % 4);
        for code in &mut codes {
            *code -= 1;
        }
        scaled(&codes, scale, into);
    }
}
