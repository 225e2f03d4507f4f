//! The summary line above the results table.

use lmeval_core::secrets::mask_secrets;
use lmeval_pycompat::{Value, repr};

/// The contents of the summary line.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The name of the backend.
    pub model: String,
    /// The arguments passed to the backend.
    pub model_args: Value,
    /// Generation settings that override the tasks.
    pub gen_kwargs: Value,
    /// The value of `--limit`.
    pub limit: Value,
    /// The number of few-shot examples that overrides the tasks.
    pub num_fewshot: Value,
    /// The requested batch size.
    pub batch_size: Value,
    /// The batch sizes found, if the size is automatic.
    pub batch_sizes: Vec<i64>,
}

impl Summary {
    /// The line, without a newline.
    ///
    /// ```
    /// use lmeval_pycompat::{Dict, Value};
    /// use lmeval_report::Summary;
    ///
    /// let summary = Summary {
    ///     model: "dummy".into(),
    ///     model_args: Value::dict([("pretrained", Value::str("x"))]),
    ///     gen_kwargs: Value::from(Dict::new()),
    ///     limit: Value::Float(2.0),
    ///     batch_size: Value::Int(1),
    ///     ..Summary::default()
    /// };
    /// assert_eq!(
    ///     summary.line(),
    ///     "dummy ({'pretrained': 'x'}), gen_kwargs: ({}), limit: 2.0, num_fewshot: None, batch_size: 1"
    /// );
    /// ```
    pub fn line(&self) -> String {
        let mut model_args = mask_secrets(&self.model_args);
        if let Value::Dict(arguments) = &model_args {
            let mut arguments = arguments.as_ref().clone();
            arguments.remove_str("trust_remote_code");
            model_args = Value::from(arguments);
        }
        let mut line = format!(
            "{} ({}), gen_kwargs: ({}), limit: {}, num_fewshot: {}, batch_size: {}",
            self.model,
            repr::str(&model_args),
            repr::str(&mask_secrets(&self.gen_kwargs)),
            repr::str(&self.limit),
            repr::str(&self.num_fewshot),
            repr::str(&self.batch_size),
        );
        if !self.batch_sizes.is_empty() {
            let sizes: Vec<String> = self.batch_sizes.iter().map(i64::to_string).collect();
            line = format!("{line} ({})", sizes.join(","));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_secrets_and_remote_code() {
        let arguments = [
            ("model", Value::str("m")),
            ("trust_remote_code", Value::Bool(true)),
            ("api_key", Value::str("sk-1")),
        ];
        let summary = Summary {
            model: "openai-chat-completions".into(),
            model_args: Value::dict(arguments),
            batch_size: Value::str("auto"),
            batch_sizes: vec![64, 32],
            ..Summary::default()
        };
        assert_eq!(
            summary.line(),
            "openai-chat-completions ({'model': 'm', 'api_key': '***'}), gen_kwargs: (None), limit: None, \
             num_fewshot: None, batch_size: auto (64,32)"
        );
    }
}
