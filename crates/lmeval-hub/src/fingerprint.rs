//! Fingerprints that distinguish a model's files from others of the same name.

use std::io::{Read as _, Result, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

use crate::hexadecimal;

/// Small model files that affect answers.
const SMALL: [&str; 2] = ["config.json", "generation_config.json"];
/// Tokenizer files that affect answers. `config.json` determines the tokenizer class.
const TOKENIZER: [&str; 6] = [
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "config.json",
];
/// Tokenizers without a `tokenizer.json`, in the order in which they are read.
const VOCABULARIES: [&str; 3] = ["tekken.json", "tokenizer.model", "spiece.model"];
/// Bytes hashed from the start of a weight file, which contains the header.
const HEAD: u64 = 1 << 20;
/// Number and size of the blocks hashed from the rest of it, with and without the modification time.
const BLOCKS: u64 = 64;
const PORTABLE_BLOCKS: u64 = 1024;
const BLOCK: u64 = 4096;

/// Hashes the model's configuration and tokenizer files.
pub fn hash_small_files(folder: &Path, tokenizer: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let own = SMALL.iter().map(|name| folder.join(name));
    for path in own.chain(TOKENIZER.iter().map(|name| tokenizer.join(name))) {
        if !path.is_file() {
            hash.update([0]);
            continue;
        }
        let content = fs_err::read(&path)?;
        hash.update([1]);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(&content);
    }
    // Many folders have such a file besides the `tokenizer.json`, where it changes nothing.
    let is_read = |path: &PathBuf| path.is_file() && !tokenizer.join("tokenizer.json").is_file();
    if let Some(path) = VOCABULARIES.iter().map(|name| tokenizer.join(name)).find(is_read) {
        hash.update([2]);
        hash.update(fs_err::read(&path)?);
    }
    Ok(hexadecimal(&hash.finalize()))
}

/// Hashes name, size, modification time, header and some blocks of each weight file. Hashing all of it would take as long
/// as loading the model.
pub fn hash_weights(files: &[PathBuf]) -> Result<String> {
    hash_files(files, Facts::NameAndTime)
}

/// Like [`hash_weights`], but with more blocks instead of the modification time, which differs between copies.
pub fn hash_portable_weights(files: &[PathBuf]) -> Result<String> {
    hash_files(files, Facts::Name)
}

/// Like [`hash_portable_weights`], but without the names of the files, so that renamed ones are recognised.
pub fn hash_contents(files: &[PathBuf]) -> Result<String> {
    hash_files(files, Facts::None)
}

/// What is hashed of a file besides its size and content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Facts {
    NameAndTime,
    Name,
    None,
}

fn hash_files(files: &[PathBuf], facts: Facts) -> Result<String> {
    let mut hash = Sha256::new();
    for path in files {
        add_weights(&mut hash, path, facts)?;
    }
    Ok(hexadecimal(&hash.finalize()))
}

fn add_weights(hash: &mut Sha256, path: &Path, facts: Facts) -> Result<()> {
    let mut file = fs_err::File::open(path)?;
    let metadata = file.metadata()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match facts {
        Facts::None => hash.update(format!("{};", metadata.len())),
        Facts::Name => hash.update(format!("{name} {};", metadata.len())),
        Facts::NameAndTime => {
            let time = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
            hash.update(format!("{name} {} {time};", metadata.len()));
        }
    }
    let mut add = |start: u64, length: u64| {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(length).read_to_end(&mut bytes)?;
        hash.update(&bytes);
        Result::Ok(())
    };
    add(0, HEAD)?;
    let rest = metadata.len().saturating_sub(HEAD + BLOCK);
    if rest > 0 {
        let blocks = if facts == Facts::NameAndTime { BLOCKS } else { PORTABLE_BLOCKS };
        (0..=blocks).try_for_each(|block| add(HEAD + rest / blocks * block, BLOCK))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_change_the_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let small = || hash_small_files(folder.path(), folder.path()).unwrap();
        let mut seen = vec![small()];
        for (name, content) in [
            ("config.json", "a"),
            ("config.json", "b"),
            ("tokenizer.json", "b"),
            ("generation_config.json", "c"),
        ] {
            fs_err::write(folder.path().join(name), content).unwrap();
            assert!(!seen.contains(&small()), "{name}");
            seen.push(small());
        }
        assert_eq!(small(), small());
    }

    #[test]
    fn files_of_a_separate_tokenizer_change_the_fingerprint() {
        let (model, tokenizer) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let small = || hash_small_files(model.path(), tokenizer.path()).unwrap();
        let mut seen = vec![small()];
        for name in
            ["config.json", "spiece.model", "tokenizer.model", "tekken.json", "vocab.json", "merges.txt"]
        {
            fs_err::write(tokenizer.path().join(name), name).unwrap();
            assert!(!seen.contains(&small()), "{name}");
            seen.push(small());
        }
        fs_err::write(tokenizer.path().join("tokenizer.json"), "a").unwrap();
        let whole = small();
        assert!(!seen.contains(&whole));
        fs_err::write(tokenizer.path().join("tekken.json"), "b").unwrap();
        assert_eq!(small(), whole);
    }

    #[test]
    fn copies_have_the_same_portable_fingerprint() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = one.path().join("model.safetensors");
        let copy = other.path().join("model.safetensors");
        fs_err::write(&path, vec![1; 3 << 20]).unwrap();
        fs_err::copy(&path, &copy).unwrap();
        let time = UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        fs_err::File::options().write(true).open(&copy).unwrap().file().set_modified(time).unwrap();
        let of = |path: &PathBuf| hash_portable_weights(std::slice::from_ref(path)).unwrap();
        assert_eq!(of(&path), of(&copy));
        let renamed = other.path().join("renamed.safetensors");
        fs_err::copy(&path, &renamed).unwrap();
        assert_ne!(of(&path), of(&renamed));
        let content_of = |path: &PathBuf| hash_contents(std::slice::from_ref(path)).unwrap();
        assert_eq!(content_of(&path), content_of(&renamed));
        assert_ne!(
            hash_weights(std::slice::from_ref(&path)).unwrap(),
            hash_weights(std::slice::from_ref(&copy)).unwrap()
        );
        let mut content = vec![1; 3 << 20];
        content[(2 << 20)..(2 << 20) + 8192].fill(2);
        fs_err::write(&copy, content).unwrap();
        assert_ne!(of(&path), of(&copy));
    }

    #[test]
    fn weights_of_the_same_size_and_time_differ() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let time = UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let of = |content: &[u8]| {
            fs_err::write(&path, content).unwrap();
            fs_err::File::options().write(true).open(&path).unwrap().file().set_modified(time).unwrap();
            hash_weights(std::slice::from_ref(&path)).unwrap()
        };
        let mut content = vec![1; 4 << 20];
        let first = of(&content);
        assert_eq!(of(&content), first);
        content[2 << 20..].fill(2);
        let second = of(&content);
        assert_ne!(second, first);
        content[9] = 3;
        assert_ne!(of(&content), second);
    }
}
