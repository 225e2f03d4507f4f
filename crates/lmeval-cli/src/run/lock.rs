//! The lock of a run: written beside its results, and compared with one that the user gives.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use lmeval_claims::content::task_parts;
use lmeval_claims::lock::{self, Difference, Kind, Lock, LockedTask, RequestDigests, differences};
use lmeval_claims::recipe;
use lmeval_core::{Diagnostic, Model, ModelIdentity, SCORING_FACT, secrets};
use lmeval_engine::{EvaluateOptions, Evaluated, Event, build_requests};
use lmeval_pycompat::{Dict, Value, repr};
use lmeval_report::{lm_eval_version, write_atomically};
use lmeval_scoring::results::{hash_text, value_checksum};
use lmeval_tasks::{Task, TaskDict};
use sha2::{Digest as _, Sha256};

use crate::printer::Printer;
use crate::run::session::Session;
use crate::settings::RunSettings;
use crate::words::counted;

/// How the file names of locks end.
const ENDING: &str = "lock";

/// Settings that say where answers come from and where output goes, which another run does not repeat.
const OF_ONE_RUN: [&str; 20] = [
    "config",
    "fresh",
    "format",
    "hf_hub_log_args",
    "locked",
    "output_path",
    "plugins",
    "prices",
    "progress",
    "python",
    "quiet",
    "show_config",
    "trackio_args",
    "use_cache",
    "verbosity",
    "view",
    "wandb_args",
    "wandb_config_args",
    "workers",
    "write_out",
];

/// Facts of an identity that are not about the model: how log-likelihoods are obtained, which are the same either way, and the
/// release line, which is among the settings.
const ELSEWHERE: [&str; 2] = [SCORING_FACT, "dialect"];

/// A fact of the identity of a server: its address, which may change.
const SERVER_FACT: &str = "server";

/// Most differences that an error lists.
const SHOWN: usize = 12;

/// Collects what a lock needs during a run.
#[derive(Debug)]
pub(crate) struct LockRecorder {
    requests: RequestDigests,
    identity: Mutex<Option<ModelIdentity>>,
}

impl LockRecorder {
    /// For a run with these settings.
    pub(crate) fn new(settings: &RunSettings) -> Arc<Self> {
        Arc::new(Self { requests: RequestDigests::new(settings.dialect), identity: Mutex::default() })
    }

    /// Handles an event of the run.
    pub(crate) fn event(&self, event: &Event<'_>) {
        match event {
            Event::DocumentBuilt { requests } => self.requests.add(requests),
            Event::OtherModel(_) | Event::OtherProtocol { .. } => self.requests.clear(),
            Event::Model(identity) => self.set_identity((*identity).clone()),
            _ => {}
        }
    }

    fn set_identity(&self, identity: ModelIdentity) {
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
    }

    /// Asks the model who it is.
    fn ask(&self, model: &dyn Model) -> Result<()> {
        if model.portable_identity().is_none() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            self.set_identity(runtime.block_on(model.identity())?);
        }
        Ok(())
    }

    fn identity(&self, model: &dyn Model) -> Option<ModelIdentity> {
        let seen = || self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone();
        model.portable_identity().or_else(seen).or_else(|| model.known_identity())
    }
}

/// Everything in a lock that is known before the requests are.
fn without_tasks(
    session: &Session,
    model: &dyn Model,
    recorder: &LockRecorder,
    template: Option<&str>,
) -> Lock {
    let settings = &session.settings;
    let mut lock = Lock { run: again(settings), settings: in_effect(settings), ..Lock::default() };
    lock.model.insert("name".to_owned(), session.model_name.name.clone());
    lock.model.insert("backend".to_owned(), settings.model.name.clone());
    if let Some(identity) = recorder.identity(model) {
        for (name, fact) in identity.facts.into_iter().filter(|(name, _)| !ELSEWHERE.contains(name)) {
            let of = if name == SERVER_FACT { &mut lock.versions } else { &mut lock.model };
            of.insert(name.to_owned(), fact);
        }
    }
    if let Some(digest) = tokenizer_file(settings) {
        lock.model.insert("tokenizer file".to_owned(), digest);
    }
    let mut insert = |name: &str, text: Option<&str>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            lock.template.insert(name.to_owned(), hash_text(text));
        }
    };
    insert("chat template", template);
    insert("system prompt", settings.prompts.system_instruction.as_deref());
    for (name, value) in model.facts().tokenizer.iter() {
        lock.template.insert(repr::str(name), repr::str(value));
    }
    lock.versions.insert("lm_eval".to_owned(), lm_eval_version().to_owned());
    lock
}

/// The digest of the tokenizer in a folder of the user, of which identities have the name alone.
fn tokenizer_file(settings: &RunSettings) -> Option<String> {
    let folders = ["tokenizer", "pretrained", "model"]
        .into_iter()
        .filter_map(|name| settings.model.args.get_str(name)?.as_str());
    let file = folders.map(|folder| Path::new(folder).join("tokenizer.json")).find(|file| file.is_file())?;
    let digest = Sha256::digest(fs_err::read(file).ok()?);
    Some(format!("{:016x}", u64::from_be_bytes(std::array::from_fn(|index| digest[index]))))
}

/// The settings with which the run can be repeated. Secrets are the user's.
fn again(settings: &RunSettings) -> Dict {
    let mut again = Dict::new();
    for (name, value) in settings.stored().iter() {
        let is_repeated = name.as_str().is_some_and(|name| !OF_ONE_RUN.contains(&name));
        let value = public(&secrets::mask_secrets(value));
        if is_repeated && let Some(value) = value {
            again.insert(name.clone(), value);
        }
    }
    if let Some(recipe) =
        settings.recipe.as_ref().filter(|recipe| recipe::names().any(|name| name == recipe.name))
    {
        again.insert("recipe", recipe.name.as_str());
    }
    again
}

/// A value without what is masked.
fn public(value: &Value) -> Option<Value> {
    match value {
        Value::Str(text) if text.contains("***") => None,
        Value::Dict(dict) => {
            let kept = dict.iter().filter_map(|(key, value)| Some((key.clone(), public(value)?)));
            let kept: Dict = kept.collect();
            (!kept.is_empty()).then(|| Value::from(kept))
        }
        other => Some(other.clone()),
    }
}

/// The settings that decide requests and scores.
fn in_effect(settings: &RunSettings) -> BTreeMap<String, String> {
    let (documents, prompts, scoring) = (&settings.documents, &settings.prompts, &settings.scoring);
    let number = |number: Option<i64>| number.map_or(Value::None, Value::Int);
    let choices =
        prompts.choices.map_or(Value::None, |choices| Value::str(format!("{choices:?}").to_lowercase()));
    let judges = scoring.judges.iter().map(|judge| {
        let value = secrets::mask_secrets(&judge.to_value());
        (Value::str(judge.role.as_str()), value)
    });
    let judges: Dict = judges.collect();
    let values = [
        ("compat", Value::str(settings.dialect.name)),
        ("limit", documents.limit.clone()),
        (
            "samples",
            documents
                .samples
                .clone()
                .map_or(Value::None, |samples| Value::from(value_checksum(&Value::from(samples)))),
        ),
        ("repeats", number(documents.repeats.and_then(|repeats| i64::try_from(repeats).ok()))),
        ("reductions", Value::list(documents.reductions.iter().map(|name| Value::Str(Arc::clone(name))))),
        ("num_fewshot", number(prompts.num_fewshot)),
        ("fewshot_seed", number(prompts.seeds[3])),
        ("seeds", Value::list(prompts.seeds[..3].iter().map(|seed| number(*seed)))),
        ("apply_chat_template", Value::Bool(prompts.apply_chat_template.is_on())),
        ("fewshot_as_multiturn", prompts.fewshot_as_multiturn.map_or(Value::None, Value::Bool)),
        ("choices", choices),
        ("gen_kwargs", secrets::mask_secrets(&Value::from(prompts.gen_kwargs.clone()))),
        ("bootstrap_iters", Value::Int(scoring.bootstrap_iters)),
        ("predict_only", Value::Bool(scoring.predict_only)),
        ("judges", Value::from(judges)),
        ("batch_size", settings.model.batch_size.clone()),
        ("device", settings.model.device().map_or(Value::None, Value::str)),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), lock::shown(&value))).collect()
}

fn locked_task(
    task: &Task,
    settings: &RunSettings,
    data: &str,
    requests: &RequestDigests,
    key: &str,
) -> LockedTask {
    let (prompts, documents) = requests.of(key);
    LockedTask {
        definition: task_parts(task, &settings.metadata),
        data: data.to_owned(),
        prompts,
        documents,
        shots: task.config.num_fewshot.unwrap_or(0),
    }
}

/// The lock of a run.
pub(crate) fn of_run(
    session: &Session,
    recorder: &LockRecorder,
    model: &dyn Model,
    (evaluation, digests): (&Evaluated, &Dict),
) -> Result<Lock> {
    // Others have said who they are, perhaps without being contacted.
    if !model.traits().is_worth_saving {
        recorder.ask(model)?;
    }
    let mut lock = without_tasks(session, model, recorder, evaluation.chat_template.as_deref());
    for (key, task) in &evaluation.tasks {
        let data = digests.get_str(key).and_then(Value::as_str).unwrap_or("none");
        let locked = locked_task(task, &session.settings, data, &recorder.requests, key);
        lock.tasks.insert(key.clone(), locked);
    }
    Ok(lock)
}

/// Writes a lock beside the results of the run.
pub(crate) fn write(session: &Session, lock: &Lock) -> Result<Option<PathBuf>> {
    let Some(files) = &session.files else { return Ok(None) };
    let path = path_beside(&files.layout.results_file(&files.stamp));
    write_atomically(&path, lock.to_json()?.as_bytes())?;
    Ok(Some(path))
}

/// The lock beside a results file: `results_….json` has `eval_….lock`.
fn path_beside(results: &Path) -> PathBuf {
    let name = results.file_stem().unwrap_or_default().to_string_lossy();
    let name =
        name.strip_prefix("results_").map_or_else(|| name.to_string(), |stamp| format!("eval_{stamp}"));
    results.with_file_name(format!("{name}.{ENDING}"))
}

/// The lock that a path names: a lock, a results file with a lock beside it, or a folder, of which the newest lock is taken.
pub(crate) fn open(path: &Path) -> Result<(PathBuf, Lock)> {
    let file = if path.is_dir() {
        newest(path)?
    } else if path.extension().is_some_and(|end| end == "json") {
        path_beside(path)
    } else {
        path.to_owned()
    };
    let lock = Lock::read(&file).map_err(|error| {
        if file == path || file.exists() {
            error
        } else {
            Box::new((*error).hint(format!("`{}` has no lock", path.display())))
        }
    })?;
    Ok((file, lock))
}

fn newest(folder: &Path) -> Result<PathBuf> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in fs_err::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() && depth < 3 {
                open.push((path, depth + 1));
            } else if path.extension().is_some_and(|end| end == ENDING)
                && !path.to_string_lossy().ends_with(".journal.lock")
            {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                // Models and names differ, times do not.
                let stamp = name.rsplit_once('_').map_or(name.clone(), |(_, stamp)| stamp.to_owned());
                found.push((stamp, path));
            }
        }
    }
    match found.into_iter().max() {
        Some((_, path)) => Ok(path),
        None => bail!(
            Diagnostic::new(format!("There is no lock in `{}`", folder.display()))
                .hint("Runs with `--output_path` write one beside their results: `eval_….lock`")
        ),
    }
}

/// Fails if a run would differ from a lock, before anything is sent.
pub(crate) fn check(
    session: &Session,
    (path, wanted): (&Path, &Lock),
    model: &Arc<dyn Model>,
    tasks: &TaskDict,
    options: &EvaluateOptions,
    printer: &Printer,
) -> Result<()> {
    let recorder = LockRecorder::new(&session.settings);
    recorder.ask(&**model)?;
    let template = options
        .apply_chat_template
        .is_on()
        .then(|| model.chat_template(template_name(options)))
        .transpose()?;
    let source = template.and_then(|template| template.source);
    let mut lock = without_tasks(session, &**model, &recorder, source.as_deref());
    let digests = build_requests(&**model, tasks.without_warnings(), options, &mut |document| {
        recorder.requests.add(document);
    })?;
    let keys = lmeval_tasks::scoring::ResultKeys::new(tasks, &options.dialect)?;
    for (name, task) in &tasks.tasks {
        let key = keys.get(name);
        let data =
            digests.iter().find(|(known, _)| known == key).map_or("none", |(_, digest)| digest.as_str());
        let mut task = task.clone();
        task.set_num_fewshot(options.num_fewshot);
        let locked = locked_task(&task, &session.settings, data, &recorder.requests, key);
        lock.tasks.insert(key.to_owned(), locked);
    }
    let found = differences(wanted, &lock);
    let (harmless, serious): (Vec<Difference>, Vec<Difference>) =
        found.into_iter().partition(|difference| difference.kind == Kind::Environment);
    for difference in &harmless {
        printer.notes().warn(&format!("`{}` has {}", path.display(), in_words(difference)));
    }
    if serious.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = serious.iter().take(SHOWN).map(|one| format!("\n  {}", in_words(one))).collect();
    let more = serious.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let message = format!(
        "The run would differ from `{}` in {}:{}{more}",
        path.display(),
        counted(serious.len(), "point"),
        list.concat()
    );
    bail!(Diagnostic::new(message).hint("Nothing was sent. Without `--locked`, the run starts all the same"))
}

fn template_name(options: &EvaluateOptions) -> Option<&str> {
    match &options.apply_chat_template {
        lmeval_engine::ChatTemplateChoice::Named(name) => Some(name),
        _ => None,
    }
}

/// A difference in one line.
pub(crate) fn in_words(difference: &Difference) -> String {
    let Difference { kind, what, base, new, tasks } = difference;
    let tasks = match tasks.as_slice() {
        [] => String::new(),
        [one] => format!(" of `{one}`"),
        [first, rest @ ..] => format!(" of `{first}` and {} more", rest.len()),
    };
    let value =
        |text: &str| if text.is_empty() { "nothing".to_owned() } else { format!("`{}`", short(text)) };
    format!("{}: {what}{tasks}, {} there and {} here", kind.name(), value(base), value(new))
}

/// A value that fits on a line; digests keep their beginning.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 60;
    let is_digest = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let most = if is_digest { 8 } else { MOST };
    let line = text.replace('\n', "\\n");
    if line.chars().count() <= most {
        line
    } else {
        line.chars().take(most).chain(std::iter::once('…')).collect()
    }
}
