//! Blocks with one scale, or one per 16 weights.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use super::{f16_at, part};
use crate::matrix::{FP4, affine, f8e4m3, half_power, lookup, nibbles, scaled, signed};

/// The levels of the non-linear four-bit types.
pub(super) const LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The codes of 16 bytes: all lower halves, then all upper ones.
#[inline(always)]
fn halves(bytes: &[u8; 16]) -> [i8; 32] {
    let [low, high] = nibbles(bytes);
    let mut codes = [0; 32];
    for index in 0..16 {
        codes[index] = low[index] as i8;
        codes[index + 16] = high[index] as i8;
    }
    codes
}

/// The same with a fifth bit per code.
#[inline(always)]
fn five_bits(bits: &[u8; 4], bytes: &[u8; 16]) -> [i8; 32] {
    let mut codes = halves(bytes);
    // Each byte of the bits eight times.
    let mut spread = [0; 32];
    for (spread, byte) in spread.as_chunks_mut::<8>().0.iter_mut().zip(bits) {
        *spread = [*byte; 8];
    }
    for index in 0..32 {
        codes[index] |= if spread[index] & 1 << (index % 8) == 0 { 0 } else { 16 };
    }
    codes
}

/// Subtracts a number from all codes.
#[inline(always)]
fn less(mut codes: [i8; 32], middle: i8) -> [i8; 32] {
    for code in &mut codes {
        *code -= middle;
    }
    codes
}

#[inline(always)]
pub(super) fn f64(bytes: &[u8; 8], into: &mut [f32; 1]) {
    into[0] = f64::from_le_bytes(*bytes) as f32;
}

#[inline(always)]
pub(super) fn q4_0(block: &[u8; 18], into: &mut [f32; 32]) {
    scaled(&less(halves(part(block, 2)), 8), f16_at(block, 0), into);
}

#[inline(always)]
pub(super) fn q4_1(block: &[u8; 20], into: &mut [f32; 32]) {
    affine(&halves(part(block, 4)), f16_at(block, 0), f16_at(block, 2), into);
}

#[inline(always)]
pub(super) fn q5_0(block: &[u8; 22], into: &mut [f32; 32]) {
    scaled(&less(five_bits(part(block, 2), part(block, 6)), 16), f16_at(block, 0), into);
}

#[inline(always)]
pub(super) fn q5_1(block: &[u8; 24], into: &mut [f32; 32]) {
    affine(&five_bits(part(block, 4), part(block, 8)), f16_at(block, 0), f16_at(block, 2), into);
}

#[inline(always)]
pub(super) fn q8_0(block: &[u8; 34], into: &mut [f32; 32]) {
    scaled(&signed::<32>(part(block, 2)), f16_at(block, 0), into);
}

/// The second number of the block is the sum of its weights.
#[inline(always)]
pub(super) fn q8_1(block: &[u8; 36], into: &mut [f32; 32]) {
    scaled(&signed::<32>(part(block, 4)), f16_at(block, 0), into);
}

/// A bit per weight: its sign.
#[inline(always)]
pub(super) fn q1_0(block: &[u8; 18], into: &mut [f32; 128]) {
    let mut codes = [0; 128];
    for (codes, byte) in codes.as_chunks_mut::<8>().0.iter_mut().zip(&block[2..]) {
        for (bit, code) in codes.iter_mut().enumerate() {
            *code = (byte >> bit & 1) as i8 * 2 - 1;
        }
    }
    scaled(&codes, f16_at(block, 0), into);
}

/// Two bits per weight, from -1 to 2.
#[inline(always)]
pub(super) fn q2_0(block: &[u8; 18], into: &mut [f32; 64]) {
    let mut codes = [0; 64];
    for (codes, byte) in codes.as_chunks_mut::<4>().0.iter_mut().zip(&block[2..]) {
        for (place, code) in codes.iter_mut().enumerate() {
            *code = (byte >> (2 * place) & 3) as i8 - 1;
        }
    }
    scaled(&codes, f16_at(block, 0), into);
}

/// The levels of 16 bytes: those of all lower halves, then of all upper ones.
#[inline(always)]
pub(super) fn levels(table: &[i8; 16], bytes: &[u8; 16]) -> [i8; 32] {
    let [low, high] = nibbles(bytes);
    let mut all = [0; 32];
    all[..16].copy_from_slice(&lookup(table, &low));
    all[16..].copy_from_slice(&lookup(table, &high));
    all
}

#[inline(always)]
pub(super) fn iq4_nl(block: &[u8; 18], into: &mut [f32; 32]) {
    scaled(&levels(&LEVELS, part(block, 2)), f16_at(block, 0), into);
}

/// Four-bit floats with a power of two.
#[inline(always)]
pub(super) fn mxfp4(block: &[u8; 17], into: &mut [f32; 32]) {
    // The levels are doubled to be integers.
    scaled(&levels(&FP4, part(block, 1)), half_power(block[0]), into);
}

/// Four-bit floats with an eight-bit float per 16 weights, whose halves are those of eight bytes.
#[inline(always)]
pub(super) fn nvfp4(block: &[u8; 36], into: &mut [f32; 64]) {
    for (group, into) in into.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let [low, high] = nibbles::<8>(part(block, 4 + 8 * group));
        let mut codes = [0; 16];
        codes[..8].copy_from_slice(&low);
        codes[8..].copy_from_slice(&high);
        // The sign bit of a scale has no meaning.
        scaled(&lookup(&FP4, &codes), f8e4m3(block[group] & 0x7f) * 0.5, into);
    }
}
