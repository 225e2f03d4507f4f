//! Folders that are not plain checkpoints of a supported class.

use std::path::Path;
use std::sync::Arc;

use candle_core::DType;
use lmeval_candle::{Config, Safetensors, Weights, arch};
use lmeval_core::{Diagnose as _, ModelStats};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;

use crate::architectures::{alone, device, fixtures, names};
use crate::model::{create, fixture};

/// A copy of the small model whose tensors are changed: name, data type, shape and bytes.
fn changed(change: impl Fn(&mut Vec<(String, Dtype, Vec<usize>, Vec<u8>)>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs_err::read_dir(fixture()).unwrap() {
        let path = entry.unwrap().path();
        fs_err::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.path().join("model.safetensors");
    let bytes = fs_err::read(&path).unwrap();
    let mut tensors: Vec<_> = SafeTensors::deserialize(&bytes)
        .unwrap()
        .tensors()
        .into_iter()
        .map(|(name, tensor)| (name, tensor.dtype(), tensor.shape().to_vec(), tensor.data().to_vec()))
        .collect();
    change(&mut tensors);
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    fs_err::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    folder
}

/// The error of a folder with its hints.
fn refused(folder: &Path) -> String {
    let error = create(folder, &[]).unwrap_err();
    format!("{error} | {}", error.hints().join(" | "))
}

#[test]
fn unused_tensors_are_named() {
    let folder = changed(|tensors| {
        for index in 0..7 {
            tensors.push((format!("model.layers.9.extra_{index}.weight"), Dtype::F32, vec![1], vec![0; 4]));
        }
        // A buffer that older versions saved.
        tensors.push((
            "model.layers.0.self_attn.rotary_emb.inv_freq".into(),
            Dtype::F32,
            vec![1],
            vec![0; 4],
        ));
    });
    let model = create(folder.path(), &[]).unwrap();
    let warnings = model.stats().map(ModelStats::take_warnings).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("`model.layers.9.extra_0.weight`, `"), "{warnings:?}");
    assert!(warnings[0].contains(" and 2 more") && !warnings[0].contains("inv_freq"), "{warnings:?}");
}

#[test]
fn models_use_all_their_tensors() {
    let encoders = crate::encoders::NAMES.map(str::to_owned);
    for name in names().into_iter().chain(encoders) {
        let folder = fixtures().join(&name);
        let config = Config::read(&folder.join("config.json")).unwrap();
        let source = Arc::new(Safetensors::from_folder(&folder).unwrap());
        let weights = Weights::new(source, DType::F32, device());
        (arch::find(&config).unwrap().build)(&config, &weights).unwrap();
        let unused = weights.unused(&config).unwrap();
        assert!(unused.is_empty(), "{name}: {unused:?}");
    }
}

#[test]
fn gemma_3n_is_found_inside_the_model_that_sees_and_hears() {
    let own = fixtures().join("gemma3n");
    let folder = tempfile::tempdir().unwrap();
    let config: serde_json::Value =
        serde_json::from_slice(&fs_err::read(own.join("config.json")).unwrap()).unwrap();
    let outer = serde_json::json!({
        "architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n", "text_config": config,
    });
    fs_err::write(folder.path().join("config.json"), outer.to_string()).unwrap();
    let bytes = fs_err::read(own.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let renamed = tensors
        .tensors()
        .into_iter()
        .map(|(name, tensor)| (name.replacen("model.", "model.language_model.", 1), tensor));
    let other = TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
    let others = ["model.vision_tower.timm_model.x", "model.audio_tower.y", "model.embed_audio.z"];
    let all = renamed.chain(others.map(|name| (name.to_owned(), other.clone())));
    let weights = safetensors::serialize(all, None).unwrap();
    fs_err::write(folder.path().join("model.safetensors"), weights).unwrap();
    let rows = [folder.path(), own.as_path()].map(|folder| {
        let config = Config::read(&folder.join("config.json")).unwrap();
        let source = Arc::new(Safetensors::from_folder(folder).unwrap());
        let weights = Weights::new(source, DType::F32, device());
        let model = (arch::find(&config).unwrap().build)(&config, &weights).unwrap();
        assert!(weights.unused(&config).unwrap().is_empty());
        alone(model.as_ref(), &[5, 9, 61, 3])
    });
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn quantised_weights_are_named_as_such() {
    let name = "model.layers.0.mlp.down_proj.weight";
    let integers = changed(|tensors| {
        let tensor = tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap();
        let count = tensor.2.iter().product();
        (tensor.1, tensor.3) = (Dtype::I8, vec![1; count]);
    });
    let text = refused(integers.path());
    assert!(text.contains("does not read quantised weights") && text.contains("data type I8"), "{text}");
    assert!(text.contains(name) && text.contains("with torch") && !text.contains("ownload"), "{text}");
    let packed = changed(|tensors| {
        let tensor = tensors.iter_mut().find(|tensor| tensor.0 == name).unwrap();
        *tensor = (name.replace(".weight", ".qweight"), Dtype::I32, vec![1], vec![0; 4]);
    });
    let text = refused(packed.path());
    assert!(text.contains("quantised weights") && text.contains("down_proj.qweight"), "{text}");
}

#[test]
fn an_unused_tensor_of_any_data_type_does_no_harm() {
    let folder = changed(|tensors| {
        tensors.push(("model.layers.0.attn.bias".into(), Dtype::BOOL, vec![2], vec![1, 0]));
    });
    create(folder.path(), &[]).unwrap();
}

/// Splits the weights of a folder into two shards with an index, and changes them.
fn sharded(change: impl Fn(&mut [Vec<(String, TensorView<'_>)>; 2], &mut serde_json::Value)) -> TempDir {
    let folder = changed(|_| ());
    let path = folder.path().join("model.safetensors");
    let bytes = fs_err::read(&path).unwrap();
    let whole = SafeTensors::deserialize(&bytes).unwrap();
    let mut shards = [Vec::new(), Vec::new()];
    let mut index = serde_json::json!({"weight_map": {}});
    for (number, (name, tensor)) in whole.tensors().into_iter().enumerate() {
        index["weight_map"][&name] = format!("{}.safetensors", number % 2).into();
        shards[number % 2].push((name, tensor));
    }
    change(&mut shards, &mut index);
    for (number, shard) in shards.into_iter().enumerate() {
        let shard = safetensors::serialize(shard, None).unwrap();
        fs_err::write(folder.path().join(format!("{number}.safetensors")), shard).unwrap();
    }
    fs_err::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    fs_err::remove_file(path).unwrap();
    folder
}

#[test]
fn shards_agree_with_each_other_and_with_their_index() {
    create(sharded(|_, _| ()).path(), &[]).unwrap();
    // A copy with the same numbers does no harm, nor does an index with the wrong shard.
    let copy = sharded(|shards, index| {
        let first = shards[0][0].clone();
        index["weight_map"][&first.0] = "1.safetensors".into();
        shards[1].push(first);
    });
    create(copy.path(), &[]).unwrap();
    let stale = sharded(|shards, _| {
        let (name, tensor) = shards[0][0].clone();
        let zeros: &'static [u8] = vec![0; tensor.data().len()].leak();
        shards[1].push((name, TensorView::new(tensor.dtype(), tensor.shape().to_vec(), zeros).unwrap()));
    });
    let text = refused(stale.path());
    assert!(text.contains("is also in `") && text.contains("with other numbers"), "{text}");
    let missing = sharded(|_, index| {
        index["weight_map"]["model.layers.0.self_attn.q_proj.bias"] = "0.safetensors".into();
        index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] = "0.safetensors".into();
    });
    let text = refused(missing.path());
    assert!(
        text.contains("lists the tensor `model.layers.0.self_attn.q_proj.bias`, which no shard has"),
        "{text}"
    );
}
