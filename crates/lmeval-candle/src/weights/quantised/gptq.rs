//! GPTQ, and AWQ's usual layout: integers with scale and zero point per group of inputs and output.

use safetensors::Dtype;

use super::{Found, float_type, integers, misfit, sizes, unsupported};
use crate::config::Config;
use crate::error::Result;
use crate::matrix::{Columns, Packing};

/// Collects layers of GPTQ.
pub(super) fn collect(found: &mut Found<'_>, config: &Config) -> Result<()> {
    // The first version stores zero points less one.
    let more = match config.string("checkpoint_format")?.or(config.string("format")?).unwrap_or("gptq") {
        "gptq" => 1,
        "gptq_v2" => 0,
        other => return Err(unsupported(&format!("the format `{other}` of GPTQ"))),
    };
    if config.flag_or("is_marlin_format", false)? {
        return Err(unsupported("the format `marlin` of GPTQ"));
    }
    for module in found.modules("qweight") {
        add_inputs(found, &module, config, more)?;
    }
    Ok(())
}

/// Collects layers of auto-round, which writes other formats.
pub(super) fn collect_auto_round(found: &mut Found<'_>, config: &Config) -> Result<()> {
    match config.string("packing_format")?.unwrap_or("auto_round:auto_gptq") {
        "auto_round:auto_gptq" | "auto_gptq" => {
            for module in found.modules("qweight") {
                add_inputs(found, &module, config, 1)?;
            }
            Ok(())
        }
        "auto_round:auto_awq" | "auto_awq" => collect_awq(found, config),
        other => Err(unsupported(&format!("`packing_format` `{other}`"))),
    }
}

/// Collects layers of AWQ.
pub(super) fn collect_awq(found: &mut Found<'_>, config: &Config) -> Result<()> {
    let version = config.string("checkpoint_format")?.or(config.string("version")?).unwrap_or("gemm");
    if !version.eq_ignore_ascii_case("gemm") {
        return Err(unsupported(&format!("the format `{version}` of AWQ")));
    }
    for module in found.modules("qweight") {
        let (words, zeros, scales) =
            (found.part(&module, "qweight")?, found.part(&module, "qzeros")?, found.part(&module, "scales")?);
        let matrix = (|| {
            let ((inputs, packed), (groups, outputs)) = (sizes(&words)?, sizes(&scales)?);
            let size = (groups > 0 && inputs.is_multiple_of(groups)).then(|| inputs / groups)?;
            let fits = packed.checked_mul(8)? == outputs && [words.dtype, zeros.dtype] == [Dtype::I32; 2];
            let matrix = Columns {
                words: words.shared(),
                packing: Packing::Outputs,
                zeros: zeros.shared(),
                more: 0,
                scales: scales.shared(),
                dtype: float_type(scales.dtype)?,
                group: (0..inputs).map(|input| (input / size) as u32).collect(),
                groups,
                shape: (outputs, inputs),
            };
            (fits && matrix.is_complete()).then_some(matrix)
        })();
        found.add(&module, matrix)?;
    }
    Ok(())
}

/// Adds a layer whose words hold codes of one output.
fn add_inputs(found: &mut Found<'_>, module: &str, config: &Config, more: u32) -> Result<()> {
    let (words, zeros, scales) =
        (found.part(module, "qweight")?, found.part(module, "qzeros")?, found.part(module, "scales")?);
    let order = found.optional(module, "g_idx");
    let bits = config.size_or("bits", 4)?;
    let matrix = (|| {
        let ((rows, outputs), (groups, _)) = (sizes(&words)?, sizes(&scales)?);
        let group: Option<Vec<i32>> = order.as_ref().map(integers).unwrap_or_default();
        let inputs = match &group {
            Some(group) => group.len(),
            None => (rows * 32).checked_div(bits)?,
        };
        // Layers may have other numbers of bits than the configuration says.
        let bits = (rows * 32).checked_div(inputs).filter(|bits| [2, 3, 4, 8].contains(bits))? as u32;
        let group: Option<Vec<u32>> = match group {
            Some(group) => group.into_iter().map(|group| u32::try_from(group).ok()).collect(),
            None => {
                let size = inputs.div_ceil(groups.max(1)).max(1);
                Some((0..inputs).map(|input| (input / size) as u32).collect())
            }
        };
        let matrix = Columns {
            words: words.shared(),
            packing: Packing::Inputs { bits },
            zeros: zeros.shared(),
            more,
            scales: scales.shared(),
            dtype: float_type(scales.dtype)?,
            group: group?,
            groups,
            shape: (outputs, inputs),
        };
        let fits = [words.dtype, zeros.dtype] == [Dtype::I32; 2];
        (fits && matrix.is_complete()).then_some(matrix)
    })();
    if matrix.is_none() {
        return Err(misfit(module));
    }
    found.add(module, matrix)
}
