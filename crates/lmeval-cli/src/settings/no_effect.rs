//! Settings that are accepted for compatibility and ignored.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use lmeval_pycompat::Value;

use super::layer::{InvalidValue, Setting};
use super::options::Options;

/// Warns about ignored settings.
pub(super) fn note(options: &Options, notes: &mut Vec<String>) {
    if options.cache_requests.is_some() {
        notes.push(
            "`--cache_requests` has no effect: building prompts is faster than reading them from a cache"
                .to_owned(),
        );
    }
    if let Some(level) = options.verbosity.as_ref().filter(|level| !level.0.eq_ignore_ascii_case("DEBUG")) {
        notes.push(format!("`--verbosity {}` has no effect; see `--quiet` and `--progress`", level.0));
    }
}

/// The flags set by `--cache_requests`.
const CACHE_FLAGS: [&str; 3] = ["cache_requests", "rewrite_requests_cache", "delete_requests_cache"];

/// The values of `--cache_requests`.
const CACHE_WORDS: [&str; 3] = ["true", "refresh", "delete"];

/// The value of `--cache_requests`.
#[derive(Clone, Debug)]
pub(crate) struct CacheRequests(Value);

impl CacheRequests {
    /// Parses the words of the command line.
    pub(super) fn words() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(CACHE_WORDS).map(|word| Self(Value::from(word)))
    }

    /// The three flags shown in the record.
    pub(super) fn flags(&self) -> Value {
        let word = match &self.0 {
            Value::Str(word) => word,
            Value::Dict(_) => return self.0.clone(),
            _ => "true",
        };
        let flags = [word != "delete", word == "refresh", word == "delete"];
        Value::dict(CACHE_FLAGS.into_iter().zip(flags.map(Value::Bool)))
    }
}

impl Setting for CacheRequests {
    fn read(value: &Value) -> Result<Option<Self>, InvalidValue> {
        let is_flag = |key: &Value| key.as_str().is_some_and(|key| CACHE_FLAGS.contains(&key));
        let is_known = match value {
            value if !value.is_truthy() => return Ok(None),
            Value::Bool(_) => true,
            Value::Str(word) => CACHE_WORDS.contains(&&**word),
            Value::Dict(flags) => flags.keys().all(is_flag),
            _ => false,
        };
        if is_known {
            Ok(Some(Self(value.clone())))
        } else {
            InvalidValue::expected("`true`, `refresh` or `delete`")
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}
