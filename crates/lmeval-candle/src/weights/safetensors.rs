//! Weights in files of the safetensors format.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use lmeval_pycompat::{Value, json};
use memmap2::Mmap;
use rustc_hash::FxHashMap;
use safetensors::tensor::Metadata;

use super::Source;
use crate::error::{Error, Result};

/// The file of weights that are not in parts.
const SINGLE: &str = "model.safetensors";
/// The file that says which weights are in which part.
const INDEX: &str = "model.safetensors.index.json";

/// Weights in one or several files, mapped into memory.
pub struct Safetensors {
    files: Vec<Mapped>,
    /// The file and the description of each tensor.
    tensors: FxHashMap<String, Place>,
}

struct Mapped {
    path: PathBuf,
    bytes: Mmap,
}

struct Place {
    file: usize,
    dtype: DType,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

impl Safetensors {
    /// The weights of a model's folder: `model.safetensors`, or the parts that its index names.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        Self::open(&Self::files_of(folder)?)
    }

    /// The files that hold the weights of a folder.
    pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
        let index = folder.join(INDEX);
        if !index.is_file() {
            let single = folder.join(SINGLE);
            if single.is_file() {
                return Ok(vec![single]);
            }
            let has_older = folder.join("pytorch_model.bin").is_file()
                || folder.join("pytorch_model.bin.index.json").is_file();
            let problem = if has_older {
                "it has weights as `pytorch_model.bin` only, which can run code when it is read"
            } else {
                "it has neither `model.safetensors` nor `model.safetensors.index.json`"
            };
            return Err(Error::Unsupported {
                message: format!("The folder `{}` cannot be used: {problem}", folder.display()),
                hint: Some(
                    "`save_pretrained(…, safe_serialization=True)` writes the weights as safetensors".into(),
                ),
            });
        }
        let mut files: Vec<PathBuf> =
            Self::parts(&index)?.into_iter().map(|name| folder.join(name)).collect();
        files.sort();
        files.dedup();
        if let Some(missing) = files.iter().find(|file| !file.is_file()) {
            return Err(Error::file(missing, format!("`{INDEX}` names it, and it is not there")));
        }
        Ok(files)
    }

    /// The names of the parts that an index names.
    pub fn parts(index: &Path) -> Result<Vec<String>> {
        let text = fs_err::read_to_string(index).map_err(|error| Error::file(index, error))?;
        let value = json::loads(&text).map_err(|error| Error::file(index, error))?;
        let map = value.as_dict().and_then(|index| index.get_str("weight_map")).and_then(Value::as_dict);
        let map = map.ok_or_else(|| Error::file(index, "it has no object `weight_map`"))?;
        let mut parts = Vec::new();
        for (tensor, file) in map.iter() {
            let is_plain = |name: &&str| !name.is_empty() && !name.contains(['/', '\\']) && *name != "..";
            let name = file.as_str().filter(is_plain).ok_or_else(|| {
                let tensor = lmeval_pycompat::repr::str(tensor);
                Error::file(index, format!("the part of `{tensor}` is no name of a file"))
            })?;
            if !parts.iter().any(|known| known == name) {
                parts.push(name.to_owned());
            }
        }
        Ok(parts)
    }

    /// The weights of files, whose headers and lengths are checked.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        let mut tensors = FxHashMap::default();
        for path in paths {
            let broken = |problem: String| Error::file(path, problem);
            let file = fs_err::File::open(path).map_err(|error| broken(error.to_string()))?;
            // SAFETY: the file is only read. Whoever shortens it while it is mapped ends this process, as with any
            // program that maps files.
            #[expect(unsafe_code, reason = "weights are read where they are, without a second copy of them")]
            let bytes = unsafe { Mmap::map(file.file()) }.map_err(|error| broken(error.to_string()))?;
            let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).map_err(|error| {
                broken(format!("it is no complete safetensors file ({error}; {} bytes)", bytes.len()))
            })?;
            describe(&metadata, files.len(), header + 8, bytes.len(), &mut tensors).map_err(broken)?;
            files.push(Mapped { path: path.clone(), bytes });
        }
        Ok(Self { files, tensors })
    }
}

/// Adds the tensors of a file.
fn describe(
    metadata: &Metadata,
    file: usize,
    data: usize,
    length: usize,
    tensors: &mut FxHashMap<String, Place>,
) -> Result<(), String> {
    for (name, info) in metadata.tensors() {
        let dtype = DType::try_from(info.dtype).map_err(|_| {
            format!("the tensor `{name}` has the type {:?}, which is not known here", info.dtype)
        })?;
        let (start, end) = (data + info.data_offsets.0, data + info.data_offsets.1);
        let size = info.shape.iter().product::<usize>() * dtype.size_in_bytes();
        if end > length || end - start != size {
            return Err(format!("the tensor `{name}` does not have the {size} bytes of its shape"));
        }
        tensors.insert(name, Place { file, dtype, shape: info.shape.clone(), start, end });
    }
    Ok(())
}

impl Source for Safetensors {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.tensors.get(name).map(|place| place.shape.clone())
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let place = self.tensors.get(name).ok_or_else(|| Error::MissingWeight(name.to_owned()))?;
        let file = &self.files[place.file];
        let bytes = file.bytes.get(place.start..place.end);
        let bytes =
            bytes.ok_or_else(|| Error::file(&file.path, format!("the tensor `{name}` is cut off")))?;
        Ok(Tensor::from_raw_buffer(bytes, place.dtype, &place.shape, device)?)
    }

    fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    fn stored(&self) -> DType {
        let mut sizes: Vec<(DType, usize)> = Vec::new();
        for place in self.tensors.values() {
            let bytes = place.end - place.start;
            match sizes.iter_mut().find(|(dtype, _)| *dtype == place.dtype) {
                Some((_, size)) => *size += bytes,
                None => sizes.push((place.dtype, bytes)),
            }
        }
        sizes.into_iter().max_by_key(|(_, size)| *size).map_or(DType::F32, |(dtype, _)| dtype)
    }
}
