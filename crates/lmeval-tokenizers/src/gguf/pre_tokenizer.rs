//! Byte-level pre-tokenizers, by their names in GGUF files (`tokenizer.ggml.pre`).

use tokenizers::normalizers::{NFC, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// One splitting step. Each step splits the pieces of the one before.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Isolates the matches of a regular expression.
    Isolate(&'static str),
    /// Isolates digits, one by one or in runs.
    Digits { each: bool },
    /// Isolates runs of punctuation.
    Punctuation,
    /// Splits into words with their leading space, as in GPT-2.
    Words,
}

/// A pre-tokenizer and all of its names.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreTokenizerSpec {
    names: &'static [&'static str],
    steps: &'static [Step],
    /// Use a word that is itself a token without applying merges.
    pub(super) ignore_merges: bool,
    /// Begin sequences with `bos_token` if the file does not say.
    pub(super) add_bos: bool,
    /// Normalise to NFC first.
    nfc: bool,
}

/// Words with one leading non-letter, runs of up to three digits, and punctuation with trailing newlines.
const GPT4: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with single digits.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+";
const DEEPSEEK_MARKS: &str =
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+";
const DEEPSEEK_HAN: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";

const PLAIN: PreTokenizerSpec =
    PreTokenizerSpec { names: &[], steps: &[Step::Words], ignore_merges: false, add_bos: false, nfc: false };

/// All pre-tokenizers. Their tokens were compared with the original tokenizers, except for `phi-2` and `dbrx`, which share the
/// steps of others.
const SPECS: &[PreTokenizerSpec] = &[
    PreTokenizerSpec { names: &["gpt-2", "phi-2"], ..PLAIN },
    // These share the vocabulary of GPT-NeoX.
    PreTokenizerSpec { names: &["mpt", "olmo"], nfc: true, ..PLAIN },
    PreTokenizerSpec {
        names: &["llama-bpe", "llama3", "llama-v3"],
        steps: &[Step::Isolate(GPT4)],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    PreTokenizerSpec { names: &["dbrx"], steps: &[Step::Isolate(GPT4)], ..PLAIN },
    PreTokenizerSpec { names: &["qwen2"], steps: &[Step::Isolate(QWEN2)], nfc: true, ..PLAIN },
    PreTokenizerSpec {
        names: &["smollm", "starcoder", "refact"],
        steps: &[Step::Digits { each: true }, Step::Words],
        ..PLAIN
    },
    PreTokenizerSpec {
        names: &["falcon"],
        steps: &[
            Step::Punctuation,
            Step::Words,
            Step::Digits { each: false },
            Step::Isolate("[0-9][0-9][0-9]"),
        ],
        ..PLAIN
    },
    PreTokenizerSpec {
        names: &["deepseek-llm"],
        steps: &[
            Step::Isolate("[\r\n]"),
            Step::Isolate(DEEPSEEK_LETTERS),
            Step::Isolate(DEEPSEEK_MARKS),
            Step::Isolate(r"\s+$"),
            Step::Isolate(DEEPSEEK_HAN),
            Step::Digits { each: true },
        ],
        ..PLAIN
    },
    PreTokenizerSpec {
        names: &["deepseek-coder"],
        steps: &[
            Step::Isolate("[\r\n]"),
            Step::Isolate(r"\s?\p{L}+"),
            Step::Isolate(r"\s?\p{P}+"),
            Step::Isolate(DEEPSEEK_HAN),
            Step::Digits { each: true },
        ],
        ..PLAIN
    },
];

impl PreTokenizerSpec {
    /// Finds a pre-tokenizer by name. Older files have none, or `default`: some architectures then imply one.
    pub(super) fn find(name: Option<&str>, architecture: &str) -> Result<&'static Self, String> {
        let name = match (name, architecture) {
            (Some(name), _) if name != "default" => name,
            (_, "gpt2" | "phi2") => "gpt-2",
            (_, "gptneox") => "olmo",
            (_, "qwen2" | "qwen2moe" | "qwen3" | "qwen3moe") => "qwen2",
            _ => {
                return Err(
                    "it names no pre-tokenizer (`tokenizer.ggml.pre`); the converter was too old".into()
                );
            }
        };
        SPECS.iter().find(|spec| spec.names.contains(&name)).ok_or_else(|| {
            let known: Vec<&str> = SPECS.iter().flat_map(|spec| spec.names).copied().collect();
            format!(
                "its pre-tokenizer `{name}` (`tokenizer.ggml.pre`) is not supported; supported are `{}`",
                known.join("`, `")
            )
        })
    }

    pub(super) fn pre_tokenizer(&self) -> Result<PreTokenizerWrapper, String> {
        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        let mut has_bytes = false;
        for step in self.steps {
            steps.push(match step {
                Step::Isolate(expression) => {
                    let pattern = SplitPattern::Regex((*expression).to_owned());
                    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
                    split.map_err(|error| error.to_string())?.into()
                }
                Step::Digits { each } => Digits::new(*each).into(),
                Step::Punctuation => Punctuation::new(SplitDelimiterBehavior::Contiguous).into(),
                Step::Words => {
                    has_bytes = true;
                    ByteLevel::new(false, true, true).into()
                }
            });
        }
        if !has_bytes {
            steps.push(ByteLevel::new(false, true, false).into());
        }
        Ok(Sequence::new(steps).into())
    }

    pub(super) fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.nfc.then(|| NFC.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_pre_tokenizers_or_lists_them() {
        for spec in SPECS {
            spec.pre_tokenizer().unwrap();
            for name in spec.names {
                assert_eq!(PreTokenizerSpec::find(Some(name), "llama").unwrap().names, spec.names);
            }
        }
        assert_eq!(PreTokenizerSpec::find(None, "gpt2").unwrap().names[0], "gpt-2");
        assert!(PreTokenizerSpec::find(None, "gptneox").unwrap().nfc);
        assert_eq!(PreTokenizerSpec::find(Some("default"), "qwen2").unwrap().names[0], "qwen2");
        assert!(PreTokenizerSpec::find(None, "llama").unwrap_err().contains("`tokenizer.ggml.pre`"));
        let error = PreTokenizerSpec::find(Some("whales"), "gpt2").unwrap_err();
        assert!(error.contains("`whales`") && error.contains("`llama-bpe`"), "{error}");
    }
}
