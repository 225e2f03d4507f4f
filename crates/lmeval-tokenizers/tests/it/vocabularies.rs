//! Tokenizers from SentencePiece models and `tekken.json`, as `transformers` builds them. `data/vocabularies/make.py` makes the
//! models and records its tokens.

use std::path::{Path, PathBuf};

use lmeval_core::{Diagnose as _, ModelError, ModelErrorKind};
use lmeval_testkit::mutate;
use lmeval_tokenizers::HuggingFaceTokenizer;
use serde_json::{Value, json};

pub(crate) fn vocabulary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vocabularies").join(name)
}

/// A folder with a tokenizer in one file.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(file: &str, content: &[u8]) -> Self {
        Self(tempfile::tempdir().unwrap()).write(file, content)
    }

    fn write(self, file: &str, content: &[u8]) -> Self {
        fs_err::write(self.0.path().join(file), content).unwrap();
        self
    }

    fn class(self, name: &str) -> Self {
        self.write("tokenizer_config.json", json!({"tokenizer_class": name}).to_string().as_bytes())
    }

    fn read(&self) -> Result<HuggingFaceTokenizer, ModelError> {
        HuggingFaceTokenizer::from_folder(self.0.path())
    }

    /// The tokens without special ones.
    fn encode(&self, text: &str) -> Vec<u32> {
        self.read().unwrap().encode(text, false).unwrap()
    }

    /// The error, which names the file and what to try.
    fn problem(&self, file: &str, kind: ModelErrorKind) -> String {
        let error = self.read().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&format!("/{file}`")), "{error}");
        assert!(!error.hints().is_empty(), "{error}");
        error.to_string()
    }
}

#[test]
fn encodes_and_decodes_like_transformers() {
    let recorded: Value = serde_json::from_slice(&fs_err::read(vocabulary("cases.json")).unwrap()).unwrap();
    let texts: Vec<&str> =
        recorded["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let cases = recorded["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 22);
    for case in cases {
        let (name, file) = (case["vocabulary"].as_str().unwrap(), case["file"].as_str().unwrap());
        let folder = Folder::new(file, &fs_err::read(vocabulary(name)).unwrap())
            .write("config.json", json!({"model_type": case["model_type"]}).to_string().as_bytes())
            .write("tokenizer_config.json", case["fields"].to_string().as_bytes());
        let tokenizer = folder.read().unwrap();
        for (text, line) in texts.iter().zip(case["lines"].as_array().unwrap()) {
            if differs(case, text) {
                continue;
            }
            let tokens = tokenizer.encode(text, true).unwrap();
            let found = json!([
                tokens,
                tokenizer.encode(text, false).unwrap(),
                tokenizer.decode(&tokens).unwrap(),
                tokenizer.decode_plain(&tokens).unwrap(),
            ]);
            assert_eq!(&found, line, "{text:?} by {name} of {} with {}", case["model_type"], case["fields"]);
        }
    }
}

/// Documented differences: `mistral-common` does not recognise special tokens in text, and renamed pieces keep an id, for which
/// models have no embedding.
fn differs(case: &Value, text: &str) -> bool {
    let has = |tokens: &[&str]| tokens.iter().any(|token| text.contains(token));
    match case["model_type"].as_str() {
        _ if case["file"] == "tekken.json" => has(&["<s>", "[INST]"]),
        Some("internlm2") => has(&["<user>"]),
        _ => false,
    }
}

/// The wire format of Protocol Buffers.
fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn message(field: u64, content: &[u8]) -> Vec<u8> {
    [number(field << 3 | 2), number(content.len() as u64), content.to_vec()].concat()
}

fn setting(field: u64, value: u64) -> Vec<u8> {
    [number(field << 3), number(value)].concat()
}

const NORMAL: u64 = 1;
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const BYTE: u64 = 6;

/// A SentencePiece model from its pieces, settings of training and normalisation.
fn model(pieces: &[(&str, f32, u64)], training: &[Vec<u8>], normalizer: &[u8]) -> Vec<u8> {
    let piece = |(text, score, kind): &(&str, f32, u64)| {
        let score = [&[2 << 3 | 5][..], &score.to_le_bytes()].concat();
        message(1, &[message(1, text.as_bytes()), score, setting(3, *kind)].concat())
    };
    let pieces: Vec<Vec<u8>> = pieces.iter().map(piece).collect();
    [pieces.concat(), message(2, &training.concat()), message(3, normalizer)].concat()
}

const PIECES: [(&str, f32, u64); 8] = [
    ("<unk>", 0.0, UNKNOWN),
    ("<s>", 0.0, CONTROL),
    ("</s>", 0.0, CONTROL),
    ("ab", -1.0, NORMAL),
    ("a", -2.0, NORMAL),
    ("b", -3.0, NORMAL),
    ("▁", -4.0, NORMAL),
    ("c", -9.0, NORMAL),
];

fn unigram() -> Vec<Vec<u8>> {
    vec![setting(3, 1)]
}

fn merges() -> Vec<Vec<u8>> {
    vec![setting(3, 2)]
}

#[test]
fn splits_by_likelihood_or_by_merges() {
    let read = |training: &[Vec<u8>]| Folder::new("tokenizer.model", &model(&PIECES, training, &[]));
    assert_eq!(read(&merges()).encode("abc bb"), [3, 7, 6, 5, 5]);
    assert_eq!(read(&unigram()).encode("abc bb"), [3, 7, 6, 5, 5]);
    // Letters are likelier than the pair.
    let mut pieces = PIECES;
    pieces[3].1 = -20.0;
    let unlikely = |training: &[Vec<u8>]| Folder::new("tokenizer.model", &model(&pieces, training, &[]));
    assert_eq!(unlikely(&merges()).encode("ab"), [3]);
    assert_eq!(unlikely(&unigram()).encode("ab"), [4, 5]);
    // A model whose settings are missing is a unigram model.
    assert_eq!(unlikely(&[]).encode("ab"), [4, 5]);
    let tokenizer = read(&merges()).read().unwrap();
    assert_eq!(tokenizer.special_token("eos_token").unwrap().id, Some(2));
    assert_eq!(tokenizer.decode(&[1, 3, 6, 7, 2]).unwrap(), "<s>ab c</s>");
    assert_eq!(tokenizer.decode_plain(&[1, 3, 6, 7, 2]).unwrap(), "ab c");
}

#[test]
fn unknown_characters_become_bytes_or_the_unknown_piece() {
    let names: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut pieces = PIECES.to_vec();
    pieces.extend(names.iter().map(|name| (name.as_str(), 0.0, BYTE)));
    for training in [unigram(), merges()] {
        let plain = Folder::new("tokenizer.model", &model(&PIECES, &training, &[]));
        assert_eq!(plain.encode("aéüb"), [4, 0, 5]);
        let fallback = [training, vec![setting(35, 1)]].concat();
        let bytes = Folder::new("tokenizer.model", &model(&pieces, &fallback, &[]));
        assert_eq!(bytes.encode("aéb"), [4, 8 + 0xc3, 8 + 0xa9, 5]);
        assert_eq!(bytes.read().unwrap().decode(&[4, 8 + 0xc3, 8 + 0xa9, 5]).unwrap(), "aéb");
    }
}

/// Models of some families have their special pieces at other ids.
#[test]
fn reads_the_ids_of_special_pieces() {
    let mut pieces = PIECES;
    pieces[0] = ("[PAD]", 0.0, CONTROL);
    pieces[2] = ("<what>", 0.0, UNKNOWN);
    let training =
        [setting(3, 1), setting(40, 2), setting(41, -1_i32 as u64), setting(42, 1), message(45, b"<what>")];
    let training = [&training[..], &[message(47, b"<s>")]].concat();
    let folder = Folder::new("tokenizer.model", &model(&pieces, &training, &[]));
    let tokenizer = folder.read().unwrap();
    let id = |name: &str| tokenizer.special_token(name).map(|token| token.id);
    assert_eq!((id("unk_token"), id("bos_token"), id("eos_token")), (Some(Some(2)), None, Some(Some(1))));
    assert_eq!(tokenizer.encode("é[PAD]", false).unwrap(), [2, 0]);
}

#[test]
fn refuses_damaged_models() {
    let whole = model(&PIECES, &unigram(), &[]);
    let broken = |content: &[u8]| {
        Folder::new("tokenizer.model", content).problem("tokenizer.model", ModelErrorKind::Configuration)
    };
    assert!(broken(&whole[..whole.len() - 20]).contains("ends in the middle of a field"));
    assert!(broken(&[]).contains("no pieces"));
    assert!(broken(b"version https://git-lfs.github.com/spec/v1\n").contains("unknown type"));
    let twice = [&PIECES[..], &[("a", 0.0, NORMAL)]].concat();
    for training in [unigram(), merges()] {
        assert!(broken(&model(&twice, &training, &[])).contains("the piece `a` twice"));
    }
    let long = "x".repeat(1025);
    let long = [&PIECES[..], &[(long.as_str(), 0.0, NORMAL)]].concat();
    assert!(broken(&model(&long, &merges(), &[])).contains("token 8 has 1025 bytes; the limit is 1024"));
    let outside = [unigram(), vec![setting(40, 99)]].concat();
    assert!(
        broken(&model(&PIECES, &outside, &[])).contains("unknown piece has the id 99, but it has 8 pieces")
    );
    let none = [unigram(), vec![setting(40, u64::MAX)]].concat();
    assert!(broken(&model(&PIECES, &none, &[])).contains("no unknown piece"));
    let fallback = [unigram(), vec![setting(35, 1)]].concat();
    assert!(broken(&model(&PIECES, &fallback, &[])).contains("piece `<0x00>` is missing"));
    let fallback = [merges(), vec![setting(35, 1)]].concat();
    assert!(broken(&model(&PIECES, &fallback, &[])).contains("piece `<0x00>` is missing"));
    let mut pieces = PIECES;
    pieces[4].1 = f32::NAN;
    assert!(broken(&model(&pieces, &unigram(), &[])).contains("the score of the piece `a` is NaN"));
}

#[test]
fn refuses_damaged_tables_of_characters() {
    // The length is larger than the table; the table has no end; and it is not a table.
    for table in [&[0xff, 0xff, 0xff, 0x7f][..], &[4, 0, 0], &[3, 0, 0, 0, 1, 2, 3]] {
        let content = model(&PIECES, &unigram(), &message(2, table));
        let folder = Folder::new("tokenizer.model", &content);
        let problem = folder.problem("tokenizer.model", ModelErrorKind::Configuration);
        assert!(problem.contains("the table of characters of its normaliser is damaged"), "{problem}");
    }
}

#[test]
fn refuses_models_that_cannot_be_read_exactly() {
    let refused = |folder: Folder, file: &str| folder.problem(file, ModelErrorKind::Unsupported);
    let file = "tokenizer.model";
    let words = model(&PIECES, &[setting(3, 3)], &[]);
    assert!(refused(Folder::new(file, &words), file).contains("neither of the kind `unigram` nor `bpe`"));
    assert!(refused(Folder::new(file, b"IQ== 0\nIg== 1\n"), file).contains("the format of tiktoken"));
    let llama = Folder::new(file, &model(&PIECES, &unigram(), &[])).class("LlamaTokenizer");
    let problem = refused(llama, file);
    assert!(problem.contains("`LlamaTokenizer` needs a model of the kind `bpe`"), "{problem}");
    let t5 = Folder::new("spiece.model", &model(&PIECES, &merges(), &[])).class("T5Tokenizer");
    let problem = refused(t5, "spiece.model");
    assert!(problem.contains("`T5Tokenizer` needs a model of the kind `unigram`"), "{problem}");
    let bytes = Folder::new(file, &model(&PIECES, &merges(), &[])).class("GPT2Tokenizer");
    let problem = refused(bytes, file);
    assert!(problem.contains("`GPT2Tokenizer` cannot be built from a SentencePiece model"), "{problem}");
}

/// The first of `tokenizer.json`, `vocab.json` with `merges.txt`, `tekken.json` and SentencePiece models.
#[test]
fn chooses_the_first_format() {
    let folder = Folder::new("tokenizer.model", &model(&PIECES, &merges(), &[]));
    let folder = folder.write("vocab.json", b"{}").class("LlamaTokenizer");
    assert_eq!(folder.encode("ab"), [6, 3]);
    let folder = folder.write("tekken.json", &fs_err::read(vocabulary("tekken.json")).unwrap());
    assert_eq!(folder.read().unwrap().vocabulary_size(), 370);
    let whole = fs_err::read(Path::new(crate::TOKENIZER).join("tokenizer.json")).unwrap();
    let size = folder.write("tokenizer.json", &whole).read().unwrap().vocabulary_size();
    assert_ne!(size, 370);
}

#[test]
fn refuses_contradicting_tekken_files() {
    let whole: Value = serde_json::from_slice(&fs_err::read(vocabulary("tekken.json")).unwrap()).unwrap();
    let problem = |change: &dyn Fn(&mut Value)| {
        let mut file = whole.clone();
        change(&mut file);
        Folder::new("tekken.json", file.to_string().as_bytes())
            .problem("tekken.json", ModelErrorKind::Configuration)
    };
    let found = problem(&|file| file["config"]["default_vocab_size"] = 10.into());
    assert!(
        found.contains("`default_vocab_size` is 10, but it has 30 special and 360 other tokens"),
        "{found}"
    );
    let found = problem(&|file| file["config"]["default_vocab_size"] = 391.into());
    assert!(found.contains("`default_vocab_size` is 391"), "{found}");
    let found = problem(&|file| file["config"]["default_num_special_tokens"] = 10.into());
    assert!(found.contains("it has 20 special tokens, but `default_num_special_tokens` is 10"), "{found}");
    let found = problem(&|file| file["config"]["default_num_special_tokens"] = u64::MAX.into());
    assert!(found.contains("the limit is"), "{found}");
    let found = problem(&|file| file["vocab"][7]["rank"] = 8.into());
    assert!(found.contains("its token 7 has the rank 8"), "{found}");
    let found = problem(&|file| file["vocab"][300]["token_bytes"] = "?".into());
    assert!(found.contains("its token 300 is not valid Base64"), "{found}");
    let found = problem(&|file| file["vocab"][300] = json!({"rank": 300, "token_bytes": "AA=="}));
    assert!(found.contains("twice"), "{found}");
    let found = problem(&|file| file["vocab"][65] = json!({"rank": 65, "token_bytes": "AAAA"}));
    assert!(found.contains("the token for the byte 65 is missing"), "{found}");
    let found = problem(&|file| file["special_tokens"][3]["rank"] = 5.into());
    assert!(found.contains("its special token 3 has the rank 5"), "{found}");
    let found = problem(&|file| file["special_tokens"][3]["token_str"] = "<s>".into());
    assert!(found.contains("the special token `<s>` twice"), "{found}");
    let found = problem(&|file| file["config"]["pattern"] = "(".into());
    assert!(found.contains("pattern"), "{found}");
    let found = problem(&|file| file["config"] = json!({}));
    assert!(found.contains("missing field `pattern`"), "{found}");
}

#[test]
fn damaged_vocabularies_do_not_panic() {
    let cases = [
        ("merges.model", "tokenizer.model", "LlamaTokenizer"),
        ("unigram.model", "spiece.model", "T5Tokenizer"),
        ("bytes.model", "tokenizer.model", "Other"),
        ("tekken.json", "tekken.json", "Other"),
    ];
    for (name, file, class) in cases {
        let folder = Folder::new(file, &[]).class(class);
        mutate(&[&fs_err::read(vocabulary(name)).unwrap()], 250, |bytes| {
            fs_err::write(folder.0.path().join(file), bytes).unwrap();
            if let Ok(tokenizer) = folder.read()
                && let Ok(tokens) = tokenizer.encode("Hello wörld\n 12 ﬁ", true)
            {
                let _ = tokenizer.decode(&tokens);
            }
        });
    }
}
