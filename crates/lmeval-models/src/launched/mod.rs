//! `vllm`, `vllm-vlm` and `sglang`: the run starts the user's own server, uses it like any other, and ends it.
//!
//! [`Arguments`](arguments::Arguments) splits model arguments into those of the client and flags of the server;
//! [`Servers`](supervise::Servers) starts the processes when the first request needs them, watches them and starts them again;
//! [`LaunchedModel`](model::LaunchedModel) is the client with the life of its servers. The identity of the model is known
//! without a server, so a run that has all its answers starts none.

mod arguments;
mod checkpoint;
mod devices;
mod examine;
mod flags;
mod generation;
mod interpreter;
mod keep;
mod log;
mod model;
mod probe;
mod process;
mod software;
mod supervise;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lmeval_core::{Model, ModelError, ModelIdentity, ModelSettings, secrets};
use lmeval_hub::{Kind, Settings};
use lmeval_pycompat::{Value, repr};

use self::arguments::Arguments;
use self::checkpoint::Checkpoint;
use self::examine::Examination;
use self::generation::GenerationSettings;
use self::interpreter::{Interpreter, configuration};
use self::keep::Kept;
use self::model::LaunchedModel;
use self::process::{Address, ServerCommand, random_hex, socket_folder};
use self::software::Software;
use self::supervise::{Plan, Servers};
use crate::api::{self, Backend};
use crate::http::socket_host;

/// Creates a model on vLLM.
pub(crate) fn create_vllm(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    create(settings, &software::VLLM, &api::VLLM)
}

const WITH_IMAGES: Software = Software { path: "/v1/chat/completions", ..software::VLLM };

/// Creates a model with images on vLLM.
pub(crate) fn create_vllm_vlm(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    create(settings, &WITH_IMAGES, &api::VLLM_VLM)
}

/// Creates a model on SGLang.
pub(crate) fn create_sglang(settings: &ModelSettings) -> Result<Arc<dyn Model>, ModelError> {
    create(settings, &software::SGLANG, &api::SGLANG_SERVER)
}

fn create(
    settings: &ModelSettings,
    software: &'static Software,
    backend: &Backend,
) -> Result<Arc<dyn Model>, ModelError> {
    if !cfg!(unix) {
        return Err(configuration(format!("{} can be started on Linux and macOS only", software.title))
            .hint("`--model local-completions` uses a server that is already running"));
    }
    let mut arguments = Arguments::read(settings, software)?;
    let cache = settings.process.cache.clone();
    // Servers that are already there are used as they are.
    let interpreter = match settings.get("base_url") {
        Some(_) => None,
        None => Some(Interpreter::examine(settings.process.python.as_deref(), software)?),
    };
    if let Some(interpreter) = &interpreter
        && let Some(known) = flags::known(interpreter, software, cache.as_deref())
    {
        let known = match flags::check(interpreter, software, &arguments.given, &known) {
            Ok(()) => known,
            Err(_) => {
                flags::forget(interpreter, software, cache.as_deref());
                let again = flags::learn(interpreter, software, cache.as_deref()).unwrap_or(known);
                flags::check(interpreter, software, &arguments.given, &again)?;
                again
            }
        };
        arguments.flags.retain(|word| !flags::is_needless(word, &known));
    }
    if interpreter.is_some() {
        devices::check(&mut arguments, settings)?;
        if arguments.keep && cache.is_none() {
            let message = "`keep_server` has no effect: there is no folder in which to record the server";
            arguments.warnings.push(message.to_owned());
        }
    }
    let hub = Settings::from_environment(Kind::Model).reporting_to(settings.downloads.as_ref());
    let checkpoint = Checkpoint::find(&arguments.named.pretrained, &arguments.named.revision, &hub)?;
    let adapter = match &arguments.named.adapter {
        Some(path) => Some(checkpoint::adapter(path, &hub)?),
        None => None,
    };
    if software.module == "sglang" && arguments.add_bos.is_none() {
        // Reference: no special tokens, except for Gemma, which is much worse without a BOS token.
        arguments.add_bos = Some(arguments.named.pretrained.to_lowercase().contains("gemma"));
    }
    let plans = match &interpreter {
        None => Vec::new(),
        Some(interpreter) => {
            let content = Content { checkpoint: &checkpoint, adapter: adapter.as_deref() };
            plans(&arguments, interpreter, software, settings, content)?
        }
    };
    let urls = plans.iter().map(|plan| url(plan, software)).collect();
    let key = plans.first().map(|plan| plan.key.clone()).unwrap_or_default();
    let mut client = ModelSettings { args: arguments.client.clone(), ..settings.clone() };
    client.batch_size = None;
    let patience = arguments.start_timeout.as_secs_f64() + 60.0;
    if client.args.get_str("patience").is_none() {
        client.args.insert("patience", patience);
    }
    let (served, http) = backend.create_on(&client, urls, &key, &arguments.served, arguments.add_bos)?;
    for warning in &arguments.warnings {
        http.stats().warn(warning.clone());
    }
    let template_fields = (software.path == WITH_IMAGES.path && !arguments.variables.is_empty())
        .then(|| Value::Dict(Arc::new(arguments.variables.clone())));
    if let Some(fields) = &template_fields {
        arguments.facts.push(("chat_template_kwargs", repr::repr(fields)));
    }
    let generation =
        GenerationSettings { is_vllm: software.module == "vllm", seed: served.seed(), template_fields };
    let identity =
        identity(backend, &served.setting_facts(), &arguments, interpreter.as_ref(), &checkpoint, adapter);
    let examination = interpreter
        .map(|interpreter| Examination::new(software, &interpreter, &arguments, &checkpoint, cache));
    Ok(Arc::new(LaunchedModel {
        servers: Servers::new(plans, http),
        served,
        identity,
        asks_length: arguments.max_length.is_none(),
        thinks: arguments.thinks,
        generation,
        variables: arguments.variables,
        examination,
    }))
}

/// The facts of the model's identity: those of the client and the checkpoint, and what changes numbers in the server.
fn identity(
    backend: &Backend,
    client: &[(&'static str, String)],
    arguments: &Arguments,
    interpreter: Option<&Interpreter>,
    checkpoint: &Checkpoint,
    adapter: Option<String>,
) -> ModelIdentity {
    let mut facts = client.to_vec();
    if arguments.max_length.is_none() {
        for (_, fact) in facts.iter_mut().filter(|(name, _)| *name == "max_length") {
            "the server's".clone_into(fact);
        }
    }
    match arguments.client.get_str("model_id") {
        Some(id) => facts.push(("model_id", repr::str(id))),
        None => {
            facts.push(("weights", checkpoint.weights.clone()));
            facts.extend(checkpoint.files.clone().map(|files| ("files", files)));
        }
    }
    facts.extend(adapter.map(|adapter| ("adapter", adapter)));
    facts.extend(interpreter.map(|interpreter| ("version", interpreter.version.clone())));
    facts.extend(arguments.facts.iter().cloned());
    ModelIdentity { backend: backend.name().into(), facts }
}

/// The command that starts a server of a model elsewhere, with `{python}`, `{host}` and `{port}`. `None` for a model that
/// starts none.
pub fn serve_command(name: &str, settings: &ModelSettings) -> Option<Result<String, ModelError>> {
    let software = match name {
        "vllm" | "vllm-vlm" => &software::VLLM,
        "sglang" => &software::SGLANG,
        _ => return None,
    };
    if settings.get("base_url").is_some() {
        return None;
    }
    Some(Arguments::read(settings, software).map(|mut arguments| {
        let revision = Some(arguments.named.revision.as_str()).filter(|revision| *revision != "main");
        let revisions = arguments.revisions(revision, software);
        arguments.flags.extend(revisions);
        let quoted = |word: String| format!("'{}'", word.replace('\'', r"'\''"));
        let words =
            [software.model.to_owned(), arguments.named.pretrained].into_iter().chain(arguments.flags);
        let words: Vec<String> = words.map(quoted).collect();
        format!("{{python}} -m {} {} --host {{host}} --port {{port}}", software.entry.0, words.join(" "))
    }))
}

/// The variable with the key of a server that reads none.
const KEY_VARIABLE: &str = "LM_EVAL_SERVER_KEY";

/// Runs the module of a server that takes its key as an argument. Every user of the machine can read the arguments of a
/// process, so the key is added in Python. The module stays the main one for the processes that it spawns.
const ADD_KEY: &str = "import os, runpy, sys
module, *words = sys.argv[1:]
key = os.environ.pop('LM_EVAL_SERVER_KEY', None)
sys.argv[:] = [module, *words, *(['--api-key', key] if key else [])]
runpy.run_module(module, run_name='__main__', alter_sys=True)";

/// The words that start a server, up to its flags.
fn entry(software: &Software, interpreter: &Interpreter) -> Vec<String> {
    let (module, file) = software.entry;
    if software.key_variable.is_none() {
        return ["-c", ADD_KEY, module].map(str::to_owned).to_vec();
    }
    match software.other_entry.filter(|_| !interpreter.root.join(file).is_file()) {
        Some(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        None => vec!["-m".to_owned(), module.to_owned()],
    }
}

/// What a server has loaded.
#[derive(Clone, Copy)]
struct Content<'a> {
    checkpoint: &'a Checkpoint,
    adapter: Option<&'a str>,
}

impl Content<'_> {
    /// The words that tell kept servers of other content apart.
    fn words(self, arguments: &Arguments) -> Vec<String> {
        let path = Path::new(&arguments.named.pretrained);
        let path = std::path::absolute(path).ok().filter(|path| path.exists());
        let path = path.map(|path| path.display().to_string());
        let Checkpoint { weights, files, .. } = self.checkpoint;
        let more = [path, files.clone(), self.adapter.map(str::to_owned)];
        [weights.clone()].into_iter().chain(more.map(Option::unwrap_or_default)).collect()
    }
}

fn plans(
    arguments: &Arguments,
    interpreter: &Interpreter,
    software: &'static Software,
    settings: &ModelSettings,
    content: Content<'_>,
) -> Result<Vec<Plan>, ModelError> {
    let failed =
        |error: std::io::Error| configuration(format!("{} cannot be prepared: {error}", software.title));
    let mut words = entry(software, interpreter);
    words.extend([software.model.to_owned(), arguments.named.pretrained.clone()]);
    words.extend(arguments.flags.iter().cloned());
    words.extend(arguments.revisions(content.checkpoint.commit.as_deref(), software));
    let raw =
        |flag: &str| words.iter().any(|word| word == flag || word.strip_prefix("--no-") == Some(&flag[2..]));
    let known = software.optional.iter().filter(|(flag, word)| interpreter.knows(word) && !raw(flag));
    let extra: Vec<String> = known.map(|(flag, _)| (*flag).to_owned()).collect();
    words.extend(extra);
    let has_sockets = software.socket.is_some() && interpreter.knows("uds");
    let records: Vec<Option<PathBuf>> = (0..arguments.layout.servers)
        .map(|number| {
            let cache = settings.process.cache.as_deref().filter(|_| arguments.keep)?;
            let mut all = words.clone();
            all.extend(content.words(arguments));
            all.extend(
                devices::visible(&arguments.layout, number)
                    .into_iter()
                    .map(|(name, value)| format!("{name}={value}")),
            );
            all.push(number.to_string());
            Some(keep::record_path(cache, &interpreter.python, &interpreter.version, &all))
        })
        .collect();
    let kept: Vec<Option<Kept>> = records.iter().map(|record| keep::find(record.as_deref()?)).collect();
    let key = shared_key(software, &kept)?.map_or_else(random_hex, Ok).map_err(failed)?;
    secrets::remember(&key);
    let mut plans = Vec::new();
    for (number, (record, kept)) in records.into_iter().zip(kept).enumerate() {
        let mut environment = devices::visible(&arguments.layout, number);
        environment.extend(arguments.named.hub_token.clone().map(|token| ("HF_TOKEN".to_owned(), token)));
        let (folder, address) = match &kept {
            // One that has died is started again at the same address.
            Some(kept) => (kept.folder.clone(), kept.address.clone()),
            None => {
                let folder = socket_folder().map_err(failed)?;
                let address = Address::free(has_sockets, &folder).map_err(failed)?;
                (folder, address)
            }
        };
        let mut words = words.clone();
        match &address {
            Address::Socket(path) => {
                let flag = software.socket.unwrap_or_default().to_owned();
                words.extend([flag, path.display().to_string()]);
            }
            Address::Port(port) => {
                words.extend(["--host", "127.0.0.1", "--port", &port.to_string()].map(str::to_owned));
            }
        }
        environment.push((software.key_variable.unwrap_or(KEY_VARIABLE).to_owned(), key.clone()));
        let own = match &settings.process.logs {
            Some(logs) => logs.join(format!("{}-{}-{}.log", software.module, std::process::id(), number + 1)),
            // Others can write to this folder, too.
            None => {
                let random = random_hex().map_err(failed)?;
                std::env::temp_dir().join(format!("lm-eval-{}-{random}.log", software.module))
            }
        };
        let log = kept.as_ref().map_or(own, |kept| kept.log.clone());
        plans.push(Plan {
            software,
            interpreter: interpreter.clone(),
            command: ServerCommand { python: interpreter.python.clone(), words, environment, folder, log },
            address,
            key: key.clone(),
            given: arguments.given.clone(),
            start_timeout: arguments.start_timeout,
            record,
            kept,
            has_temporary_log: settings.process.logs.is_none(),
            cache: settings.process.cache.clone(),
        });
    }
    Ok(plans)
}

/// The key of servers that stayed. All servers of a run have the same.
fn shared_key(software: &Software, kept: &[Option<Kept>]) -> Result<Option<String>, ModelError> {
    let mut kept = kept.iter().flatten();
    let Some(first) = kept.next() else { return Ok(None) };
    match kept.find(|other| other.key != first.key) {
        Some(other) => {
            let title = software.title;
            let message = format!("The {title} servers that earlier runs have kept do not belong together");
            let hint = format!("End one of them with `kill -- -{}`, and run the command again", other.pid);
            Err(configuration(message).hint(hint))
        }
        None => Ok(Some(first.key.clone())),
    }
}

/// The base URL of a server.
fn url(plan: &Plan, software: &Software) -> String {
    let path = software.path;
    match &plan.address {
        Address::Socket(socket) => format!("http://{}{path}", socket_host(software.module, socket)),
        Address::Port(port) => format!("http://127.0.0.1:{port}{path}"),
    }
}
