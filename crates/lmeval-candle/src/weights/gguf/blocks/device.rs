//! Blocks in the memory of a GPU, which candle expands.

use std::borrow::Cow;
use std::fmt;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device, Result, Tensor};

use super::BlockType;
use crate::matrix::DeviceMatrix;

/// The name that candle has for a type, if it expands it on GPUs.
pub(super) fn dtype(kind: BlockType) -> Option<GgmlDType> {
    Some(match kind {
        BlockType::Q4_0 => GgmlDType::Q4_0,
        BlockType::Q4_1 => GgmlDType::Q4_1,
        BlockType::Q5_0 => GgmlDType::Q5_0,
        BlockType::Q5_1 => GgmlDType::Q5_1,
        BlockType::Q8_0 => GgmlDType::Q8_0,
        BlockType::Q2K => GgmlDType::Q2K,
        BlockType::Q3K => GgmlDType::Q3K,
        BlockType::Q4K => GgmlDType::Q4K,
        BlockType::Q5K => GgmlDType::Q5K,
        BlockType::Q6K => GgmlDType::Q6K,
        _ => return None,
    })
}

/// A matrix of blocks on a device.
pub(super) struct BlocksOnDevice {
    blocks: QTensor,
    device: Device,
    shape: (usize, usize),
}

impl BlocksOnDevice {
    /// Copies blocks to a device.
    pub(super) fn new(
        bytes: &[u8],
        dtype: GgmlDType,
        shape: (usize, usize),
        device: &Device,
    ) -> Result<Self> {
        // A mapped file aligns blocks as its header says, and a vector as candle needs it.
        let storage = QStorage::from_data(Cow::Owned(bytes.to_vec()), device, dtype)?;
        Ok(Self { blocks: QTensor::new(storage, shape)?, device: device.clone(), shape })
    }
}

impl fmt::Debug for BlocksOnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlocksOnDevice").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl DeviceMatrix for BlocksOnDevice {
    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn transpose(&self, first: usize, count: usize, dtype: DType) -> Result<Tensor> {
        let all = self.blocks.dequantize(&self.device)?;
        all.narrow(0, first, count)?.to_dtype(dtype)?.t()
    }
}
