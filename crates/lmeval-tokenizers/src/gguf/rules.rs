//! How texts are cut into words before their bytes are put together, by the names that GGUF files have for it.

use tokenizers::normalizers::{NFC, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// One way to cut; what one leaves together the next may cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Around what an expression finds.
    Around(&'static str),
    /// Around digits: each, or groups of them.
    Digits { each: bool },
    /// Around groups of punctuation.
    Punctuation,
    /// Into words with the blank before them.
    Words,
}

/// The rules of a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    names: &'static [&'static str],
    cuts: &'static [Cut],
    /// Whether a word that is a token is that token, whatever its bytes would be put together to.
    pub(super) whole_words: bool,
    /// Whether texts begin with the token for that, where the file does not say so.
    pub(super) begins: bool,
    /// Whether characters are composed first.
    composes: bool,
}

/// Words of letters with what stands before them, groups of up to three digits, and punctuation with the ends of lines
/// behind it.
const GPT4: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with single digits.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+";
const DEEPSEEK_MARKS: &str =
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+";
const DEEPSEEK_HAN: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";

const PLAIN: Rules =
    Rules { names: &[], cuts: &[Cut::Words], whole_words: false, begins: false, composes: false };

/// The rules there are. Tokens were compared with those of the original tokenizers, but for `phi-2` and `dbrx`, which have the rules
/// of others.
const RULES: &[Rules] = &[
    Rules { names: &["gpt-2", "phi-2"], ..PLAIN },
    // GPT-NeoX has the vocabulary of these.
    Rules { names: &["mpt", "olmo"], composes: true, ..PLAIN },
    Rules {
        names: &["llama-bpe", "llama3", "llama-v3"],
        cuts: &[Cut::Around(GPT4)],
        whole_words: true,
        begins: true,
        ..PLAIN
    },
    Rules { names: &["dbrx"], cuts: &[Cut::Around(GPT4)], ..PLAIN },
    Rules { names: &["qwen2"], cuts: &[Cut::Around(QWEN2)], composes: true, ..PLAIN },
    Rules {
        names: &["smollm", "starcoder", "refact"],
        cuts: &[Cut::Digits { each: true }, Cut::Words],
        ..PLAIN
    },
    Rules {
        names: &["falcon"],
        cuts: &[Cut::Punctuation, Cut::Words, Cut::Digits { each: false }, Cut::Around("[0-9][0-9][0-9]")],
        ..PLAIN
    },
    Rules {
        names: &["deepseek-llm"],
        cuts: &[
            Cut::Around("[\r\n]"),
            Cut::Around(DEEPSEEK_LETTERS),
            Cut::Around(DEEPSEEK_MARKS),
            Cut::Around(r"\s+$"),
            Cut::Around(DEEPSEEK_HAN),
            Cut::Digits { each: true },
        ],
        ..PLAIN
    },
    Rules {
        names: &["deepseek-coder"],
        cuts: &[
            Cut::Around("[\r\n]"),
            Cut::Around(r"\s?\p{L}+"),
            Cut::Around(r"\s?\p{P}+"),
            Cut::Around(DEEPSEEK_HAN),
            Cut::Digits { each: true },
        ],
        ..PLAIN
    },
];

impl Rules {
    /// The rules of a name. Older files have none, or `default`; of some architectures all models have the same rules.
    pub(super) fn find(name: Option<&str>, architecture: &str) -> Result<&'static Self, String> {
        let name = match (name, architecture) {
            (Some(name), _) if name != "default" => name,
            (_, "gpt2" | "phi2") => "gpt-2",
            (_, "gptneox") => "olmo",
            (_, "qwen2" | "qwen2moe" | "qwen3" | "qwen3moe") => "qwen2",
            _ => {
                return Err("it does not say how texts are cut into words (`tokenizer.ggml.pre`), \
                            as files of older converters"
                    .into());
            }
        };
        RULES.iter().find(|rules| rules.names.contains(&name)).ok_or_else(|| {
            let known: Vec<&str> = RULES.iter().flat_map(|rules| rules.names).copied().collect();
            format!(
                "the rules `{name}` for cutting texts into words (`tokenizer.ggml.pre`) are not known here, but `{}`",
                known.join("`, `")
            )
        })
    }

    pub(super) fn pre_tokenizer(&self) -> Result<PreTokenizerWrapper, String> {
        let mut cuts: Vec<PreTokenizerWrapper> = Vec::new();
        let mut has_bytes = false;
        for cut in self.cuts {
            cuts.push(match cut {
                Cut::Around(expression) => {
                    let pattern = SplitPattern::Regex((*expression).to_owned());
                    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
                    split.map_err(|error| error.to_string())?.into()
                }
                Cut::Digits { each } => Digits::new(*each).into(),
                Cut::Punctuation => Punctuation::new(SplitDelimiterBehavior::Contiguous).into(),
                Cut::Words => {
                    has_bytes = true;
                    ByteLevel::new(false, true, true).into()
                }
            });
        }
        if !has_bytes {
            cuts.push(ByteLevel::new(false, true, false).into());
        }
        Ok(Sequence::new(cuts).into())
    }

    pub(super) fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.composes.then(|| NFC.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_or_named() {
        for rules in RULES {
            rules.pre_tokenizer().unwrap();
            for name in rules.names {
                assert_eq!(Rules::find(Some(name), "llama").unwrap().names, rules.names);
            }
        }
        assert_eq!(Rules::find(None, "gpt2").unwrap().names[0], "gpt-2");
        assert!(Rules::find(None, "gptneox").unwrap().composes);
        assert_eq!(Rules::find(Some("default"), "qwen2").unwrap().names[0], "qwen2");
        assert!(Rules::find(None, "llama").unwrap_err().contains("`tokenizer.ggml.pre`"));
        let error = Rules::find(Some("whales"), "gpt2").unwrap_err();
        assert!(error.contains("`whales`") && error.contains("`llama-bpe`"), "{error}");
    }
}
