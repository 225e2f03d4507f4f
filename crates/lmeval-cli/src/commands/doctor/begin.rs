//! How many BOS tokens prompts begin with.

use lmeval_pycompat::{Dict, Value};
use lmeval_scoring::results::SampleRecord;

use super::traps::prompt;
use crate::tokenizer::LazyTokenizer;

/// The rule by which a model gets its BOS tokens.
pub(super) struct Begins {
    tokenizer: LazyTokenizer,
    /// Whether prompts are sent as tokens, so that nothing is added to them later.
    is_tokenized: bool,
    /// Whether a prompt that begins with a BOS token gets no second one.
    avoids_second: bool,
    /// Whether one is added, by `add_bos_token`; `None` leaves it to the tokenizer.
    adds: Option<bool>,
}

impl Begins {
    /// The rule of a backend with arguments.
    pub(super) fn of_model(name: &str, args: &Dict) -> Self {
        let flag = |name: &str| args.get_str(name).map(Value::is_truthy);
        let is_native = matches!(name, "hf" | "hf-auto" | "huggingface");
        Self {
            tokenizer: LazyTokenizer::of_model(args),
            is_tokenized: is_native || flag("tokenized_requests").unwrap_or(true),
            avoids_second: is_native || matches!(name, "vllm" | "sglang"),
            adds: if is_native {
                flag("add_bos_token")
            } else {
                Some(flag("add_bos_token").unwrap_or(false))
            },
        }
    }

    /// The BOS tokens at the beginning of a record's prompt; `None` if they cannot be known here.
    /// `adds` overrides the rule.
    pub(super) fn of(&self, record: &SampleRecord, adds: Option<bool>) -> Option<usize> {
        let prompt = prompt(record)?;
        let tokenizer = self.tokenizer.get().filter(|_| self.is_tokenized)?;
        let begin = tokenizer.special_token("bos_token")?;
        let id = begin.id?;
        let has_own = prompt.starts_with(begin.text);
        let adds = match adds.or(self.adds) {
            Some(adds) => adds,
            None => tokenizer.encode("", true).ok()?.first() == Some(&id),
        };
        let count = tokenizer.encode(&prompt, false).ok()?.iter().take_while(|token| **token == id).count();
        Some(count + usize::from(adds && !(has_own && self.avoids_second)))
    }
}
