//! Selects a model's tokenizer.

use std::sync::Arc;
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind, ModelSettings};
use lmeval_hub::{Kind, Settings};
use lmeval_tokenizers::{HuggingFaceTokenizer, TiktokenTokenizer, locate};

use super::encoder::{Encoder, Tokenizer};
use super::remote::{RemoteSettings, server_query, server_root};
use super::wait;
use crate::http::{Client, public_url};

/// The tokenizer selected by the model arguments, of kind `default` unless they say otherwise; `None` for no
/// tokenizer.
pub(crate) fn choose(
    settings: &ModelSettings,
    model: Option<&str>,
    client: &Arc<Client>,
    default: &str,
) -> Result<Option<Encoder>, ModelError> {
    let given = settings.get_or_none("tokenizer_backend");
    let backend = match given {
        None => default.to_owned(),
        Some(value) => lmeval_pycompat::repr::str(value),
    };
    let name = settings.text("tokenizer");
    let special = settings.flag("add_bos_token", false)?;
    let prefix = match settings.integer("custom_prefix_token_id")? {
        None => None,
        Some(id) => Some(u32::try_from(id).map_err(|_| {
            let message =
                format!("The model argument `custom_prefix_token_id` must be a token id, not `{id}`");
            ModelError::new(ModelErrorKind::Configuration, message)
        })?),
    };
    let (tokenizer, name) = match backend.as_str() {
        "none" | "None" => return Ok(None),
        "huggingface" | "tiktoken" | "remote" | "auto" if name.is_some() => hugging_face(settings, name)?,
        "huggingface" => hugging_face(settings, model.map(str::to_owned))?,
        "tiktoken" => {
            let model = model.ok_or_else(|| needs_name("The OpenAI tokenizer"))?;
            let tokenizer = TiktokenTokenizer::for_model(model)?;
            let name = tokenizer.name().to_owned();
            (Tokenizer::Tiktoken(tokenizer), name)
        }
        "remote" => remote(remote_settings(settings, client)?)?,
        "auto" => {
            let server = remote_settings(settings, client)?;
            if wait(async { Ok(server.is_offered().await) })? {
                remote(server)?
            } else {
                hugging_face(settings, model.map(str::to_owned)).map_err(|error| {
                    if !wait(async { Ok(server.is_down().await) }).unwrap_or(false) {
                        return error;
                    }
                    let root = public_url(&server.root);
                    error.hint(format!(
                        "`{root}` cannot be reached, so its tokenizer was not considered: start the server first"
                    ))
                })?
            }
        }
        other => {
            let message = format!("Unknown tokenizer backend `{other}`");
            return Err(ModelError::new(ModelErrorKind::Configuration, message).hint(
                "Use `huggingface`, `tiktoken`, `remote` or `none`, or `auto` for `local-completions`",
            ));
        }
    };
    Ok(Some(Encoder::new(tokenizer, name, special, prefix)))
}

/// Whether the server must be asked for its tokenizer, or for whether it has one.
pub(crate) fn is_of_server(settings: &ModelSettings, default: &str) -> bool {
    let given = settings.get_or_none("tokenizer_backend").map(lmeval_pycompat::repr::str);
    let backend = given.as_deref().unwrap_or(default);
    settings.text("tokenizer").is_none() && matches!(backend, "remote" | "auto")
}

fn hugging_face(settings: &ModelSettings, name: Option<String>) -> Result<(Tokenizer, String), ModelError> {
    let name = name.ok_or_else(|| needs_name("The tokenizer"))?;
    let revision = settings.text("revision").unwrap_or_else(|| "main".into());
    let hub = Settings::from_environment(Kind::Model).reporting_to(settings.downloads.as_ref());
    let tokenizer = HuggingFaceTokenizer::from_folder(&locate(&hub, &name, &revision)?)?;
    Ok((Tokenizer::HuggingFace(Box::new(tokenizer)), name))
}

fn remote(settings: RemoteSettings) -> Result<(Tokenizer, String), ModelError> {
    let tokenizer = wait(settings.connect())?;
    let name = tokenizer.name();
    Ok((Tokenizer::Remote(Box::new(tokenizer)), name))
}

fn needs_name(what: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Configuration,
        format!("{what} has no name: neither `tokenizer` nor `model` is given"),
    )
    .hint("Set `tokenizer=<name on the hub or folder>` to the model's tokenizer")
    .hint("For generation tasks, `tokenizer_backend=none` sends prompts as strings")
}

fn remote_settings(settings: &ModelSettings, client: &Arc<Client>) -> Result<RemoteSettings, ModelError> {
    let url = client.first_url();
    Ok(RemoteSettings {
        root: server_root(&url),
        query: server_query(&url).into(),
        pool: client.is_pool().then(|| Arc::clone(client)),
        timeout: Duration::from_secs_f64(settings.number("timeout")?.unwrap_or(300.0).clamp(1.0, 1e6)),
        verify_certificate: settings.flag("verify_certificate", true)?,
        certificate: settings.text("ca_cert_path").map(Into::into),
        token: settings.text("auth_token").map(Into::into),
    })
}
