//! Linear layers.

use candle_core::{Result, Tensor};

/// The matrix library blocks products differently if their sides are at most this long.
const SMALL_SIDE: usize = 64;
/// Products of at most this many elements are computed row by row.
const SMALL_AREA: usize = 256;

/// A linear layer: a matrix and an optional bias.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[input, output]`, a view of the stored matrix.
    matrix: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer with a weight `[output, input]`, as most checkpoints store it.
    #[expect(clippy::needless_pass_by_value, reason = "a tensor is a handle that the layer keeps")]
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Result<Self> {
        Ok(Self { matrix: weight.t()?, bias })
    }

    /// A layer with a weight `[input, output]`, as GPT-2 stores it.
    pub fn from_transposed(matrix: Tensor, bias: Option<Tensor>) -> Self {
        Self { matrix, bias }
    }

    /// A layer with some of the outputs, for splitting fused layers.
    pub fn outputs(&self, first: usize, count: usize) -> Result<Self> {
        let bias = self.bias.as_ref().map(|bias| bias.narrow(0, first, count)).transpose()?;
        Ok(Self { matrix: self.matrix.narrow(1, first, count)?, bias })
    }

    /// Computes the outputs of rows `[rows, input]`. On the CPU, the result of a row is bit-identical whatever the other rows
    /// are, and however many there are.
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

    /// The number of rows from which all products are computed in the same way. With fewer, the summation order differs.
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

    /// A pseudo-random matrix.
    fn matrix(rows: usize, columns: usize) -> Tensor {
        let numbers: Vec<f32> =
            (0..rows * columns).map(|index| ((index * index % 8191) as f32).sin()).collect();
        Tensor::from_vec(numbers, (rows, columns), &Device::Cpu).unwrap()
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_rows() {
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
