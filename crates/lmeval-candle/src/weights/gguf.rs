//! Weights in a GGUF file: quantised numbers become plain ones.

use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use candle_core::quantized::gguf_file::{Content, Value as Entry};
use candle_core::{DType, Device, Tensor};
use lmeval_pycompat::{Dict, Value};

use super::Source;
use crate::config::Config;
use crate::error::{Error, Result};

/// Names of the file's architectures, and the classes that they are.
const CLASSES: [(&str, &str); 3] =
    [("llama", "LlamaForCausalLM"), ("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM")];

/// Names of weights of a layer, here and in the file.
const NAMES: [(&str, &str); 11] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// A GGUF file.
pub struct Gguf {
    path: PathBuf,
    content: Content,
    file: Mutex<BufReader<std::fs::File>>,
    architecture: String,
}

impl Gguf {
    /// Opens a file and checks that its tensors are all there.
    pub fn open(path: &Path) -> Result<Self> {
        let broken = |problem: String| Error::file(path, problem);
        let file = fs_err::File::open(path).map_err(|error| broken(error.to_string()))?;
        let length = file.metadata().map_err(|error| broken(error.to_string()))?.len();
        let mut file = BufReader::new(file.into_parts().0);
        let content =
            Content::read(&mut file).map_err(|error| broken(format!("it is no GGUF file ({error})")))?;
        for (name, info) in &content.tensor_infos {
            let block = info.ggml_dtype.block_size() as u64;
            let count = info.shape.dims().iter().try_fold(1_u64, |all, size| all.checked_mul(*size as u64));
            let end = count
                .and_then(|count| (count / block).checked_mul(info.ggml_dtype.type_size() as u64))
                .and_then(|bytes| bytes.checked_add(content.tensor_data_offset)?.checked_add(info.offset));
            if end.is_none_or(|end| end > length) {
                return Err(broken(format!("the tensor `{name}` is cut off; the file has {length} bytes")));
            }
        }
        let architecture =
            content.metadata.get("general.architecture").and_then(|name| name.to_string().ok());
        let architecture = architecture.ok_or_else(|| broken("it names no architecture".into()))?.clone();
        Ok(Self { path: path.to_owned(), content, file: Mutex::new(file), architecture })
    }

    /// The configuration, as `config.json` would have it.
    pub fn config(&self) -> Result<Config> {
        let Some((_, class)) = CLASSES.iter().find(|(name, _)| *name == self.architecture) else {
            let known: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
            return Err(Error::Unsupported {
                message: format!("GGUF files of the architecture `{}` are not known here", self.architecture),
                hint: Some(format!("There are `{}`; other models load from safetensors", known.join("`, `"))),
            });
        };
        let mut fields = Dict::new();
        fields.insert("architectures", Value::list([Value::str(*class)]));
        for (field, key) in [
            ("num_hidden_layers", "block_count"),
            ("hidden_size", "embedding_length"),
            ("intermediate_size", "feed_forward_length"),
            ("num_attention_heads", "attention.head_count"),
            ("num_key_value_heads", "attention.head_count_kv"),
            ("head_dim", "attention.key_length"),
            ("max_position_embeddings", "context_length"),
        ] {
            if let Some(number) = self.entry(key).and_then(whole) {
                fields.insert(field, number);
            }
        }
        for (field, key) in
            [("rms_norm_eps", "attention.layer_norm_rms_epsilon"), ("rope_theta", "rope.freq_base")]
        {
            if let Some(number) = self.entry(key).and_then(|entry| entry.to_f32().ok()) {
                // The shortest decimal of the 32 bits: 1e-5 is meant where 9.999999747e-6 is stored.
                fields.insert(field, number.to_string().parse::<f64>().unwrap_or_else(|_| f64::from(number)));
            }
        }
        let embedding = self.shape("model.embed_tokens.weight");
        let embedding = embedding.ok_or_else(|| Error::MissingWeight("token_embd.weight".into()))?;
        fields.insert("vocab_size", embedding.first().copied().unwrap_or_default() as i64);
        fields.insert("tie_word_embeddings", self.shape("lm_head.weight").is_none());
        if let Some(scaling) = self.scaling()? {
            fields.insert("rope_scaling", Value::Dict(scaling.into()));
        }
        Ok(Config::from_fields(fields))
    }

    /// How rotary embeddings are stretched.
    fn scaling(&self) -> Result<Option<Dict>> {
        let mut scaling = Dict::new();
        if self.content.tensor_infos.contains_key("rope_freqs.weight") {
            let factors = self.read("rope_freqs.weight")?.to_vec1::<f32>()?;
            let factors = Value::list(factors.into_iter().map(|factor| Value::Float(factor.into())));
            scaling.insert("rope_type", "longrope");
            scaling.insert("short_factor", factors.clone());
            scaling.insert("long_factor", factors);
            scaling.insert("attention_factor", 1.0);
            return Ok(Some(scaling));
        }
        match self.entry("rope.scaling.type").and_then(|entry| entry.to_string().ok()).map(String::as_str) {
            None | Some("none") => Ok(None),
            Some(name @ ("linear" | "yarn")) => {
                scaling.insert("rope_type", name);
                if let Some(factor) = self.entry("rope.scaling.factor").and_then(|entry| entry.to_f32().ok())
                {
                    scaling.insert("factor", f64::from(factor));
                }
                if let Some(original) = self.entry("rope.scaling.original_context_length").and_then(whole) {
                    scaling.insert("original_max_position_embeddings", original);
                }
                Ok(Some(scaling))
            }
            Some(other) => Err(Error::unsupported(format!(
                "The scaling `{other}` of rotary embeddings is not known here"
            ))),
        }
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.content.metadata.get(&format!("{}.{key}", self.architecture))
    }

    fn read(&self, name: &str) -> Result<Tensor> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = |problem: String| Error::file(&self.path, problem);
        file.seek(SeekFrom::Start(0)).map_err(|error| broken(error.to_string()))?;
        let tensor = self.content.tensor(&mut *file, name, &Device::Cpu);
        let tensor =
            tensor.map_err(|error| broken(format!("the tensor `{name}` cannot be read ({error})")))?;
        Ok(tensor.dequantize(&Device::Cpu)?)
    }
}

fn whole(entry: &Entry) -> Option<i64> {
    match entry {
        Entry::U32(number) => Some(i64::from(*number)),
        Entry::I32(number) => Some(i64::from(*number)),
        Entry::U64(number) => i64::try_from(*number).ok(),
        Entry::I64(number) => Some(*number),
        Entry::U16(number) => Some(i64::from(*number)),
        _ => None,
    }
}

/// The name of a weight in the file.
fn stored_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        "lm_head.weight" => return Some("output.weight".into()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let (block, kind) = rest.rsplit_once('.')?;
    let (_, stored) = NAMES.iter().find(|(own, _)| *own == block)?;
    Some(format!("blk.{layer}.{stored}.{kind}"))
}

/// The name here of a weight in the file.
fn own_name(stored: &str) -> Option<String> {
    match stored {
        "token_embd.weight" => return Some("model.embed_tokens.weight".into()),
        "output_norm.weight" => return Some("model.norm.weight".into()),
        "output.weight" => return Some("lm_head.weight".into()),
        _ => {}
    }
    let (layer, rest) = stored.strip_prefix("blk.")?.split_once('.')?;
    let (block, kind) = rest.rsplit_once('.')?;
    let (own, _) = NAMES.iter().find(|(_, name)| *name == block)?;
    Some(format!("model.layers.{layer}.{own}.{kind}"))
}

impl Source for Gguf {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        let info = self.content.tensor_infos.get(&stored_name(name)?)?;
        Some(info.shape.dims().to_vec())
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let missing = || Error::MissingWeight(name.to_owned());
        let tensor = self.read(&stored_name(name).ok_or_else(missing)?)?;
        let heads = match name {
            _ if self.architecture != "llama" => None,
            _ if name.contains("self_attn.q_proj") => self.entry("attention.head_count").and_then(whole),
            _ if name.contains("self_attn.k_proj") => {
                self.entry("attention.head_count_kv").or(self.entry("attention.head_count")).and_then(whole)
            }
            _ => None,
        };
        let tensor = match heads.and_then(|heads| usize::try_from(heads).ok()).filter(|heads| *heads > 0) {
            Some(heads) => halves(&tensor, heads)?,
            None => tensor,
        };
        Ok(tensor.to_device(device)?)
    }

    fn names(&self) -> Vec<String> {
        self.content.tensor_infos.keys().filter_map(|name| own_name(name)).collect()
    }

    fn stored(&self) -> DType {
        DType::F32
    }
}

/// Rows of queries and keys in the order of halves; these files have them as neighbours.
fn halves(weight: &Tensor, heads: usize) -> Result<Tensor> {
    let dims = weight.dims().to_vec();
    let width = dims[0] / heads;
    if width * heads != dims[0] || !width.is_multiple_of(2) {
        return Err(Error::unsupported(format!("{} rows cannot be those of {heads} heads", dims[0])));
    }
    let rest: usize = dims[1..].iter().product();
    let split = weight.reshape((heads, width / 2, 2, rest))?;
    Ok(split.transpose(1, 2)?.contiguous()?.reshape(dims)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_translated() {
        assert_eq!(stored_name("model.layers.12.mlp.up_proj.weight").unwrap(), "blk.12.ffn_up.weight");
        assert_eq!(stored_name("model.layers.0.self_attn.q_proj.bias").unwrap(), "blk.0.attn_q.bias");
        assert_eq!(stored_name("lm_head.weight").unwrap(), "output.weight");
        assert_eq!(stored_name("model.layers.0.other.weight"), None);
        for name in ["token_embd.weight", "output_norm.weight", "output.weight", "blk.3.attn_q_norm.weight"] {
            assert_eq!(stored_name(&own_name(name).unwrap()).unwrap(), name);
        }
        assert_eq!(own_name("rope_freqs.weight"), None);
    }

    #[test]
    fn rows_are_put_in_order() {
        let weight = Tensor::arange(0_u32, 16, &Device::Cpu).unwrap().reshape((8, 2)).unwrap();
        let found = halves(&weight, 2).unwrap().to_vec2::<u32>().unwrap();
        let rows: Vec<u32> = found.iter().map(|row| row[0] / 2).collect();
        assert_eq!(rows, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}
