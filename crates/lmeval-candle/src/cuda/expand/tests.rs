//! Matrices on a GPU against the same on the CPU, if `LM_EVAL_TEST_DEVICE` names a GPU.

use std::sync::Arc;

use candle_core::{DType, Tensor};

use crate::engine::fixture::device;
use crate::matrix::{
    Bytes, CODES, Codes, Columns, FloatType, Grouped, Groups, Matrix, Packing, Scales, StoredMatrix,
};

/// Pseudo-random bytes.
fn bytes(count: usize, salt: u32) -> Vec<u8> {
    let mix = |index: u32| (index ^ salt.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 13;
    (0..count as u32).map(|index| mix(index.wrapping_mul(0x0100_0193)) as u8).collect()
}

/// Numbers of a type near 1.
fn scales(count: usize, dtype: FloatType) -> Bytes {
    let number = |index: usize| 0.25 + (index * 7 % 11) as f32 * 0.125;
    let made: Vec<u8> = match dtype {
        FloatType::F32 => (0..count).flat_map(|index| number(index).to_le_bytes()).collect(),
        FloatType::F16 => {
            (0..count).flat_map(|index| half::f16::from_f32(number(index)).to_le_bytes()).collect()
        }
        FloatType::BF16 => {
            (0..count).flat_map(|index| half::bf16::from_f32(number(index)).to_le_bytes()).collect()
        }
        FloatType::F8E4M3 => (0..count).map(|index| (index * 5 % 0x7f) as u8).collect(),
        FloatType::E8M0 => (0..count).map(|index| [0, 1, 2, 120, 127, 131][index % 6]).collect(),
    };
    Arc::new(made)
}

/// The bits of all numbers, which are the same for every NaN.
fn bits(tensor: &Tensor) -> Vec<u32> {
    let numbers = tensor.to_dtype(DType::F32).unwrap().contiguous().unwrap().flatten_all().unwrap();
    let numbers = numbers.to_vec1::<f32>().unwrap();
    numbers.iter().map(|number| if number.is_nan() { u32::MAX } else { number.to_bits() }).collect()
}

/// Compares a matrix, some of its rows and its products with the same on the CPU.
fn check(matrix: &Arc<dyn StoredMatrix>, name: &str) {
    let device = device();
    if device.is_cpu() {
        return;
    }
    let (rows, columns) = matrix.shape();
    let host = Matrix::from(Arc::clone(matrix));
    let order: Vec<u32> = (0..rows as u32).rev().chain([2, 0]).collect();
    let (first, count) = (rows / 3, rows / 2);
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let own = Matrix::on_device(matrix.as_ref(), dtype, &device).unwrap().expect(name);
        let of = |matrix: &Matrix| bits(&matrix.tensor().unwrap().to_dtype(dtype).unwrap());
        assert_eq!(own.tensor().unwrap().dtype(), dtype);
        assert_eq!(of(&own), of(&host), "{name} in {dtype:?}");
        let [part, expected] = [&own, &host].map(|matrix| matrix.narrow(first, count).unwrap());
        assert_eq!(of(&part), of(&expected), "rows of {name} in {dtype:?}");
        let [part, expected] = [&own, &host].map(|matrix| matrix.select(order.clone()).unwrap());
        assert_eq!(of(&part), of(&expected), "selected rows of {name} in {dtype:?}");
        let [part, expected] = [part, expected].map(|matrix| matrix.narrow(1, count).unwrap());
        assert_eq!(of(&part), of(&expected), "some selected rows of {name} in {dtype:?}");
        let inputs = Tensor::ones((3, columns), dtype, &device).unwrap();
        let products = part.multiply(&inputs).unwrap();
        assert_eq!(products.dims2().unwrap(), (3, count), "{name}");
        let dense = inputs.matmul(&part.tensor().unwrap().contiguous().unwrap().t().unwrap()).unwrap();
        let [products, dense] = [products, dense].map(|rows| rows.to_dtype(DType::F32).unwrap());
        let apart = (&products - &dense).unwrap().abs().unwrap().max_all().unwrap();
        let most = dense.abs().unwrap().max_all().unwrap();
        let [apart, most] = [apart, most].map(|number| number.to_scalar::<f32>().unwrap());
        let tolerance = if dtype == DType::F32 { 1e-4 } else { 1e-2 };
        // Products of NaN or of too large numbers say nothing.
        assert!(
            !most.is_finite() || apart <= tolerance * most.max(1e-30),
            "{name} in {dtype:?}: {apart}, {most}"
        );
    }
}

#[test]
fn grouped_codes_have_the_bits_of_the_cpu() {
    let table: [f32; CODES] = std::array::from_fn(|index| (index as f32 - 6.3) * 0.21);
    let all_codes = [
        Codes::Nibbles { table, upper_first: false },
        Codes::Nibbles { table, upper_first: true },
        Codes::Packed { bits: 2 },
        Codes::Packed { bits: 3 },
        Codes::Packed { bits: 4 },
        Codes::Packed { bits: 8 },
        Codes::Integers,
        Codes::Floats(FloatType::F8E4M3),
        Codes::Floats(FloatType::BF16),
        Codes::Floats(FloatType::F32),
    ];
    let types = [FloatType::F32, FloatType::F16, FloatType::BF16, FloatType::F8E4M3, FloatType::E8M0];
    for (index, codes) in all_codes.into_iter().enumerate() {
        let own: Vec<u8> = match codes {
            Codes::Floats(dtype @ (FloatType::BF16 | FloatType::F32)) => {
                scales(48 * 320, dtype).as_ref().as_ref().to_vec()
            }
            _ => bytes(48 * codes.row_bytes(320), index as u32),
        };
        let by_column: Vec<u32> = (0..320).map(|column| column * 7 % 5).collect();
        for groups in [
            Groups::Blocks { rows: 16, columns: 128 },
            Groups::Blocks { rows: 1, columns: 320 },
            Groups::Blocks { rows: 48, columns: 32 },
            Groups::Runs(64),
            Groups::Runs(96),
            Groups::Columns { group: by_column, count: 5 },
        ] {
            for (other, dtype) in types.into_iter().enumerate() {
                let mut all = Scales {
                    bytes: Arc::new(Vec::new()),
                    dtype,
                    factor: if other % 2 == 0 { 1.0 } else { 0.3 },
                    zeros: None,
                    groups: groups.clone(),
                };
                let count = all.count((48, 320));
                all.bytes = scales(count, dtype);
                if other != 1 {
                    let zeros: Vec<i8> = bytes(count, 77).into_iter().map(u8::cast_signed).collect();
                    all.zeros = Some(zeros.into());
                }
                let name = format!("{codes:?} with {dtype:?} by {groups:?}");
                let bytes: Bytes = Arc::new(own.clone());
                let matrix = Grouped::new(bytes, codes, all, (48, 320)).expect(&name);
                check(&(Arc::new(matrix) as Arc<dyn StoredMatrix>), &name);
            }
        }
    }
}

#[test]
fn packed_columns_have_the_bits_of_the_cpu() {
    let (outputs, inputs, groups) = (72, 320, 5);
    let packings = [2, 3, 4, 8].map(|bits| Packing::Inputs { bits }).into_iter().chain([Packing::Outputs]);
    for (salt, packing) in packings.enumerate() {
        let bits = match packing {
            Packing::Inputs { bits } => bits as usize,
            Packing::Outputs => 4,
        };
        for (order, dtype) in [(1, FloatType::F16), (7, FloatType::BF16), (1, FloatType::F32)] {
            for more in [0, 1] {
                let matrix = Columns {
                    words: Arc::new(bytes(inputs * outputs * bits / 8, salt as u32)),
                    packing,
                    zeros: Arc::new(bytes(groups * (outputs * bits).div_ceil(32) * 4, 50 + salt as u32)),
                    more,
                    scales: scales(groups * outputs, dtype),
                    dtype,
                    group: (0..inputs as u32).map(|input| input * order % inputs as u32 / 64).collect(),
                    groups,
                    shape: (outputs, inputs),
                };
                let name = format!("{packing:?} with {dtype:?}, {order}, {more}");
                assert!(matrix.is_complete(), "{name}");
                check(&(Arc::new(matrix) as Arc<dyn StoredMatrix>), &name);
            }
        }
    }
}
