//! Linear layers.

use candle_core::{Result, Tensor};

/// Products whose sides are at most this long are cut into other blocks than larger ones.
const SMALL_SIDE: usize = 64;
/// Products of at most as many numbers are made row by row.
const SMALL_AREA: usize = 256;

/// A linear layer: a matrix and perhaps a bias.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[input, output]`, a view of what is stored.
    matrix: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer with a weight `[output, input]`, as most checkpoints store it.
    #[expect(clippy::needless_pass_by_value, reason = "a tensor is a handle, which the layer keeps")]
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Result<Self> {
        Ok(Self { matrix: weight.t()?, bias })
    }

    /// A layer with a weight `[input, output]`, as GPT-2 stores it.
    pub fn from_transposed(matrix: Tensor, bias: Option<Tensor>) -> Self {
        Self { matrix, bias }
    }

    /// The layer that computes some of the outputs only: fused layers are taken apart with it.
    pub fn outputs(&self, first: usize, count: usize) -> Result<Self> {
        let bias = self.bias.as_ref().map(|bias| bias.narrow(0, first, count)).transpose()?;
        Ok(Self { matrix: self.matrix.narrow(1, first, count)?, bias })
    }

    /// The outputs of rows `[rows, input]`. On a processor, those of a row are the same to the last bit whatever stands
    /// in the others, and however many there are.
    pub fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let count = rows.dim(0)?;
        let missing = self.least_rows()?.saturating_sub(count);
        let product = if missing > 0 && rows.device().is_cpu() {
            rows.pad_with_zeros(0, 0, missing)?.matmul(&self.matrix)?.narrow(0, 0, count)?.contiguous()?
        } else {
            rows.matmul(&self.matrix)?
        };
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }

    /// Rows from which on all are multiplied in the same way: fewer of them, or of outputs, are added up in other orders.
    fn least_rows(&self) -> Result<usize> {
        let outputs = self.matrix.dim(1)?;
        Ok(if outputs <= SMALL_SIDE { SMALL_AREA + 1 } else { (SMALL_AREA / outputs + 1).max(2) })
    }

    /// The weight as `[output, input]`.
    pub fn weight(&self) -> Result<Tensor> {
        self.matrix.t()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// A matrix of numbers that look random.
    fn matrix(rows: usize, columns: usize) -> Tensor {
        let numbers: Vec<f32> =
            (0..rows * columns).map(|index| ((index * index % 8191) as f32).sin()).collect();
        Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap()
    }

    #[test]
    fn rows_do_not_depend_on_their_number() {
        for (input, output) in [
            (576, 192),
            (576, 1536),
            (1536, 576),
            (2048, 8),
            (2048, 60),
            (64, 300),
            (32, 96),
            (700, 33),
            (8, 1),
        ] {
            let stored = Linear::new(matrix(output, input), None).unwrap();
            let transposed = Linear::from_transposed(matrix(input, output), None);
            let rows = matrix(300, input);
            for layer in [stored, transposed] {
                let all = layer.forward(&rows).unwrap().to_vec2::<f32>().unwrap();
                for count in (1..20).chain([31, 32, 33, 63, 64, 65, 66, 100, 129, 255, 256, 257]) {
                    let some = layer.forward(&rows.narrow(0, 7, count).unwrap()).unwrap();
                    let some = some.to_vec2::<f32>().unwrap();
                    assert!(some == all[7..7 + count], "{count} rows of {input}, {output} outputs");
                }
            }
        }
    }
}
