//! Builds API models from model arguments.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Weak};

use lmeval_core::{Model, ModelError, ModelErrorKind, ModelSettings, ModelStats};
use lmeval_media::Bounds;
use lmeval_pycompat::Value;
use secrecy::SecretString;

use super::contact::trial_body;
use super::deferred::Deferred;
use super::letters::{TOP_LOGPROBS, TopLogprobs};
use super::media::{MediaRules, Placement};
use super::model::{ApiModel, Parts};
use super::pool::Keeper;
use super::protocol::{Protocol, Rules};
use super::scoring::{Choice, Planner};
use super::stream::Streams;
use super::truncation::Side;
use crate::http::{Client, ClientSettings};
use crate::tokenizer::{self, Encoder};

/// Arguments that change answers and are not otherwise part of the model's identity.
const IDENTITY_ARGUMENTS: [&str; 11] = [
    "revision",
    "add_bos_token",
    "eos_string",
    "custom_prefix_token_id",
    "think_end_token",
    "max_images",
    "interleave",
    "image_width",
    "image_height",
    "image_max_side",
    "reasoning_model",
];

/// Arguments that have no effect, or only with some settings: they are not misspelt.
const ACCEPTED: [&str; 12] = [
    "truncate",
    "trust_remote_code",
    "use_fast_tokenizer",
    "tokenizer",
    "tokenizer_backend",
    "tokenized_requests",
    "auth_token",
    "batch_size",
    "max_batch_size",
    "device",
    "max_length",
    "max_tokens_to_sample",
];

/// Warns of arguments that no part of the model has asked for.
pub(super) fn warn_of_unknown(backend: &str, settings: &ModelSettings, stats: &ModelStats) {
    for (name, near) in settings.unknown(&ACCEPTED) {
        let near = match near.as_slice() {
            [] => String::new(),
            near => format!("; did you mean `{}`?", near.join("` or `")),
        };
        stats.warn(format!("The model argument `{name}` is unknown to `{backend}` and has no effect{near}"));
    }
}

/// How a server authenticates requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Credentials {
    /// No key: an empty one is sent.
    Nobody,
    /// A key from an environment variable, or an empty one.
    Bearer(&'static str),
    /// A key from an environment variable, which must be set.
    RequiredBearer(&'static str),
    /// Azure: a key from an environment variable, sent in both headers.
    Azure(&'static str),
    /// Anthropic: a key from an environment variable in its own header, plus the API version.
    Anthropic(&'static str),
}

impl Credentials {
    /// Client settings for `base_url` or the given default, with the authentication headers.
    pub(super) fn client_settings(
        self,
        settings: &ModelSettings,
        base_url: Option<&str>,
    ) -> Result<ClientSettings, ModelError> {
        let is_replaced = settings.get("header").is_some() && !matches!(self, Self::Anthropic(_));
        let named = settings.text("api_key_env");
        let named = named.as_deref();
        let headers = if is_replaced { Vec::new() } else { self.headers(named)? };
        let mut read = ClientSettings::from_model(settings, base_url, headers)?;
        if let Self::Anthropic(_) = self {
            read.headers = self.headers(named)?;
        }
        let (Self::Bearer(variable)
        | Self::RequiredBearer(variable)
        | Self::Azure(variable)
        | Self::Anthropic(variable)) = self
        else {
            return Ok(read);
        };
        let variable = named.unwrap_or(variable);
        Ok(read.key_from(settings, format!("the environment variable `{variable}`")))
    }

    /// The headers with the key; `named` is the variable that the arguments name instead of the usual one.
    fn headers(self, named: Option<&str>) -> Result<Vec<(String, SecretString)>, ModelError> {
        let header = |name: &str, value: String| (name.to_owned(), SecretString::from(value));
        let bearer = |key: &str| header("Authorization", format!("Bearer {key}"));
        Ok(match self {
            Self::Nobody => vec![bearer("")],
            Self::Bearer(variable) => vec![bearer(&match named {
                Some(named) => required(named)?,
                None => env::var(variable).unwrap_or_default(),
            })],
            Self::RequiredBearer(variable) => vec![bearer(&required(named.unwrap_or(variable))?)],
            Self::Azure(variable) => {
                let key = required(named.unwrap_or(variable))?;
                vec![bearer(&key), header("api-key", key)]
            }
            Self::Anthropic(variable) => {
                vec![
                    header("x-api-key", required(named.unwrap_or(variable))?),
                    header("anthropic-version", "2023-06-01".into()),
                ]
            }
        })
    }
}

/// The key in an environment variable, or an error naming it.
fn required(variable: &str) -> Result<String, ModelError> {
    env::var(variable).ok().filter(|key| !key.is_empty()).ok_or_else(|| {
        let message =
            format!("The model needs an API key, but the environment variable `{variable}` is not set");
        ModelError::new(ModelErrorKind::Configuration, message)
            .hint(format!("Set it with `export {variable}=…`"))
    })
}

/// A backend of the family that shares argument parsing, tokenization and batching.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    /// The name under which it is registered first.
    pub(super) name: &'static str,
    /// The default `base_url`.
    pub(super) base_url: Option<&'static str>,
    /// The default `tokenizer_backend`.
    pub(super) tokenizer: &'static str,
    pub(super) credentials: Credentials,
    /// Whether it is a vendor's API, which need not be queried for the model it serves.
    pub(super) is_hosted: bool,
    /// Creates the protocol from model arguments.
    pub(super) make: fn(&ModelSettings) -> Result<Box<dyn Protocol>, ModelError>,
}

impl Backend {
    pub(crate) fn create(&self, settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
        if settings.get("base_url").is_none() && self.base_url.is_none() {
            return Err(no_base_url(self.name));
        }
        let client_settings = self.credentials.client_settings(settings, self.base_url)?;
        let model = settings.text("model").or_else(|| settings.text("pretrained"));
        self.create_with(settings, client_settings, model)
    }

    /// Creates a model whose URL and name are known.
    pub(super) fn create_with(
        &self,
        settings: &ModelSettings,
        client_settings: ClientSettings,
        model: Option<String>,
    ) -> Result<Arc<dyn Model>, ModelError> {
        if self.is_hosted {
            refuse_pool(self.name, &client_settings)?;
        }
        let client = Arc::new(Client::new(client_settings)?);
        // A pool may have no server yet.
        let is_deferred = settings.defer_contact || client.is_pool();
        let keeper = Arc::new(Keeper::new(client, model.clone(), settings.text("model_id").is_some()));
        if is_deferred && tokenizer::is_of_server(settings, self.tokenizer) {
            let bare = self.assemble(settings, &keeper, model, None, true)?;
            warn_of_unknown(self.name, settings, keeper.client.stats());
            return Ok(Arc::new(Deferred::new(bare, *self, settings.clone())));
        }
        let encoder = self.encoder(settings, model.as_deref(), &keeper.client)?;
        let made: Arc<dyn Model> = self.assemble(settings, &keeper, model, encoder, false)?;
        warn_of_unknown(self.name, settings, keeper.client.stats());
        Ok(made)
    }

    /// The tokenizer; may query the server.
    pub(super) fn encoder(
        &self,
        settings: &ModelSettings,
        model: Option<&str>,
        client: &Arc<Client>,
    ) -> Result<Option<Encoder>, ModelError> {
        tokenizer::choose(settings, model, client, self.tokenizer)
    }

    /// The model with an encoder, or one that gets its encoder later.
    pub(super) fn assemble(
        &self,
        settings: &ModelSettings,
        keeper: &Arc<Keeper>,
        model: Option<String>,
        encoder: Option<Encoder>,
        encodes_later: bool,
    ) -> Result<Arc<ApiModel>, ModelError> {
        let protocol = (self.make)(settings)?;
        let planner = Planner::new(Choice::from_settings(settings)?);
        let batch_size = if protocol.is_chat() { 1 } else { batch_size(settings)? };
        let encodes = encodes_later || encoder.is_some();
        let tokenized = encodes && !protocol.is_chat() && settings.flag("tokenized_requests", true)?;
        let own_end = encoder.as_ref().and_then(|encoder| encoder.end_of_text()).map(str::to_owned);
        let top_logprobs = integer_at_least(settings, "top_logprobs", TOP_LOGPROBS as i64, 1)?.unsigned_abs();
        let rules = Rules {
            model,
            max_gen_toks: integer_at_least(settings, "max_gen_toks", 256, 1)?,
            seed: settings.integer("seed")?.unwrap_or(1234),
            end_of_text: settings.text("eos_string").filter(|text| !text.is_empty()).or(own_end),
            think_end_token: settings.text("think_end_token"),
            truncation: if protocol.is_launched() { Side::read(settings)? } else { Side::Left },
            dialect: settings.dialect,
        };
        let streams = Streams::read(settings)?;
        if streams == Streams::All && !protocol.can_stream() {
            let message = format!("`{}` does not stream generations", self.name);
            return Err(ModelError::new(ModelErrorKind::Configuration, message)
                .hint("Drop `stream`, or use `local-completions` or `local-chat-completions`"));
        }
        let is_launched = protocol.is_launched();
        keeper.client.set_trial(String::new(), trial_body(&*protocol, &rules)?);
        let parts = Parts {
            backend: self.name,
            protocol,
            rules,
            encoder,
            client: Arc::clone(&keeper.client),
            keeper: Arc::clone(keeper),
            tokenized,
            // One token is reserved for generation.
            longest: AtomicUsize::new(integer_at_least(settings, "max_length", 2048, 3)? as usize - 1),
            batch_size,
            media: media_rules(settings)?,
            top_logprobs: TopLogprobs::new(top_logprobs),
            refuses_fields: AtomicBool::new(false),
            streams,
            refuses_streams: AtomicBool::new(false),
            is_extended: AtomicBool::new(is_launched),
            is_hosted: self.is_hosted,
            model_id: settings.text("model_id"),
            is_tokenizer_named: settings.get("tokenizer").is_some(),
            given: IDENTITY_ARGUMENTS
                .into_iter()
                .filter_map(|name| Some((name, settings.text(name)?)))
                .collect(),
        };
        Ok(Arc::new_cyclic(|this| ApiModel { parts, planner, this: Weak::clone(this) }))
    }
}

/// Fails if the servers of a backend cannot form a pool.
pub(super) fn refuse_pool(name: &str, settings: &ClientSettings) -> Result<(), ModelError> {
    let Some(pool) = &settings.pool else { return Ok(()) };
    let message = format!("The model `{name}` cannot use the pool `{pool:?}`");
    Err(ModelError::new(ModelErrorKind::Configuration, message).hint(
        "Pools work with `local-completions`, `local-chat-completions` and `sglang-generate`; name the addresses in `base_url`",
    ))
}

/// The error for a missing `base_url`.
pub(super) fn no_base_url(name: &str) -> ModelError {
    let example = match name {
        "local-chat-completions" => "http://localhost:8000/v1/chat/completions",
        "sglang-generate" => "http://localhost:30000/generate",
        "gguf" => "http://localhost:8000",
        _ => "http://localhost:8000/v1/completions",
    };
    ModelError::new(
        ModelErrorKind::Configuration,
        format!("The model `{name}` needs the argument `base_url`"),
    )
    .hint(format!("For example: `--model_args base_url={example}`"))
}

/// An integer argument with a lower bound.
pub(super) fn integer_at_least(
    settings: &ModelSettings,
    name: &str,
    default: i64,
    least: i64,
) -> Result<i64, ModelError> {
    let number = settings.integer(name)?.unwrap_or(default);
    if number < least {
        return Err(ModelSettings::wrong(name, &format!("at least {least}"), &Value::Int(number)));
    }
    Ok(number)
}

/// Requests per call; `auto` means 1.
pub(super) fn batch_size(settings: &ModelSettings) -> Result<usize, ModelError> {
    let given = settings.batch_size.clone().or_else(|| settings.get("batch_size").cloned());
    let number = match &given {
        None | Some(Value::None) => Some(1),
        Some(Value::Int(number)) => Some(*number),
        Some(Value::Str(text)) if text.contains("auto") => Some(1),
        Some(Value::Str(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    match (number.and_then(|number| usize::try_from(number).ok()), given) {
        (Some(number), _) => Ok(number.max(1)),
        (None, given) => {
            Err(ModelSettings::wrong("batch_size", "an integer or `auto`", &given.unwrap_or(Value::None)))
        }
    }
}

/// How images and sounds are sent.
fn media_rules(settings: &ModelSettings) -> Result<MediaRules, ModelError> {
    let interleave = match settings.get("interleave") {
        None => None,
        Some(_) => Some(settings.flag("interleave", true)?),
    };
    let max_images = integer_at_least(settings, "max_images", 1, 0)? as usize;
    Ok(MediaRules { max_images, placement: Placement::of_argument(interleave), bounds: bounds(settings)? })
}

/// The size in which images are sent.
fn bounds(settings: &ModelSettings) -> Result<Bounds, ModelError> {
    let read = |name: &str| -> Result<Option<u32>, ModelError> {
        let given = settings.get(name).map(|_| integer_at_least(settings, name, 1, 1)).transpose()?;
        Ok(given.and_then(|pixels| u32::try_from(pixels).ok()))
    };
    let bounds =
        Bounds { width: read("image_width")?, height: read("image_height")?, side: read("image_max_side")? };
    if bounds.side.is_some() && (bounds.width.is_some() || bounds.height.is_some()) {
        let message = "`image_max_side` cannot be combined with `image_width` and `image_height`";
        return Err(ModelError::new(ModelErrorKind::Configuration, message)
            .hint("Set `image_max_side` for the longer side, or one or both of the others"));
    }
    Ok(bounds)
}
