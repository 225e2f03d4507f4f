//! Layers that read earlier tokens through a state instead of keys and values.
//!
//! On the CPU they take the tokens of a sequence one by one, so that a row has the same bits wherever the sequence is cut into
//! segments. That reads and writes the state for each token, which stays in the caches of the CPU.

mod conv;
mod delta;
mod scan;

use candle_core::{DType, Result, Tensor};

pub(crate) use self::conv::CausalConv;
pub(crate) use self::delta::{DeltaInputs, delta_rule};
pub(crate) use self::scan::{ChannelScan, HeadScan, HeadScanInputs};

/// The numbers of a tensor on the CPU, in float32.
fn host(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// `ln(1 + exp(x))`, in a form that does not overflow.
pub(crate) fn softplus(rows: &Tensor) -> Result<Tensor> {
    rows.relu()? + (rows.abs()?.neg()?.exp()? + 1.0)?.log()?
}
