//! compressed-tensors: integers and floats of several widths, with scales per tensor, row, group or block.

use safetensors::Dtype;

use super::super::Raw;
use super::{Found, by_shape, integers, misfit, mxfp4, scales, sizes, unsupported};
use crate::config::Config;
use crate::error::Result;
use crate::matrix::{Codes, FloatType, Grouped, Groups, Scales};

/// Formats whose weights are read.
const FORMATS: [&str; 9] = [
    "dense",
    "pack-quantized",
    "int-quantized",
    "float-quantized",
    "naive-quantized",
    "nvfp4-pack-quantized",
    "mxfp4-pack-quantized",
    "mxfp8-quantized",
    "mixed-precision",
];

/// What the configuration says of the weights of some layers.
struct Scheme {
    bits: u32,
    group: Option<usize>,
    block: Option<(usize, usize)>,
}

/// Collects layers. Their tensors tell which of them are quantised, and mostly how; the configuration adds what shapes do not tell.
pub(super) fn collect(found: &mut Found<'_>, config: &Config) -> Result<()> {
    let format = config.string("format")?.unwrap_or("dense");
    if !FORMATS.contains(&format) {
        return Err(unsupported(&format!("the format `{format}` of compressed-tensors")));
    }
    let sparsity = config.object("sparsity_config")?;
    let sparse = sparsity.as_ref().map(|own| own.string("format")).transpose()?.flatten();
    if let Some(sparse) = sparse.filter(|sparse| *sparse != "dense") {
        return Err(unsupported(&format!("the sparse format `{sparse}` of compressed-tensors")));
    }
    if config.object("transform_config")?.is_some_and(|own| own.names().next().is_some()) {
        return Err(unsupported("`transform_config` of compressed-tensors"));
    }
    let schemes = schemes(found, config)?;
    for module in found.modules("weight_packed") {
        add_packed(found, &module, &schemes)?;
    }
    for module in found.modules("weight_scale") {
        if !found.layers.contains_key(&format!("{module}.weight")) {
            add_plain(found, &module, &schemes)?;
        }
    }
    Ok(())
}

/// The schemes of the configuration.
fn schemes(found: &mut Found<'_>, config: &Config) -> Result<Vec<Scheme>> {
    let mut schemes = Vec::new();
    let Some(groups) = config.object("config_groups")? else { return Ok(schemes) };
    for name in groups.names() {
        let Some(own) = groups.object(name)? else { continue };
        if own.object("input_activations")?.is_some() {
            found.note_activations();
        }
        let Some(weights) = own.object("weights")? else { continue };
        // In the order of activations without stored indices, groups would be of other columns.
        let group = weights.get("group_size").and_then(lmeval_pycompat::Value::as_i64);
        let block = weights.numbers("block_structure")?;
        schemes.push(Scheme {
            bits: weights.size("num_bits")? as u32,
            group: group.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0),
            block: match block.as_deref() {
                Some(&[rows, columns]) if rows >= 1.0 && columns >= 1.0 => {
                    Some((rows as usize, columns as usize))
                }
                _ => None,
            },
        });
    }
    Ok(schemes)
}

/// The one thing that the schemes which fit agree on.
fn only<T: PartialEq>(mut candidates: impl Iterator<Item = T>) -> Option<T> {
    let first = candidates.next()?;
    candidates.all(|other| other == first).then_some(first)
}

/// The groups of a layer's scales.
fn groups(scale: &Raw, order: Option<Vec<u32>>, shape: (usize, usize), schemes: &[Scheme]) -> Option<Groups> {
    let (rows, columns) = shape;
    if let (Some(group), &[own, count]) = (order, scale.shape.as_slice()) {
        let fits =
            own == rows && group.len() == columns && group.iter().all(|group| (*group as usize) < count);
        return fits.then_some(Groups::Columns { group, count });
    }
    let &[height, width] = scale.shape.as_slice() else { return by_shape(&scale.shape, shape) };
    let fitting = schemes.iter().filter_map(|scheme| match (scheme.block, scheme.group) {
        (Some((down, across)), _) => {
            let fits = (height, width) == (rows.div_ceil(down), columns.div_ceil(across));
            fits.then_some((down, across))
        }
        (None, Some(size)) => ((height, width) == (rows, columns.div_ceil(size))).then_some((1, size)),
        (None, None) => None,
    });
    match only(fitting) {
        Some((rows, columns)) => Some(Groups::Blocks { rows, columns }),
        None => by_shape(&scale.shape, shape),
    }
}

/// Adds a layer whose codes are packed.
fn add_packed(found: &mut Found<'_>, module: &str, schemes: &[Scheme]) -> Result<()> {
    let (packed, scale) = (found.part(module, "weight_packed")?, found.part(module, "weight_scale")?);
    let (shape, whole) =
        (found.optional(module, "weight_shape"), found.optional(module, "weight_global_scale"));
    let (zero, order) = (found.optional(module, "weight_zero_point"), found.optional(module, "weight_g_idx"));
    let matrix = (|| {
        let (rows, width) = sizes(&packed)?;
        if packed.dtype == Dtype::U8 {
            // Four-bit floats in pairs, with an eight-bit scale each 16, or a power of two each 32.
            let columns = width.checked_mul(2)?;
            let mut scales = scales(&scale, by_shape(&scale.shape, (rows, columns))?)?;
            if let Some(whole) = whole {
                let whole = f32::from_le_bytes(*whole.bytes.as_ref().first_chunk()?);
                scales.factor = 1.0 / whole;
            }
            let codes = Codes::Nibbles { table: mxfp4::table(), upper_first: false };
            return Grouped::new(packed.shared(), codes, scales, (rows, columns));
        }
        let shape = integers(&shape?).filter(|shape| packed.dtype == Dtype::I32 && shape.len() == 2)?;
        let shape = (usize::try_from(shape[0]).ok()?, usize::try_from(shape[1]).ok()?);
        let fitting = schemes
            .iter()
            .map(|scheme| scheme.bits)
            .filter(|bits| (2..=8).contains(bits) && shape.1.div_ceil((32 / bits) as usize) == width);
        let bits = only(fitting).filter(|_| shape.0 == rows)?;
        let order = match order {
            Some(order) => Some(
                integers(&order)?
                    .into_iter()
                    .map(|group| u32::try_from(group).ok())
                    .collect::<Option<_>>()?,
            ),
            None => None,
        };
        let mut scales = scales(&scale, groups(&scale, order, shape, schemes)?)?;
        if let Some(zero) = zero {
            scales.zeros = Some(zeros(&zero, bits, rows)?.into());
        }
        let codes = if bits == 4 { four_bits() } else { Codes::Packed { bits } };
        Grouped::new(packed.shared(), codes, scales, shape)
    })();
    // A row of a length that is not a multiple of eight ends within a word.
    found.add(module, matrix)
}

/// Codes of four bits, whose words hold them like bytes do.
fn four_bits() -> Codes {
    Codes::Nibbles { table: std::array::from_fn(|code| code as f32 - 8.0), upper_first: false }
}

/// Zero points, packed along the rows: `[rows / codes per word, groups]`.
fn zeros(raw: &Raw, bits: u32, rows: usize) -> Option<Vec<i8>> {
    let per_word = (32 / bits) as usize;
    let (height, groups) = sizes(raw).filter(|(height, _)| *height == rows.div_ceil(per_word))?;
    let words = integers(raw)?;
    debug_assert_eq!(words.len(), height * groups);
    let zero = |row: usize, group: usize| {
        let word = words[row / per_word * groups + group].cast_unsigned();
        let code = word >> ((row % per_word) as u32 * bits) & ((1 << bits) - 1);
        (code as i32 - (1 << (bits - 1))) as i8
    };
    Some(
        (0..rows)
            .flat_map(|row| (0..groups).map(move |group| (row, group)))
            .map(|(row, group)| zero(row, group))
            .collect(),
    )
}

/// Adds a layer whose codes are numbers of their own.
fn add_plain(found: &mut Found<'_>, module: &str, schemes: &[Scheme]) -> Result<()> {
    let (weight, scale) = (found.part(module, "weight")?, found.part(module, "weight_scale")?);
    let (zero, order) = (found.optional(module, "weight_zero_point"), found.optional(module, "weight_g_idx"));
    let kind = match weight.dtype {
        Dtype::I8 => Codes::Integers,
        Dtype::F8_E4M3 => Codes::Floats(FloatType::F8E4M3),
        other => return Err(unsupported(&format!("`{module}.weight` of the data type {other:?}"))),
    };
    let shape = sizes(&weight).ok_or_else(|| misfit(module))?;
    let matrix = (|| {
        let order = match order {
            Some(order) => Some(
                integers(&order)?
                    .into_iter()
                    .map(|group| u32::try_from(group).ok())
                    .collect::<Option<_>>()?,
            ),
            None => None,
        };
        let mut scales: Scales = scales(&scale, groups(&scale, order, shape, schemes)?)?;
        match zero {
            Some(zero) if zero.dtype == Dtype::I8 => {
                scales.zeros = Some(zero.bytes.as_ref().iter().map(|byte| byte.cast_signed()).collect());
            }
            // Those of floats are zero.
            Some(zero) if zero.bytes.as_ref().iter().any(|byte| *byte != 0) => return None,
            _ => {}
        }
        Grouped::new(weight.shared(), kind, scales, shape)
    })();
    found.add(module, matrix)
}
