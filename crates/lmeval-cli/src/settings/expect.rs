//! The settings of a file of expectations as a layer below all others.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_claims::expect::Expectations;
use lmeval_core::{Diagnostic, nearest};
use lmeval_pycompat::{Dict, Value, repr};

use super::layer::Layer as _;
use super::options::Options;

/// Settings that belong to the model that a file names.
const OF_MODEL: [&str; 3] = ["model", "model_args", "batch_size"];

/// Fills settings that are not given from the file.
pub(super) fn below(options: Options) -> Result<(Options, Option<Arc<Expectations>>)> {
    let Some(path) = options.expect.clone() else { return Ok((options, None)) };
    let expectations = Expectations::read(&path)?;
    let options = over(options, &expectations.settings, &path.display().to_string())?;
    Ok((options, Some(Arc::new(expectations))))
}

/// Fills settings that are not given. Arguments of a model are those of the model of the same layer; without a model, given ones are
/// added to it.
pub(crate) fn over(mut options: Options, settings: &Dict, of: &str) -> Result<Options> {
    let mut settings = settings.clone();
    if options.model.is_some() {
        for name in OF_MODEL {
            settings.remove_str(name);
        }
    } else if let (Some(given), Some(lower)) =
        (options.dicts.get("model_args"), settings.get_str("model_args").and_then(Value::as_dict))
    {
        let mut all = lower.clone();
        all.update(&given.dict("model_args")?.dict);
        options.dicts.set("model_args", Value::from(all));
    }
    let known = Options::names("");
    for key in settings.keys() {
        let name = repr::str(key);
        if !known.contains(&name.as_str()) {
            let diagnostic = Diagnostic::new(format!("`{of}`: `{name}` is not a setting of a run"));
            bail!(diagnostic.did_you_mean(&nearest(&name, known.iter().copied())));
        }
    }
    let layer = Options::read("", &settings).or_else(|(name, wrong)| {
        bail!("`{of}`: {}", wrong.message(name, settings.get_str(name).unwrap_or(&Value::None)))
    })?;
    Ok(options.combine(layer))
}
