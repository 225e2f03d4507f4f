//! Quantised checkpoints, compared with `transformers` on the weights that the library of each format dequantises.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use lmeval_candle::arch::{self, Architecture};
use lmeval_candle::{Adapted, Config, Error, Gguf, Quantised, Safetensors, Source, Stacking, Weights};
use lmeval_pycompat::Dict;
use lmeval_testkit::mutate;
use safetensors::SafeTensors;
use serde_json::Value;

use crate::architectures::{TOLERANCE, alone, device, difference, fixtures, largest, names, numbers, tokens};

/// Tolerance of log-probabilities for sums in another order.
const ORDER_TOLERANCE: f32 = 2e-5;

pub(crate) fn folder() -> PathBuf {
    fixtures().join("quantised")
}

/// The largest difference of log-probabilities to those of a file.
fn difference_to(model: &dyn Architecture, expected: &Path) -> f32 {
    let expected: Value = serde_json::from_slice(&fs_err::read(expected).unwrap()).unwrap();
    let sequences = expected["sequences"].as_array().unwrap().iter();
    largest(sequences.map(|sequence| {
        let text = tokens(&sequence["tokens"]);
        let found = alone(model, &text);
        let next: Vec<f32> = found.iter().zip(&text[1..]).map(|(row, token)| row[*token as usize]).collect();
        largest([
            difference(&next, &numbers(&sequence["next_log_probabilities"])),
            difference(found.last().unwrap(), &numbers(&sequence["last_distribution"])),
        ])
    }))
}

fn gguf(path: &Path) -> Result<Box<dyn Architecture>, Error> {
    let file = Gguf::open(path)?;
    let config = file.config()?;
    let source: Arc<dyn Source> = Arc::new(file);
    let weights = Weights::new(Arc::clone(&source), DType::F32, device());
    let model = (arch::find(&config)?.build)(&config, &weights)?;
    source.check_loaded()?;
    Ok(model)
}

#[test]
fn all_block_types_match() {
    let apart = difference_to(
        gguf(&folder().join("gguf_mixed.gguf")).unwrap().as_ref(),
        &folder().join("gguf_mixed.json"),
    );
    assert!(apart < TOLERANCE, "{apart}");
}

#[test]
fn shards_are_one_model() {
    let name = |index: usize| format!("gguf_shards-0000{index}-of-00003.gguf");
    let model = gguf(&folder().join(name(1))).unwrap();
    let apart = difference_to(model.as_ref(), &folder().join("gguf_shards.json"));
    assert!(apart < TOLERANCE, "{apart}");

    let message = |path: &Path| Gguf::open(path).err().unwrap().to_string();
    assert!(message(&folder().join(name(2))).contains("give the first of them"));
    let copies = tempfile::tempdir().unwrap();
    let copy = |index: usize, as_index: usize| {
        fs_err::copy(folder().join(name(index)), copies.path().join(name(as_index))).unwrap();
    };
    copy(1, 1);
    copy(2, 2);
    let found = message(&copies.path().join(name(1)));
    assert!(found.contains("-00003-of-00003.gguf`: it is missing"), "{found}");
    copy(2, 3);
    let found = message(&copies.path().join(name(1)));
    assert!(found.contains("does not say that it is number 3 of 3"), "{found}");
    copy(2, 1);
    let found = message(&copies.path().join(name(1)));
    assert!(found.contains("but its metadata does not"), "{found}");
    let other = copies.path().join("other.gguf");
    fs_err::copy(folder().join(name(1)), &other).unwrap();
    assert!(message(&other).contains("ends in `-00001-of-00003.gguf`"));
}

/// A checkpoint with an adapter.
fn adapted(name: &str, base: &str) -> Result<Box<dyn Architecture>, Error> {
    let base = folder().join(base);
    let config = Config::read(&base.join("config.json"))?;
    let source = Arc::new(Safetensors::from_folder(&base)?);
    let source: Arc<dyn Source> = Arc::new(Adapted::open(&folder().join(name), source, &config)?);
    let weights = Weights::new(Arc::clone(&source), DType::F32, device());
    let model = (arch::find(&config)?.build)(&config, &weights)?;
    source.check_loaded()?;
    assert!(weights.unused(&config)?.is_empty(), "{name}");
    Ok(model)
}

#[test]
fn adapters_match_peft() {
    let mut failed = Vec::new();
    let mut count = 0;
    for entry in fs_err::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let Ok(config) = Config::read(&path.join("adapter_config.json")) else { continue };
        count += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        let base = config.string("base_model_name_or_path").unwrap().unwrap();
        let apart =
            adapted(name, base).map(|model| difference_to(model.as_ref(), &path.join("expected.json")));
        if !apart.as_ref().is_ok_and(|apart| *apart < TOLERANCE) {
            failed.push(format!("{name}: {apart:?}"));
        }
        let plain = adapted_difference_without(base, &path);
        assert!(plain > 0.1, "{name} changes nothing: {plain}");
    }
    assert!(failed.is_empty() && count > 12, "{count}: {failed:#?}");
}

/// The difference of the model without its adapter.
fn adapted_difference_without(base: &str, adapter: &Path) -> f32 {
    let base = folder().join(base);
    let config = Config::read(&base.join("config.json")).unwrap();
    let weights = Weights::new(Arc::new(Safetensors::from_folder(&base).unwrap()), DType::F32, device());
    let model = (arch::find(&config).unwrap().build)(&config, &weights).unwrap();
    difference_to(model.as_ref(), &adapter.join("expected.json"))
}

/// A quantised checkpoint.
fn quantised(path: &Path, dtype: DType) -> Result<Box<dyn Architecture>, Error> {
    let config = Config::read(&path.join("config.json"))?;
    let own = config.object("quantization_config")?.expect("a quantised checkpoint");
    let source: Arc<dyn Source> = Arc::new(Quantised::open(Arc::new(Safetensors::from_folder(path)?), &own)?);
    let weights = Weights::new(Arc::clone(&source), dtype, device());
    let model = (arch::find(&config)?.build)(&config, &weights)?;
    source.check_loaded()?;
    assert!(weights.unused(&config)?.is_empty(), "{}: {:?}", path.display(), weights.unused(&config)?);
    Ok(model)
}

/// The folders of quantised checkpoints.
fn checkpoints() -> Vec<PathBuf> {
    let folders = fs_err::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = folders
        .filter(|path| {
            let config = fs_err::read_to_string(path.join("config.json"));
            config.is_ok_and(|config| config.contains("quantization_config"))
        })
        .collect();
    folders.sort_unstable();
    folders
}

#[test]
fn quantised_checkpoints_match_their_libraries() {
    let mut failed = Vec::new();
    let all = checkpoints();
    for path in &all {
        let apart = quantised(path, DType::F32)
            .map(|model| difference_to(model.as_ref(), &path.join("expected.json")));
        if !apart.as_ref().is_ok_and(|apart| *apart < TOLERANCE) {
            failed.push(format!("{}: {apart:?}", path.display()));
        }
    }
    assert!(failed.is_empty() && all.len() > 15, "{}: {failed:#?}", all.len());
}

#[test]
fn formats_with_quantised_activations_say_so() {
    let names = checkpoints().into_iter().filter(|path| {
        let own = Config::read(&path.join("config.json")).unwrap().object("quantization_config");
        let plain = Arc::new(Safetensors::from_folder(path).unwrap());
        Quantised::open(plain, &own.unwrap().unwrap()).unwrap().note().is_some()
    });
    let names: Vec<String> =
        names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let expected = "bnb_int8 fbgemm_fp8 float_8 float_8_blocks float_8_rows fp8_blocks int_8 mxfp_4 mxfp_8 nvfp_4 \
                    packed_8_and_4 torchao_int8";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn stacked_experts_are_dense_tensors_and_stored_matrices() {
    let path = folder().join("mxfp4_experts");
    let mut fields = Dict::new();
    fields.insert("quant_method", "mxfp4");
    let source = Safetensors::from_folder(&path).unwrap();
    let source = Arc::new(Quantised::open(Arc::new(source), &Config::from_fields(fields)).unwrap());
    let dense = Arc::new(Safetensors::open(&[path.join("dense.safetensors")]).unwrap());
    let shape = [3, 64, 24];
    let all = |source: Arc<dyn Source>| {
        let weights = Weights::new(source, DType::F32, device()).at("experts");
        let tensor = weights.tensor("gate_up_proj", &shape).unwrap();
        let stacked = weights.stacked("gate_up_proj", [3, 24, 64], Stacking::Transposes).unwrap();
        assert_eq!(stacked.len(), 3);
        assert_eq!(stacked[0].shape().unwrap(), (24, 64));
        tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    assert_eq!(all(source), all(dense));
}

/// A checkpoint whose matrices are all expanded when they are loaded.
struct Expanded(Arc<dyn Source>);

impl Source for Expanded {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.0.shape(name)
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor, Error> {
        self.0.load(name, device)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn stored(&self) -> DType {
        self.0.stored()
    }
}

/// A checkpoint with all tensors in 16 bits.
fn narrowed(checkpoint: &Path, copy: &Path) -> Arc<dyn Source> {
    let source = Safetensors::from_folder(checkpoint).unwrap();
    let tensors = source.names().into_iter().filter_map(|name| {
        let tensor = source.load(&name, &Device::Cpu).unwrap();
        tensor.dtype().is_float().then(|| (name, tensor.to_dtype(DType::BF16).unwrap()))
    });
    candle_core::safetensors::save(&tensors.collect(), copy).unwrap();
    Arc::new(Safetensors::open(&[copy.to_owned()]).unwrap())
}

#[test]
fn stored_matrices_compute_the_bits_of_expanded_ones() {
    let copies = tempfile::tempdir().unwrap();
    let mut failed = Vec::new();
    let plain = names().into_iter().map(|name| fixtures().join(name));
    for path in plain.chain(checkpoints()) {
        let config = Config::read(&path.join("config.json")).unwrap();
        let source: Arc<dyn Source> = match config.object("quantization_config").unwrap() {
            Some(own) => {
                let plain = Arc::new(Safetensors::from_folder(&path).unwrap());
                Arc::new(Quantised::open(plain, &own).unwrap())
            }
            None => narrowed(&path, &copies.path().join(path.file_name().unwrap())),
        };
        let rows = |source: Arc<dyn Source>| {
            let weights = Weights::new(source, DType::F32, device());
            let model = (arch::find(&config).unwrap().build)(&config, &weights).unwrap();
            let text: Vec<u32> = (0..21).map(|index| index * 5 % 23).collect();
            alone(model.as_ref(), &text).concat()
        };
        let [own, expanded] = [rows(Arc::clone(&source)), rows(Arc::new(Expanded(source)))];
        // On a GPU, the library may add in another order if a matrix is stored column by column.
        let apart = difference(&own, &expanded);
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        let is_same = if device().is_cpu() { bits(&own) == bits(&expanded) } else { apart < ORDER_TOLERANCE };
        if !is_same {
            failed.push(format!("{}: {apart:e} apart", path.display()));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn widened_weights_are_rounded_first() {
    let path = folder().join("gptq_4");
    let config = Config::read(&path.join("config.json")).unwrap();
    let own = config.object("quantization_config").unwrap().unwrap();
    let source = Quantised::open(Arc::new(Safetensors::from_folder(&path).unwrap()), &own).unwrap();
    let weights = Weights::new(Arc::new(source), DType::BF16, device());
    let name = "model.layers.0.mlp.down_proj";
    let numbers = |tensor: Tensor| {
        let tensor = tensor.to_dtype(DType::F32).unwrap().contiguous().unwrap();
        tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    let layer = weights.widened().linear(name, 128, 64, false).unwrap();
    assert_eq!(layer.weight().unwrap().dtype(), DType::F32);
    let rounded = weights.at(name).tensor("weight", &[64, 128]).unwrap();
    assert_eq!(numbers(layer.weight().unwrap()), numbers(rounded));
}

#[test]
fn damaged_checkpoints_are_refused() {
    for path in checkpoints() {
        let config = Config::read(&path.join("config.json")).unwrap();
        let own = config.object("quantization_config").unwrap().unwrap();
        let sample = fs_err::read(path.join("model.safetensors")).unwrap();
        let copies = tempfile::tempdir().unwrap();
        let mut copy = 0;
        mutate(&[&sample], 60, |bytes| {
            // A new file per copy, because a mapped file must not change.
            let path = copies.path().join(copy.to_string());
            copy += 1;
            fs_err::write(&path, bytes).unwrap();
            let opened =
                Safetensors::open(&[path]).and_then(|source| Quantised::open(Arc::new(source), &own));
            let Ok(source) = opened else { return };
            for name in source.names() {
                let _ = (source.shape(&name), source.load(&name, &Device::Cpu));
                for stacking in [Stacking::Matrices, Stacking::Transposes] {
                    let _ = source.stacked(&name, stacking);
                }
            }
        });
    }
}

#[test]
fn tensors_that_change_numbers_are_not_ignored() {
    let path = folder().join("packed_4");
    let config = Config::read(&path.join("config.json")).unwrap();
    let own = config.object("quantization_config").unwrap().unwrap();
    let bytes = fs_err::read(path.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let copies = tempfile::tempdir().unwrap();
    let open = |name: &str, extra: &str| {
        let mut all = tensors.tensors();
        let view = tensors.tensor("model.norm.weight").unwrap();
        all.push((extra.to_owned(), view));
        let path = copies.path().join(name);
        fs_err::write(&path, safetensors::serialize(all, None).unwrap()).unwrap();
        Quantised::open(Arc::new(Safetensors::open(&[path]).unwrap()), &own).map(|_| ())
    };
    open("plain", "elsewhere.weight_shift").unwrap();
    let error = open("shift", "model.layers.0.mlp.down_proj.weight_shift").unwrap_err();
    assert!(matches!(&error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("`model.layers.0.mlp.down_proj.weight_shift`"), "{error}");
}
