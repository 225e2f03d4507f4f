//! Steps that formats of quantised weights share: from small integers to 32-bit floats.
//!
//! The compiler does not vectorise short loops that widen bytes, so the usual instruction set has its own version of each.

#![expect(
    clippy::inline_always,
    reason = "code outside a dispatched function is compiled for the baseline instruction set"
)]

#[cfg(target_arch = "x86_64")]
use pulp::x86::V3;

/// Codes that are converted at a time.
pub(crate) const CODES: usize = 16;

/// Converts each code to `code · scale`. Their number is a multiple of 16.
#[inline(always)]
pub(crate) fn scaled(codes: &[i8], scale: f32, into: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = V3::try_new() {
        let factor = simd.avx._mm256_set1_ps(scale);
        for (into, codes) in into.as_chunks_mut::<CODES>().0.iter_mut().zip(codes.as_chunks::<CODES>().0) {
            let [low, high] = widened(simd, *codes);
            *into = pulp::cast([simd.avx._mm256_mul_ps(low, factor), simd.avx._mm256_mul_ps(high, factor)]);
        }
        return;
    }
    for (into, code) in into.iter_mut().zip(codes) {
        *into = f32::from(*code) * scale;
    }
}

/// Converts each code to `code · scale + offset`, rounding twice. Their number is a multiple of 16.
#[inline(always)]
pub(crate) fn affine(codes: &[i8], scale: f32, offset: f32, into: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = V3::try_new() {
        let (factor, offset) = (simd.avx._mm256_set1_ps(scale), simd.avx._mm256_set1_ps(offset));
        for (into, codes) in into.as_chunks_mut::<CODES>().0.iter_mut().zip(codes.as_chunks::<CODES>().0) {
            let [low, high] = widened(simd, *codes);
            let low = simd.avx._mm256_add_ps(simd.avx._mm256_mul_ps(low, factor), offset);
            let high = simd.avx._mm256_add_ps(simd.avx._mm256_mul_ps(high, factor), offset);
            *into = pulp::cast([low, high]);
        }
        return;
    }
    for (into, code) in into.iter_mut().zip(codes) {
        *into = f32::from(*code) * scale + offset;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn widened(simd: V3, codes: [i8; CODES]) -> [std::arch::x86_64::__m256; 2] {
    let low = pulp::cast(codes);
    let high = simd.sse2._mm_unpackhi_epi64(low, low);
    [
        simd.avx._mm256_cvtepi32_ps(simd.avx2._mm256_cvtepi8_epi32(low)),
        simd.avx._mm256_cvtepi32_ps(simd.avx2._mm256_cvtepi8_epi32(high)),
    ]
}

/// The entries of a table at codes below 16.
#[inline(always)]
pub(crate) fn lookup(table: &[i8; CODES], codes: &[u8; CODES]) -> [i8; CODES] {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = V3::try_new() {
        return pulp::cast(simd.ssse3._mm_shuffle_epi8(pulp::cast(*table), pulp::cast(*codes)));
    }
    let mut found = [0; CODES];
    for index in 0..CODES {
        found[index] = table[usize::from(codes[index] & 15)];
    }
    found
}

/// The same of a table of floats.
#[inline(always)]
pub(crate) fn lookup_floats(table: &[f32; CODES], codes: &[u8; CODES]) -> [f32; CODES] {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = V3::try_new() {
        let [lower, upper]: [std::arch::x86_64::__m256; 2] = pulp::cast(*table);
        let first = pulp::cast(*codes);
        let second = simd.sse2._mm_unpackhi_epi64(first, first);
        let find = |codes| {
            let places = simd.avx2._mm256_cvtepu8_epi32(codes);
            let low = simd.avx2._mm256_permutevar8x32_ps(lower, places);
            let high = simd.avx2._mm256_permutevar8x32_ps(upper, places);
            // The fourth bit of a code chooses the half.
            let choice = pulp::cast(simd.avx2._mm256_slli_epi32::<28>(places));
            simd.avx._mm256_blendv_ps(low, high, choice)
        };
        let made: [std::arch::x86_64::__m256; 2] = [find(first), find(second)];
        return pulp::cast(made);
    }
    let mut found = [0.0; CODES];
    for index in 0..CODES {
        found[index] = table[usize::from(codes[index] & 15)];
    }
    found
}

/// The lower and the upper four bits of each byte.
#[inline(always)]
pub(crate) fn nibbles<const N: usize>(bytes: &[u8; N]) -> [[u8; N]; 2] {
    let (mut low, mut high) = ([0; N], [0; N]);
    for index in 0..N {
        low[index] = bytes[index] & 15;
        high[index] = bytes[index] >> 4;
    }
    [low, high]
}

/// Bytes of integers with a sign.
#[inline(always)]
pub(crate) fn signed<const N: usize>(bytes: &[u8; N]) -> [i8; N] {
    let mut made = [0; N];
    for index in 0..N {
        made[index] = bytes[index].cast_signed();
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_numbers() {
        let codes: Vec<i8> = (-128..=127).collect();
        let mut found = vec![0.0; 256];
        scaled(&codes, 0.3, &mut found);
        assert!(found.iter().zip(&codes).all(|(found, code)| *found == f32::from(*code) * 0.3));
        affine(&codes, 0.3, -1.1, &mut found);
        assert!(found.iter().zip(&codes).all(|(found, code)| *found == f32::from(*code) * 0.3 + -1.1));
        let table: [i8; CODES] = std::array::from_fn(|index| (index * 7) as i8 - 50);
        let codes: [u8; CODES] = std::array::from_fn(|index| (index * 11 % 16) as u8);
        assert_eq!(lookup(&table, &codes), codes.map(|code| table[usize::from(code)]));
        let table: [f32; CODES] = std::array::from_fn(|index| index as f32 * 0.7 - 3.0);
        assert_eq!(lookup_floats(&table, &codes), codes.map(|code| table[usize::from(code)]));
        assert_eq!(nibbles(&[0x21, 0xf0]), [[1, 0], [2, 15]]);
        assert_eq!(signed(&[1, 255]), [1, -1]);
    }
}
