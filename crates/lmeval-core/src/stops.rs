//! Stop strings of generation requests.

use lmeval_pycompat::{Value, repr};

use crate::model_error::{ModelError, ModelErrorKind};

/// The list of stop strings: `until` as a string or a list, then the end-of-text string unless it is already
/// included.
pub fn stops(until: Option<&Value>, end_of_text: Option<&str>) -> Result<Vec<Value>, ModelError> {
    let mut stops = match until {
        None | Some(Value::None) => Vec::new(),
        Some(text @ Value::Str(_)) => vec![text.clone()],
        Some(Value::List(list)) => list.to_vec(),
        Some(other) => {
            let message =
                format!("`until` must be a string or a list of strings, not `{}`", repr::repr(other));
            return Err(ModelError::new(ModelErrorKind::Request, message)
                .hint("Set `until` in the task's `generation_kwargs` or in `--gen_kwargs`"));
        }
    };
    if let Some(end) = end_of_text
        && !stops.iter().any(|stop| stop.as_str() == Some(end))
    {
        stops.push(Value::str(end));
    }
    Ok(stops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_until() {
        let texts = |until: Option<Value>, end: Option<&str>| -> Vec<String> {
            stops(until.as_ref(), end).unwrap().iter().map(repr::str).collect()
        };
        assert_eq!(texts(Some(Value::str("x")), Some("<e>")), ["x", "<e>"]);
        assert_eq!(texts(Some(Value::list([Value::str("<e>"), Value::str("a")])), Some("<e>")), ["<e>", "a"]);
        assert_eq!(texts(Some(Value::None), Some("<e>")), ["<e>"]);
        assert!(texts(None, None).is_empty());
        let error = stops(Some(&Value::Int(3)), None).unwrap_err();
        assert_eq!(error.to_string(), "`until` must be a string or a list of strings, not `3`");
    }
}
