//! bitsandbytes: integers of eight bits per row, and codes of four bits in runs, whose scales may be quantised themselves.

use std::sync::Arc;

use lmeval_pycompat::{Value, json};
use safetensors::Dtype;

use super::super::Raw;
use super::{Found, by_shape, misfit, scales, sizes, unsupported};
use crate::config::Config;
use crate::error::Result;
use crate::matrix::{Codes, FloatType, Grouped, Groups, Scales};

/// What is stored about the quantisation of a weight.
const STATES: [&str; 2] = ["weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4"];

/// Collects layers.
pub(super) fn collect(found: &mut Found<'_>) -> Result<()> {
    for state in STATES {
        for module in found.modules(state) {
            add_four_bits(found, &module, state)?;
        }
    }
    for module in found.modules("SCB") {
        add_integers(found, &module)?;
        found.note_activations();
    }
    Ok(())
}

fn add_integers(found: &mut Found<'_>, module: &str) -> Result<()> {
    let (weight, scale) = (found.part(module, "weight")?, found.part(module, "SCB")?);
    // Other layouts are made for a kind of GPU when a model is loaded.
    let layout = found.optional(module, "weight_format");
    if layout.is_some_and(|layout| layout.bytes.as_ref() != [0]) || weight.dtype != Dtype::I8 {
        return Err(unsupported(&format!("the layout of `{module}.weight`")));
    }
    let matrix = (|| {
        let shape = sizes(&weight)?;
        let scales = Scales { factor: 1.0 / 127.0, ..scales(&scale, by_shape(&scale.shape, shape)?)? };
        Grouped::new(weight.shared(), Codes::Integers, scales, shape)
    })();
    found.add(module, matrix)
}

fn add_four_bits(found: &mut Found<'_>, module: &str, state: &str) -> Result<()> {
    let state = found.part(module, state)?;
    let (weight, table) = (found.part(module, "weight")?, found.part(module, "weight.quant_map")?);
    let own = found.part(module, "weight.absmax")?;
    let nested =
        (found.optional(module, "weight.nested_absmax"), found.optional(module, "weight.nested_quant_map"));
    let state = json::loads(&String::from_utf8_lossy(state.bytes.as_ref()));
    let Ok(Value::Dict(state)) = state else { return Err(misfit(module)) };
    let state = Config::from_fields((*state).clone());
    let block = state.size("blocksize")?;
    let shape = state.numbers("shape")?.filter(|shape| shape.iter().all(|size| *size >= 1.0 && *size < 1e9));
    let (offset, nested_block) =
        (state.number_or("nested_offset", 0.0)? as f32, state.size_or("nested_blocksize", 256)?);
    let matrix = (|| {
        let &[rows, columns] = shape.as_deref()? else { return None };
        let shape = (rows as usize, columns as usize);
        // A row of an odd number of codes would begin within a byte.
        let table: [f32; 16] = numbers(&table)?.try_into().ok().filter(|_| shape.1.is_multiple_of(2))?;
        let bytes = match &nested {
            (Some(largest), Some(levels)) => {
                let (largest, levels) =
                    (numbers(largest)?, numbers(levels).filter(|levels| levels.len() == 256)?);
                let codes = own.bytes.as_ref().iter().enumerate();
                let numbers = codes.map(|(index, code)| {
                    Some(levels[usize::from(*code)] * largest.get(index.checked_div(nested_block)?)? + offset)
                });
                let numbers = numbers.collect::<Option<Vec<f32>>>().filter(|_| own.dtype == Dtype::U8)?;
                Arc::new(numbers.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
            }
            (None, None) if own.dtype == Dtype::F32 => own.shared(),
            _ => return None,
        };
        let scales =
            Scales { bytes, dtype: FloatType::F32, factor: 1.0, zeros: None, groups: Groups::Runs(block) };
        Grouped::new(weight.shared(), Codes::Nibbles { table, upper_first: true }, scales, shape)
    })();
    found.add(module, matrix)
}

/// Floats of 32 bits.
fn numbers(raw: &Raw) -> Option<Vec<f32>> {
    let numbers = raw.bytes.as_ref().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    (raw.dtype == Dtype::F32).then(|| numbers.collect())
}
