//! `--model hf`: the native engine, or torch for what it cannot run.

use std::sync::Arc;

use anyhow::{Result, bail};
use lmeval_core::{Diagnose as _, Diagnostic, Model, ModelError, ModelErrorKind};
use lmeval_host::{PythonModelSettings, PythonOptions, RegisteredModels};
use lmeval_pycompat::{Value, repr};

use crate::printer::Notes;
use crate::settings::RunSettings;

/// The model argument that selects what computes.
pub(crate) const ENGINE: &str = "engine";

/// The names of the model.
const NAMES: [&str; 3] = ["hf", "hf-auto", "huggingface"];

/// What computes a model of `transformers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The native engine, or torch where it cannot run the model.
    Auto,
    Native,
    Torch,
}

impl Engine {
    /// Reads the argument `engine` of a model; `None` for models other than `hf`.
    pub(crate) fn of(settings: &RunSettings) -> Result<Option<Self>> {
        if !NAMES.contains(&settings.model.name.as_str()) {
            return Ok(None);
        }
        match settings.model.args.get_str(ENGINE) {
            None | Some(Value::None) => Ok(Some(Self::Auto)),
            Some(given) => match repr::str(given).as_str() {
                "auto" => Ok(Some(Self::Auto)),
                "native" => Ok(Some(Self::Native)),
                "torch" => Ok(Some(Self::Torch)),
                other => bail!(
                    Diagnostic::new(format!("The model argument `engine` cannot be `{other}`"))
                        .hint("It is `auto`, `native` or `torch`")
                ),
            },
        }
    }

    /// Creates the model.
    pub(crate) fn create(
        self,
        native: impl FnOnce() -> Result<Arc<dyn Model>, ModelError>,
        settings: &PythonModelSettings,
        options: &PythonOptions,
        notes: &Notes,
    ) -> Result<Arc<dyn Model>> {
        if self == Self::Torch {
            return Ok(torch(settings, options, notes, "as `engine=torch` asks")?);
        }
        let refused = match native() {
            Ok(model) => return Ok(model),
            Err(error) if self == Self::Auto && error.kind() == ModelErrorKind::Unsupported => error,
            Err(error) => return Err(error.into()),
        };
        torch(settings, options, notes, &refused.to_string()).map_err(|error| {
            let both =
                ModelError::new(error.kind(), format!("{refused}. Torch cannot run it either: {error}"));
            let both = error.hints().into_iter().fold(both, ModelError::hint);
            let both = match settings.args.get_str("pretrained") {
                Some(name) => both.hint(format!(
                    "If vLLM is installed: `--model vllm --model_args pretrained={}`",
                    repr::str(name)
                )),
                None => both,
            };
            match error.traceback() {
                Some(traceback) => both.with_traceback(traceback).into(),
                None => both.into(),
            }
        })
    }
}

/// Models of the package's own classes that always run on torch.
pub(crate) const WITH_PROCESSORS: [&str; 2] = ["hf-multimodal", "hf-audiolm-qwen"];

/// A vision or audio model of `transformers` in a Python process.
pub(crate) fn with_processor(
    name: &str,
    settings: &PythonModelSettings,
    options: &PythonOptions,
    notes: &Notes,
) -> Result<Arc<dyn Model>> {
    let process = RegisteredModels::start(options)?;
    let python = options.interpreter().map_or_else(|| "Python".to_owned(), |path| path.display().to_string());
    notes.info(&format!("Using torch of `{python}`: the native engine takes no images and sounds"));
    Ok(process.create(name, settings)?)
}

/// The package's `HFLM` in a Python process.
fn torch(
    settings: &PythonModelSettings,
    options: &PythonOptions,
    notes: &Notes,
    reason: &str,
) -> Result<Arc<dyn Model>, ModelError> {
    let process = RegisteredModels::start(options)?;
    let mut settings = settings.clone();
    settings.args.insert(ENGINE, "torch");
    let python = options.interpreter().map_or_else(|| "Python".to_owned(), |path| path.display().to_string());
    // Loading may take minutes.
    notes.info(&format!("Using torch of `{python}`: {reason}"));
    Ok(process.create("hf", &settings)?)
}
