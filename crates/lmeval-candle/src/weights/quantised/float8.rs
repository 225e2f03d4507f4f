//! Floats of eight bits with scales: `fp8` with blocks, and `fbgemm_fp8` with rows.

use safetensors::Dtype;

use super::{Found, by_shape, misfit, scales, sizes, unsupported};
use crate::config::Config;
use crate::error::Result;
use crate::matrix::{Codes, FloatType, Grouped, Groups};

/// Collects layers with a scale per block, which is called the inverse of a scale.
pub(super) fn collect_blocks(found: &mut Found<'_>, config: &Config) -> Result<()> {
    let block = config.numbers("weight_block_size")?;
    for module in found.modules("weight_scale_inv") {
        let (weight, scale) = (found.part(&module, "weight")?, found.part(&module, "weight_scale_inv")?);
        let matrix = (|| {
            let shape = sizes(&weight).filter(|_| weight.dtype == Dtype::F8_E4M3)?;
            let groups = match block.as_deref() {
                Some(&[rows, columns]) if rows >= 1.0 && columns >= 1.0 && scale.shape.len() == 2 => {
                    Groups::Blocks { rows: rows as usize, columns: columns as usize }
                }
                _ => by_shape(&scale.shape, shape)?,
            };
            Grouped::new(weight.shared(), Codes::Floats(FloatType::F8E4M3), scales(&scale, groups)?, shape)
        })();
        found.add(&module, matrix)?;
    }
    found.note_activations();
    Ok(())
}

/// Collects layers with a scale per row.
pub(super) fn collect_rows(found: &mut Found<'_>) -> Result<()> {
    for module in found.modules("weight_scale") {
        let (weight, scale) = (found.part(&module, "weight")?, found.part(&module, "weight_scale")?);
        let _ = found.optional(&module, "input_scale_ub");
        if weight.dtype != Dtype::F8_E4M3 {
            return Err(unsupported(&format!("`{module}` of the data type {:?}", weight.dtype)));
        }
        let shape = sizes(&weight).ok_or_else(|| misfit(&module))?;
        let groups = by_shape(&scale.shape, shape);
        let matrix = groups.and_then(|groups| {
            Grouped::new(weight.shared(), Codes::Floats(FloatType::F8E4M3), scales(&scale, groups)?, shape)
        });
        found.add(&module, matrix)?;
    }
    found.note_activations();
    Ok(())
}
