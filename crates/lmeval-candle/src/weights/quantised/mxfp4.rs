//! Experts in four-bit floats with powers of two (gpt-oss): blocks of 32 weights of the matrices of all experts.

use std::sync::Arc;

use safetensors::Dtype;

use super::{Found, Layer, Part, misfit};
use crate::error::Result;
use crate::matrix::{Bytes, CODES, Codes, FP4, FloatType, Grouped, Groups, Scales, StoredMatrix};

/// Weights per block.
const BLOCK: usize = 32;

/// The four-bit floats.
pub(super) fn table() -> [f32; CODES] {
    FP4.map(|code| f32::from(code) * 0.5)
}

/// Collects the matrices of experts, which are stored as `[experts, output, blocks, bytes]` and shown as `[experts, input, output]`.
pub(super) fn collect(found: &mut Found<'_>) -> Result<()> {
    let mut names: Vec<String> = found.base.names();
    names.sort_unstable();
    for name in names.iter().filter_map(|name| name.strip_suffix("_blocks")) {
        let (module, own) = name.rsplit_once('.').unwrap_or(("", name));
        let (blocks, scales) =
            (found.part(module, &format!("{own}_blocks"))?, found.part(module, &format!("{own}_scales"))?);
        let matrices = (|| {
            let &[experts, rows, groups, bytes] = blocks.shape.as_slice() else { return None };
            let fits = scales.shape == [experts, rows, groups]
                && bytes == BLOCK / 2
                && [blocks.dtype, scales.dtype] == [Dtype::U8; 2];
            let matrix = |expert: usize| {
                let part = |bytes: &Bytes, length: usize| -> Bytes {
                    Arc::new(Part { bytes: Arc::clone(bytes), range: expert * length..(expert + 1) * length })
                };
                let scales = Scales {
                    bytes: part(&scales.shared(), rows * groups),
                    dtype: FloatType::E8M0,
                    factor: 1.0,
                    zeros: None,
                    groups: Groups::Blocks { rows: 1, columns: BLOCK },
                };
                let codes = Codes::Nibbles { table: table(), upper_first: false };
                let bytes = part(&blocks.shared(), rows * groups * bytes);
                let matrix = Grouped::new(bytes, codes, scales, (rows, groups * BLOCK))?;
                Some(Arc::new(matrix) as Arc<dyn StoredMatrix>)
            };
            if fits { (0..experts).map(matrix).collect::<Option<Vec<_>>>() } else { None }
        })();
        let matrices = matrices.ok_or_else(|| misfit(name))?;
        found.layers.insert(name.to_owned(), Layer::Stacked(matrices));
    }
    Ok(())
}
