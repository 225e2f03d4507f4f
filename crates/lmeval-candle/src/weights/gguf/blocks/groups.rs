//! Blocks of 256 weights that take groups of four or eight from a codebook.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

use super::codebooks::{CODEBOOKS, Codebooks, Eight};
use super::{f16_at, part, u16_at, u32_at};
use crate::matrix::{self, f16, scaled};

/// Writes eight codes with their signs.
#[inline(always)]
fn signed(books: &Codebooks, entry: Eight, signs: u8, codes: &mut [i8]) {
    let mask = books.signs[usize::from(signs)];
    // Negates bytes: no entry has a zero, so that adding one never carries.
    let negated = (entry ^ mask) + (mask & 0x0101_0101_0101_0101);
    codes.copy_from_slice(&matrix::signed(&negated.to_le_bytes()));
}

/// Seven signs and the eighth, which makes the number of negative ones even.
#[inline(always)]
fn even(signs: u32) -> u8 {
    let signs = (signs & 127) as u8;
    signs | ((signs.count_ones() & 1) as u8) << 7
}

/// Eight weights of two groups of four.
#[inline(always)]
fn pair(first: u32, second: u32) -> Eight {
    Eight::from(first) | Eight::from(second) << 32
}

#[inline(always)]
pub(super) fn iq2_xxs(block: &[u8; 66], into: &mut [f32; 256]) {
    let books = &**CODEBOOKS;
    let scale = f16_at(block, 0);
    for (group, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let start = 2 + 8 * group;
        // Four signs of seven bits, and the scale.
        let packed = u32_at(block, start + 4);
        let mut codes = [0; 32];
        for (index, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let entry = books.iq2_xxs[usize::from(block[start + index])];
            signed(books, entry, even(packed >> (7 * index)), codes);
        }
        scaled(&codes, scale * (0.5 + (packed >> 28) as f32) * 0.25, into);
    }
}

#[inline(always)]
pub(super) fn iq2_xs(block: &[u8; 74], into: &mut [f32; 256]) {
    let books = &**CODEBOOKS;
    let scale = f16_at(block, 0);
    for (group, into) in into.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let mut codes = [0; 16];
        for (index, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let packed = u16_at(block, 2 + 4 * group + 2 * index);
            signed(books, books.iq2_xs[usize::from(packed & 511)], even(u32::from(packed >> 9)), codes);
        }
        let own = block[66 + group / 2] >> (4 * (group % 2)) & 15;
        scaled(&codes, scale * (0.5 + f32::from(own)) * 0.25, into);
    }
}

#[inline(always)]
pub(super) fn iq2_s(block: &[u8; 82], into: &mut [f32; 256]) {
    let books = &**CODEBOOKS;
    let scale = f16_at(block, 0);
    for (group, into) in into.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let mut codes = [0; 16];
        for (index, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let place = 2 * group + index;
            let high = usize::from(block[66 + place / 4] >> (2 * (place % 4)) & 3);
            let entry = books.iq2_s[usize::from(block[2 + place]) | high << 8];
            signed(books, entry, block[34 + place], codes);
        }
        let own = block[74 + group / 2] >> (4 * (group % 2)) & 15;
        scaled(&codes, scale * (0.5 + f32::from(own)) * 0.25, into);
    }
}

#[inline(always)]
pub(super) fn iq3_xxs(block: &[u8; 98], into: &mut [f32; 256]) {
    let books = &**CODEBOOKS;
    let scale = f16_at(block, 0);
    for (group, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let packed = u32_at(block, 66 + 4 * group);
        let mut codes = [0; 32];
        for (index, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let [first, second] = *part(block, 2 + 8 * group + 2 * index);
            let entry = pair(books.iq3_xxs[usize::from(first)], books.iq3_xxs[usize::from(second)]);
            signed(books, entry, even(packed >> (7 * index)), codes);
        }
        scaled(&codes, scale * (0.5 + (packed >> 28) as f32) * 0.5, into);
    }
}

#[inline(always)]
pub(super) fn iq3_s(block: &[u8; 110], into: &mut [f32; 256]) {
    let books = &**CODEBOOKS;
    let scale = f16_at(block, 0);
    for (group, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let high = usize::from(block[66 + group]);
        let mut codes = [0; 32];
        for (index, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let [first, second] = *part(block, 2 + 8 * group + 2 * index);
            let entry = pair(
                books.iq3_s[usize::from(first) | (high >> (2 * index) & 1) << 8],
                books.iq3_s[usize::from(second) | (high >> (2 * index + 1) & 1) << 8],
            );
            signed(books, entry, block[74 + 4 * group + index], codes);
        }
        let own = block[106 + group / 2] >> (4 * (group % 2)) & 15;
        scaled(&codes, scale * f32::from(1 + 2 * own), into);
    }
}

/// Writes eight ternary weights that are moved by an eighth up or down, as eight times their value.
#[inline(always)]
fn moved(books: &Codebooks, index: usize, is_down: bool, codes: &mut [i8]) {
    let eighth = if is_down { -1 } else { 1 };
    for (code, byte) in codes.iter_mut().zip(books.iq1[index].to_le_bytes()) {
        *code = byte.cast_signed() + eighth;
    }
}

#[inline(always)]
pub(super) fn iq1_s(block: &[u8; 50], into: &mut [f32; 256]) {
    let books = &**CODEBOOKS;
    let scale = f16_at(block, 0);
    for (group, into) in into.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let packed = u16_at(block, 34 + 2 * group);
        let mut codes = [0; 32];
        for (index, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = usize::from(packed >> (3 * index) & 7);
            moved(books, usize::from(block[2 + 4 * group + index]) | high << 8, packed >> 15 == 1, codes);
        }
        scaled(&codes, scale * f32::from(2 * (packed >> 12 & 7) + 1) * 0.125, into);
    }
}

#[inline(always)]
pub(super) fn iq1_m(block: &[u8; 56], into: &mut [f32; 256]) {
    let books = &**CODEBOOKS;
    let scales: [u16; 4] = std::array::from_fn(|index| u16_at(block, 48 + 2 * index));
    // The scale of the block is in the upper four bits of each.
    let scale = f16(scales.iter().enumerate().fold(0, |all, (index, own)| all | own >> 12 << (4 * index)));
    for (group, into) in into.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // The high bits of both indexes, each with a direction.
        let high = block[32 + group];
        let mut codes = [0; 16];
        for (index, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let high = high >> (4 * index);
            let entry = usize::from(block[2 * group + index]) | usize::from(high & 7) << 8;
            moved(books, entry, high & 8 != 0, codes);
        }
        let own = scales[group / 4] >> (3 * (group % 4)) & 7;
        scaled(&codes, scale * f32::from(2 * own + 1) * 0.125, into);
    }
}
