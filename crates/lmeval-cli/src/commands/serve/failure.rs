//! Converts failures into Python exceptions.

use lmeval_core::{ModelError, ModelErrorKind, secrets};
use lmeval_engine::EngineError;
use lmeval_pycompat::Value;
use lmeval_tasks::{Error, ErrorKind};

use crate::report;

/// The exception class, the message with location and hints, and the traceback of code that failed in a
/// worker.
pub(super) fn described(error: &anyhow::Error) -> Value {
    Value::dict([
        ("kind", Value::str(kind(error))),
        ("message", Value::str(secrets::mask(&text(error)))),
        (
            "traceback",
            report::traceback(error).map_or(Value::None, |traceback| Value::str(secrets::mask(traceback))),
        ),
    ])
}

/// The message and hints without styles, with a file excerpt if there is one.
fn text(error: &anyhow::Error) -> String {
    let text = anstream::adapter::strip_str(&report::rendered(error)).to_string();
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// The built-in exception class that the reference raises, or a base class of it.
fn kind(error: &anyhow::Error) -> &'static str {
    if let Some(error) = error.downcast_ref::<Error>() {
        return of_task(error);
    }
    if let Some(error) = error.downcast_ref::<ModelError>() {
        return of_model(error);
    }
    match error.downcast_ref::<EngineError>() {
        Some(EngineError::Task(error)) => of_task(error),
        Some(
            EngineError::Model(error)
            | EngineError::Unsupported { source: error, .. }
            | EngineError::Unjudged { source: error, .. }
            | EngineError::Judge { source: error, .. },
        ) => of_model(error),
        Some(EngineError::Interrupted { .. }) => "KeyboardInterrupt",
        // Everything else is about an argument or a file.
        Some(EngineError::Settings { .. }) | None if is_about_a_file(error) => "OSError",
        Some(EngineError::Settings { .. }) | None => "ValueError",
        Some(_) => "RuntimeError",
    }
}

fn is_about_a_file(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<std::io::Error>)
}

fn of_task(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Io => "OSError",
        ErrorKind::UnknownName => "KeyError",
        ErrorKind::Type => "TypeError",
        _ => "ValueError",
    }
}

fn of_model(error: &ModelError) -> &'static str {
    match error.kind() {
        ModelErrorKind::Configuration => "ValueError",
        ModelErrorKind::Missing => "OSError",
        ModelErrorKind::Unsupported => "NotImplementedError",
        _ => "RuntimeError",
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn parts(error: &anyhow::Error) -> (String, String) {
        let described = described(error);
        let part =
            |name: &str| described.as_dict().and_then(|dict| dict.get_str(name)).and_then(Value::as_str);
        (part("kind").unwrap().to_owned(), part("message").unwrap().to_owned())
    }

    #[test]
    fn maps_failures_to_exceptions() {
        let of = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
        assert_eq!(parts(&anyhow!("`limit` is odd")), of("ValueError", "`limit` is odd"));
        let unknown = Error::new(ErrorKind::UnknownName, "`x` is not known").hint("Did you mean `y`?");
        assert_eq!(parts(&unknown.into()), of("KeyError", "`x` is not known\nhint: Did you mean `y`?"));
        let model = ModelError::new(ModelErrorKind::Unreachable, "No answer").hint("Start the server");
        let text = "No answer\nhint: Start the server";
        assert_eq!(parts(&EngineError::Model(model).into()), of("RuntimeError", text));
        let missing = ModelError::new(ModelErrorKind::Missing, "No such model");
        assert_eq!(parts(&missing.into()), of("OSError", "No such model"));
        let interrupted = EngineError::Interrupted { answered: 3, journal: None };
        assert_eq!(parts(&interrupted.into()).0, "KeyboardInterrupt");
    }
}
