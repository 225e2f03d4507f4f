//! The line above the table.

use lmeval_core::secrets::mask_secrets;
use lmeval_pycompat::{Value, repr};

/// What the line above the table says.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The name of the back end.
    pub model: String,
    /// The arguments of the model.
    pub model_args: Value,
    /// The settings of generations that the run sets.
    pub gen_kwargs: Value,
    /// How many documents of each task, where not all.
    pub limit: Value,
    /// The number of examples that the run sets.
    pub num_fewshot: Value,
    /// The batch size as it was asked for.
    pub batch_size: Value,
    /// The batch sizes that were found, where the size was to be found.
    pub batch_sizes: Vec<i64>,
}

impl Summary {
    /// The line, without its end.
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
    fn secrets_and_remote_code_are_left_out() {
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
