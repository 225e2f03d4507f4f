//! The codebooks of the types that encode four or eight weights together.

use std::sync::LazyLock;

/// The entries of all codebooks, 16 bits each, recorded by `tests/record/gguf_blocks.py`.
const PACKED: &[u8] = include_bytes!("../codebooks.bin");

/// Eight small integers, as the bytes of a number.
pub(super) type Eight = u64;

pub(super) struct Codebooks {
    pub(super) iq2_xxs: [Eight; 256],
    pub(super) iq2_xs: [Eight; 512],
    pub(super) iq2_s: [Eight; 1024],
    /// Four integers each.
    pub(super) iq3_xxs: [u32; 256],
    pub(super) iq3_s: [u32; 512],
    /// Ternary weights, as eight times their value.
    pub(super) iq1: [Eight; 2048],
    /// For each combination of eight signs, bytes of ones where the sign is negative.
    pub(super) signs: [Eight; 256],
}

pub(super) static CODEBOOKS: LazyLock<Box<Codebooks>> = LazyLock::new(|| {
    let mut entries = PACKED.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
    let mut next = || entries.next().expect("the file has all codebooks");
    let mut of_two_bits = |levels: [u8; 3]| {
        let packed = next();
        Eight::from_le_bytes(std::array::from_fn(|place| levels[usize::from(packed >> (2 * place) & 3)]))
    };
    let (iq2_xxs, iq2_xs, iq2_s) = (
        std::array::from_fn(|_| of_two_bits([8, 25, 43])),
        std::array::from_fn(|_| of_two_bits([8, 25, 43])),
        std::array::from_fn(|_| of_two_bits([8, 25, 43])),
    );
    let mut of_four_bits = |levels: [u8; 8]| {
        let packed = next();
        u32::from_le_bytes(std::array::from_fn(|place| levels[usize::from(packed >> (4 * place) & 7)]))
    };
    let iq3_xxs = std::array::from_fn(|_| of_four_bits([4, 12, 20, 28, 36, 44, 52, 62]));
    let iq3_s = std::array::from_fn(|_| of_four_bits([1, 3, 5, 7, 9, 11, 13, 15]));
    let iq1 = std::array::from_fn(|_| {
        let packed = next();
        Eight::from_le_bytes(std::array::from_fn(|place| {
            [-8_i8, 0, 8][usize::from(packed >> (2 * place) & 3)].cast_unsigned()
        }))
    });
    let signs = std::array::from_fn(|bits| {
        Eight::from_le_bytes(std::array::from_fn(|place| if bits >> place & 1 == 1 { 0xff } else { 0 }))
    });
    Box::new(Codebooks { iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq1, signs })
});
