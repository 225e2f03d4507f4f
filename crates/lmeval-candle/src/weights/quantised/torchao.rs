//! torchao's integers and floats of eight bits, as `transformers` saves them.

use lmeval_pycompat::repr;
use safetensors::Dtype;

use super::{Found, by_shape, misfit, scales, sizes, unsupported};
use crate::config::Config;
use crate::error::Result;
use crate::matrix::{Codes, FloatType, Grouped};

/// Collects layers.
pub(super) fn collect(found: &mut Found<'_>, config: &Config) -> Result<()> {
    // Kinds are names, or objects with the name of a class, alone or by layer.
    let kind = config.get("quant_type").map(repr::repr).unwrap_or_default();
    if kind.to_ascii_lowercase().contains("activation") {
        found.note_activations();
    }
    for module in found.modules("_weight_qdata") {
        let (codes, scale) = (found.part(&module, "_weight_qdata")?, found.part(&module, "_weight_scale")?);
        let zero = found.optional(&module, "_weight_zero_point");
        let kind = match codes.dtype {
            Dtype::I8 => Codes::Integers,
            Dtype::F8_E4M3 => Codes::Floats(FloatType::F8E4M3),
            other => {
                return Err(unsupported(&format!("`{module}._weight_qdata` of the data type {other:?}")));
            }
        };
        let shape = sizes(&codes).ok_or_else(|| misfit(&module))?;
        let matrix = (|| {
            let mut scales = scales(&scale, by_shape(&scale.shape, shape)?)?;
            if let Some(zero) = &zero {
                let zeros = zero.bytes.as_ref().iter().map(|byte| byte.cast_signed());
                scales.zeros = Some((zero.dtype == Dtype::I8).then(|| zeros.collect())?);
            }
            Grouped::new(codes.shared(), kind, scales, shape)
        })();
        found.add(&module, matrix)?;
    }
    Ok(())
}
