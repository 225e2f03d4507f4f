//! Model arguments of a server that the run starts: which are flags of the server, which are ours.

use std::time::Duration;

use lmeval_core::secrets::{is_secret, remember};
use lmeval_core::{ModelError, ModelSettings};
use lmeval_pycompat::{Dict, Value, json, repr};

use super::interpreter::configuration;
use super::software::Software;
use super::words::split_words;

/// Arguments of the client, which the server does not get.
const CLIENT: [&str; 22] = [
    "add_bos_token",
    "base_url",
    "custom_prefix_token_id",
    "eos_string",
    "max_gen_toks",
    "max_retries",
    "model_id",
    "num_concurrent",
    "patience",
    "reasoning_model",
    "recheck",
    "requests_per_minute",
    "retry_budget",
    "retry_wait",
    "scoring",
    "think_end_token",
    "timeout",
    "tokenized_requests",
    "tokenizer_backend",
    "tokens_per_minute",
    "top_logprobs",
    "truncation_side",
];

/// Arguments that are read by name.
const OWN: [&str; 23] = [
    "pretrained",
    "model",
    "model_path",
    "tokenizer",
    "tokenizer_path",
    "tokenizer_revision",
    "revision",
    "hf_token",
    "batch_size",
    "max_batch_size",
    "max_length",
    "max_model_len",
    "context_length",
    "prefix_token_id",
    "device",
    "lora_local_path",
    "max_lora_rank",
    "enable_thinking",
    "chat_template_args",
    "trust_remote_code",
    "keep_server",
    "start_timeout",
    "server_args",
];

/// Arguments of the client that concern images before they are sent.
const IMAGES: [&str; 5] = ["image_height", "image_max_side", "image_width", "interleave", "max_images"];

/// The number of images without a limit.
const ALL_IMAGES: i64 = 999;

/// Flags that the run itself sets.
const RESERVED: [&str; 5] = ["host", "port", "uds", "api_key", "root_path"];

/// Flags that change how fast a server answers, but not what.
const NEUTRAL: [&str; 29] = [
    "allow_deprecated_quantization",
    "attention_backend",
    "block_size",
    "chunked_prefill_size",
    "cpu_offload_gb",
    "cudagraph_capture_sizes",
    "disable_custom_all_reduce",
    "disable_log_requests",
    "disable_log_stats",
    "disable_radix_cache",
    "distributed_executor_backend",
    "download_dir",
    "dp_size",
    "enable_chunked_prefill",
    "enable_expert_parallel",
    "enable_prefix_caching",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "max_num_batched_tokens",
    "max_num_seqs",
    "mem_fraction_static",
    "num_gpu_blocks_override",
    "pipeline_parallel_size",
    "pp_size",
    "seed",
    "swap_space",
    "tensor_parallel_size",
    "tp_size",
];

/// The name under which a server has the adapter of `lora_local_path`.
const ADAPTER: &str = "finetuned";

/// How values become words of a command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Whether `False` becomes `--no-flag`; otherwise it is left out.
    pub(super) negated: bool,
    /// Whether the items of a list are words of their own.
    pub(super) lists: bool,
}

/// The checkpoint that a server loads, as the caller names it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// A folder or a name on the hub.
    pub(super) pretrained: String,
    pub(super) revision: String,
    /// The revision of the tokenizer, if it has its own or belongs to another model.
    pub(super) tokenizer_revision: Option<String>,
    /// The adapter's folder.
    pub(super) adapter: Option<String>,
    /// The token for the hub.
    pub(super) hub_token: Option<String>,
}

/// How many servers there are, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) servers: usize,
    /// How many GPUs each of them needs.
    pub(super) gpus: usize,
    /// The GPU of `device`, counted among those that are visible.
    pub(super) device: Option<usize>,
}

/// The arguments of a model on a server that the run starts.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    pub(super) named: Named,
    pub(super) layout: Layout,
    /// The name of the model in requests.
    pub(super) served: String,
    /// The arguments of the client.
    pub(super) client: Dict,
    /// The words of the command line after the model.
    pub(super) flags: Vec<String>,
    /// The flags that the caller has set, as argument names.
    pub(super) given: Vec<String>,
    /// The context length, if the caller sets it.
    pub(super) max_length: Option<i64>,
    /// `add_bos_token`; without it, the tokenizer decides.
    pub(super) add_bos: Option<bool>,
    /// Additional variables for chat templates.
    pub(super) variables: Dict,
    /// Whether `enable_thinking` is on.
    pub(super) thinks: bool,
    pub(super) keep: bool,
    pub(super) start_timeout: Duration,
    /// Facts of the model's identity.
    pub(super) facts: Vec<(&'static str, String)>,
    /// `gpu_memory_utilization` or what corresponds to it.
    pub(super) share: Option<f64>,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
}

impl Arguments {
    /// The words that name revisions of the checkpoint on the hub and of its tokenizer.
    pub(super) fn revisions(&self, revision: Option<&str>, software: &Software) -> Vec<String> {
        let own = self.named.tokenizer_revision.as_deref();
        let own = own.filter(|own| revision.is_some() || *own != "main").or(revision);
        let own = own.filter(|_| software.module == "vllm");
        let words = [("--revision", revision), ("--tokenizer-revision", own)];
        let given = words.into_iter().filter_map(|(flag, value)| Some([flag, value?]));
        given.flatten().map(str::to_owned).collect()
    }

    /// Reads and checks the arguments.
    pub(super) fn read(settings: &ModelSettings, software: &Software) -> Result<Self, ModelError> {
        let tokenizer = settings.text("tokenizer").or_else(|| settings.text("tokenizer_path"));
        let named = named(settings, tokenizer.is_some())?;
        let raw = raw_words(settings)?;
        for word in &raw {
            if let Some(flag) = word.strip_prefix("--") {
                refuse_reserved(&flag.split('=').next().unwrap_or(flag).replace('-', "_"), software)?;
            }
        }
        refuse_unsupported(settings, software)?;
        let mut warnings = Vec::new();
        let mut flags = Flags::new(software.style);
        flags.take(settings, software, &mut warnings)?;
        flags.facts.sort();
        let max_length = max_length(settings)?;
        if let Some(length) = max_length {
            flags.add(software.context, &length.to_string());
        }
        if let Some(tokenizer) = &tokenizer {
            flags.add(software.tokenizer, tokenizer);
            flags.facts.push(format!("tokenizer={tokenizer}"));
        }
        flags.add_derived(settings, software, named.adapter.as_deref())?;
        for (name, value) in software.defaults {
            let flag = flag_name(name);
            if !flags.has(name) && !raw.iter().any(|word| word.split('=').next() == Some(&flag)) {
                flags.add(&flag, value);
            }
        }
        if !raw.is_empty() {
            flags.facts.push(format!("server_args={}", without_secrets(&raw).join(" ")));
        }
        if !flags.has("dtype") {
            flags.facts.push("dtype=auto".to_owned());
        }
        let layout = layout(settings, software, &raw, &mut warnings)?;
        flags.words.extend(raw);
        let (variables, thinks) = variables(settings)?;
        let mut client = client(settings, &named.pretrained, tokenizer, max_length)?;
        client.insert("revision", named.tokenizer_revision.as_deref().unwrap_or(&named.revision));
        let side = settings.text("truncation_side").filter(|side| side != "left");
        let side = side.map(|side| ("truncation_side", side));
        let add_bos = settings.get("add_bos_token").map(|_| settings.flag("add_bos_token", false));
        Ok(Self {
            served: served(settings, &named),
            named,
            layout,
            client,
            flags: flags.words,
            given: flags.given,
            max_length,
            add_bos: add_bos.transpose()?,
            variables,
            thinks,
            keep: settings.flag("keep_server", false)?,
            start_timeout: start_timeout(settings)?,
            facts: [Some(("flags", flags.facts.join(", "))), side].into_iter().flatten().collect(),
            share: settings.number("gpu_memory_utilization")?.or(settings.number("mem_fraction_static")?),
            warnings,
        })
    }
}

/// The checkpoint, its adapter and revisions.
fn named(settings: &ModelSettings, has_tokenizer: bool) -> Result<Named, ModelError> {
    let pretrained = ["pretrained", "model", "model_path"].iter().find_map(|name| settings.text(name));
    let Some(pretrained) = pretrained else {
        return Err(configuration("The model needs the argument `pretrained`")
            .hint("Give it as in `--model_args pretrained=<folder or name on the hub>`"));
    };
    let revision = settings.text("revision").unwrap_or_else(|| "main".to_owned());
    let of_tokenizer = settings.text("tokenizer_revision");
    Ok(Named {
        pretrained,
        tokenizer_revision: of_tokenizer.or_else(|| has_tokenizer.then(|| revision.clone())),
        revision,
        adapter: settings.text("lora_local_path"),
        hub_token: settings.text("hf_token").inspect(|token| remember(token)),
    })
}

/// The name of the model in requests.
fn served(settings: &ModelSettings, named: &Named) -> String {
    match (&named.adapter, settings.get("served_model_name")) {
        (Some(_), _) => ADAPTER.to_owned(),
        (None, Some(Value::List(names))) if !names.is_empty() => repr::str(&names[0]),
        (None, Some(name)) => repr::str(name),
        (None, None) => named.pretrained.clone(),
    }
}

/// How many servers there are, and how many GPUs each of them needs.
fn layout(
    settings: &ModelSettings,
    software: &Software,
    raw: &[String],
    warnings: &mut Vec<String>,
) -> Result<Layout, ModelError> {
    let copies = software.copies.iter().map(|name| settings.integer(name)).find_map(Result::transpose);
    let copies = copies.transpose()?.unwrap_or(1);
    if copies < 1 {
        return Err(ModelSettings::wrong("data_parallel_size", "at least 1", &Value::Int(copies)));
    }
    let has_own = raw.iter().any(|word| word.starts_with("--data-parallel") || word.starts_with("-dp"));
    if has_own && copies > 1 {
        return Err(configuration(
            "`data_parallel_size` starts several servers, and `server_args` asks for data parallelism in each",
        )
        .hint("Leave one of them out"));
    }
    if copies > 1 && settings.flag("enable_expert_parallel", false)? {
        return Err(configuration(
            "`data_parallel_size` starts servers that share nothing, and `enable_expert_parallel` spreads experts over all of them",
        )
        .hint("`server_args=\"--data-parallel-size N\"` uses vLLM's own data parallelism in one server"));
    }
    let mut gpus = 1;
    // SGLang's own data parallelism; with this kind of attention, it divides the GPUs of `tp_size`.
    let divides = settings.flag("enable_dp_attention", false)?;
    let own = ["dp_size"].iter().filter(|_| software.module == "sglang" && !divides);
    for name in software.sizes.iter().chain(own) {
        let size = settings.integer(name)?.unwrap_or(1);
        gpus *= usize::try_from(size).unwrap_or(1).max(1);
    }
    let servers = usize::try_from(copies).unwrap_or(1);
    Ok(Layout { servers, gpus, device: device(settings, warnings) })
}

/// The words of a command line.
struct Flags {
    style: Style,
    words: Vec<String>,
    given: Vec<String>,
    /// What changes numbers in the server.
    facts: Vec<String>,
}

impl Flags {
    fn new(style: Style) -> Self {
        Self { style, words: Vec::new(), given: Vec::new(), facts: Vec::new() }
    }

    /// Adds the arguments that are the server's.
    fn take(
        &mut self,
        settings: &ModelSettings,
        software: &Software,
        warnings: &mut Vec<String>,
    ) -> Result<(), ModelError> {
        for (name, value) in settings.args.iter() {
            let name = repr::str(name);
            let is_other = CLIENT.contains(&name.as_str())
                || OWN.contains(&name.as_str())
                || IMAGES.contains(&name.as_str())
                || software.copies.contains(&name.as_str());
            if is_other || value.is_none() {
                continue;
            }
            if name == "swap_space" {
                warnings.push(format!("`swap_space` has no effect: {} swaps no blocks", software.title));
                continue;
            }
            refuse_reserved(&name, software)?;
            self.push(&name, value)?;
            if is_secret(&name) {
                remember(&repr::str(value));
            } else if !NEUTRAL.contains(&name.as_str()) {
                self.facts.push(format!("{name}={}", repr::str(value)));
            }
        }
        Ok(())
    }

    /// Adds the flags that follow from arguments with a meaning of their own.
    fn add_derived(
        &mut self,
        settings: &ModelSettings,
        software: &Software,
        adapter: Option<&str>,
    ) -> Result<(), ModelError> {
        if settings.flag("trust_remote_code", settings.trust_remote_code)? {
            self.words.push("--trust-remote-code".to_owned());
            self.facts.push("trust_remote_code=True".to_owned());
        }
        if software.module == "vllm" && !self.has("max_num_seqs") {
            let most = settings.max_batch_size.or(settings.integer("max_batch_size")?);
            if let Some(most) = most {
                self.add("--max-num-seqs", &most.to_string());
            }
        }
        if let Some(path) = adapter {
            let rank = settings.integer("max_lora_rank")?.unwrap_or(16);
            let (rank, module) = (rank.to_string(), format!("{ADAPTER}={path}"));
            let words = ["--enable-lora", "--lora-modules", &module, "--max-lora-rank", &rank];
            self.words.extend(words.map(str::to_owned));
        }
        if let Some(images) = settings.integer("max_images")?.filter(|images| *images != ALL_IMAGES) {
            self.push("limit_mm_per_prompt", &Value::dict([("image", Value::Int(images))]))?;
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.given.iter().any(|given| given == name)
    }

    fn add(&mut self, flag: &str, value: &str) {
        self.words.extend([flag.to_owned(), value.to_owned()]);
    }

    /// Adds an argument as a flag.
    fn push(&mut self, name: &str, value: &Value) -> Result<(), ModelError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(configuration(format!("The model argument `{name}` cannot be a flag of the server")));
        }
        self.given.push(name.to_owned());
        let flag = flag_name(name);
        match value {
            Value::Bool(true) => self.words.push(flag),
            Value::Bool(false) if self.style.negated => {
                self.words.push(format!("--no-{}", flag.trim_start_matches('-')));
            }
            Value::Bool(false) => {}
            Value::List(items) | Value::Tuple(items) if self.style.lists => {
                self.words.push(flag);
                for item in items.iter() {
                    self.words.push(word(item)?);
                }
            }
            value => {
                let value = word(value)?;
                self.words.extend([flag, value]);
            }
        }
        Ok(())
    }
}

/// The flag of an argument.
pub(super) fn flag_name(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// A value as one word: strings and numbers as they are, the rest as JSON.
fn word(value: &Value) -> Result<String, ModelError> {
    match value {
        Value::Dict(_) | Value::List(_) | Value::Tuple(_) | Value::Bool(_) => {
            let options = json::Options { ensure_ascii: false, ..json::Options::default() };
            json::dumps(value, &options)
                .map_err(|error| configuration(format!("`{}` is not JSON: {error}", repr::repr(value))))
        }
        value => Ok(repr::str(value)),
    }
}

/// `server_args`: words for the server, as a string or a list.
fn raw_words(settings: &ModelSettings) -> Result<Vec<String>, ModelError> {
    match settings.get("server_args") {
        None => Ok(Vec::new()),
        Some(Value::List(words) | Value::Tuple(words)) => Ok(words.iter().map(repr::str).collect()),
        Some(text) => split_words(&repr::str(text)).ok_or_else(|| {
            configuration(format!("`server_args` has a quote without its end: {}", repr::str(text)))
        }),
    }
}

fn max_length(settings: &ModelSettings) -> Result<Option<i64>, ModelError> {
    let names = ["max_model_len", "max_length", "context_length"];
    let mut given = Vec::new();
    for name in names {
        if let Some(length) = settings.integer(name)? {
            given.push((name, length));
        }
    }
    match given.as_slice() {
        [] => Ok(None),
        [(name, length), rest @ ..] => {
            if let Some((other, _)) = rest.iter().find(|(_, other)| other != length) {
                return Err(configuration(format!(
                    "`{name}` and `{other}` are the same and have two values"
                )));
            }
            if *length < 3 {
                return Err(ModelSettings::wrong(name, "at least 3", &Value::Int(*length)));
            }
            Ok(Some(*length))
        }
    }
}

fn client(
    settings: &ModelSettings,
    pretrained: &str,
    tokenizer: Option<String>,
    max_length: Option<i64>,
) -> Result<Dict, ModelError> {
    let mut client = Dict::new();
    for name in CLIENT.into_iter().chain(IMAGES) {
        if let Some(value) = settings.args.get_str(name) {
            client.insert(name, value.clone());
        }
    }
    client.insert("tokenizer", tokenizer.unwrap_or_else(|| pretrained.to_owned()));
    if let Some(seed) = settings.integer("seed")? {
        client.insert("seed", seed);
    }
    if let Some(prefix) = settings.integer("prefix_token_id")? {
        client.insert("custom_prefix_token_id", prefix);
    }
    if let Some(length) = max_length {
        client.insert("max_length", length);
    }
    client.insert("max_images", settings.integer("max_images")?.unwrap_or(ALL_IMAGES));
    client.insert("interleave", Value::Bool(settings.flag("interleave", true)?));
    Ok(client)
}

/// The variables of chat templates, and whether the model thinks.
fn variables(settings: &ModelSettings) -> Result<(Dict, bool), ModelError> {
    let mut variables = match settings.get("chat_template_args") {
        None => Dict::new(),
        Some(Value::Dict(variables)) => Dict::clone(variables),
        Some(other) => return Err(ModelSettings::wrong("chat_template_args", "a dictionary", other)),
    };
    if settings.get("enable_thinking").is_some() && variables.get_str("enable_thinking").is_none() {
        variables.insert("enable_thinking", Value::Bool(settings.flag("enable_thinking", false)?));
    }
    let thinks = variables.get_str("enable_thinking").is_some_and(Value::is_truthy);
    if thinks && settings.text("think_end_token").is_none() {
        return Err(configuration("`enable_thinking=True` needs `think_end_token`").hint(
            "Set it to the string that ends the model's thoughts, such as `think_end_token=</think>`",
        ));
    }
    Ok((variables, thinks))
}

/// Fails for a flag that the run itself sets.
fn refuse_reserved(name: &str, software: &Software) -> Result<(), ModelError> {
    if !RESERVED.contains(&name) && !name.starts_with("ssl_") {
        return Ok(());
    }
    let message = format!(
        "The model argument `{name}` cannot be set: the run chooses how it reaches {}",
        software.title
    );
    Err(configuration(message).hint(
        "Leave it out; for a server that is already running, use `--model local-completions` with `base_url`",
    ))
}

/// Fails for arguments of the reference that the server does not have.
fn refuse_unsupported(settings: &ModelSettings, software: &Software) -> Result<(), ModelError> {
    if software.module == "sglang" && settings.get("lora_local_path").is_some() {
        return Err(configuration("`lora_local_path` is an argument of `vllm`").hint(
            "SGLang takes adapters as `lora_paths=name=folder`, which needs `disable_radix_cache=True`",
        ));
    }
    Ok(())
}

/// Words of a command line, with secret values replaced.
fn without_secrets(words: &[String]) -> Vec<String> {
    let mut hides_next = false;
    let mut shown = Vec::new();
    for word in words {
        let is_flag = word.starts_with("--");
        let (flag, value) =
            word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        let has_secret = is_flag && is_secret(flag.trim_start_matches('-'));
        shown.push(match value {
            _ if hides_next && !is_flag => "***".to_owned(),
            Some(_) if has_secret => format!("{flag}=***"),
            _ => word.clone(),
        });
        hides_next = has_secret && value.is_none();
    }
    shown
}

/// The index in `cuda:1`; none for `cuda`, `auto` and `cpu`.
fn device(settings: &ModelSettings, warnings: &mut Vec<String>) -> Option<usize> {
    let device = settings.text("device").or_else(|| settings.device.clone())?;
    let (_, index) = device.split_once(':')?;
    let found = index.parse().ok();
    if found.is_none() {
        warnings.push(format!("`device={device}` has no effect: it is not one GPU such as `cuda:1`"));
    }
    found
}

fn start_timeout(settings: &ModelSettings) -> Result<Duration, ModelError> {
    let seconds = settings.number("start_timeout")?.unwrap_or(1800.0);
    Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero()).ok_or_else(|| {
        ModelSettings::wrong("start_timeout", "a number of seconds above 0", &Value::Float(seconds))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_secret_words() {
        let words = ["--hf-token", "x", "--api-key=y", "--seed", "7"].map(str::to_owned);
        assert_eq!(without_secrets(&words), ["--hf-token", "***", "--api-key=***", "--seed", "7"]);
    }
}
