//! The differences of two runs, the most likely cause of another score first.

use std::collections::{BTreeMap, BTreeSet};

use super::{Lock, LockedTask};

/// Where a difference is, in order of suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Another model, revision or precision.
    Model,
    /// Another chat template, system prompt or special token.
    Template,
    /// Another limit, temperature or stop string.
    Generation,
    /// Another definition of a task.
    Definition,
    /// Other documents or examples.
    Data,
    /// Another number or choice of examples, or of documents.
    Selection,
    /// Requests differ, and nothing above says why.
    Prompts,
    /// Another way to score.
    Scoring,
    /// Other versions, devices and batches, which change the last digits.
    Environment,
}

impl Kind {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Template => "template",
            Self::Generation => "generation",
            Self::Definition => "definition",
            Self::Data => "data",
            Self::Selection => "selection",
            Self::Prompts => "prompts",
            Self::Scoring => "scoring",
            Self::Environment => "environment",
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where it is.
    pub kind: Kind,
    /// The setting, file or version.
    pub what: String,
    /// The value of the first run; empty if it has none.
    pub base: String,
    /// The value of the second run.
    pub new: String,
    /// The tasks that it is about; empty for all.
    pub tasks: Vec<String>,
}

/// Keys of a definition that act through documents and requests alone: if these are equal, a change has no effect.
const IN_REQUESTS: [&str; 22] = [
    "custom_dataset",
    "dataset_kwargs",
    "dataset_name",
    "dataset_path",
    "description",
    "doc_to_audio",
    "doc_to_image",
    "doc_to_text",
    "fewshot_config",
    "fewshot_delimiter",
    "fewshot_split",
    "formats",
    "gen_prefix",
    "generation_kwargs",
    "process_docs",
    "repeats",
    "target_delimiter",
    "test_split",
    "training_split",
    "use_prompt",
    "validation_split",
    "doc_to_decontamination_query",
];

/// Settings that act through requests alone, with where they belong.
const SETTINGS_IN_REQUESTS: [(&str, Kind); 11] = [
    ("apply_chat_template", Kind::Template),
    ("system_instruction", Kind::Template),
    ("fewshot_as_multiturn", Kind::Template),
    ("gen_kwargs", Kind::Generation),
    ("budgets", Kind::Generation),
    ("repeats", Kind::Generation),
    ("num_fewshot", Kind::Selection),
    ("fewshot_seed", Kind::Selection),
    ("limit", Kind::Selection),
    ("samples", Kind::Selection),
    ("choices", Kind::Scoring),
];

/// Settings that change the last digits at most.
const ENVIRONMENT: [&str; 4] = ["batch_size", "max_batch_size", "device", "bootstrap_iters"];

/// What differs between two runs, in order of suspicion. Changes without effect on documents, requests or scoring are not
/// named.
pub fn differences(base: &Lock, new: &Lock) -> Vec<Difference> {
    let mut found = Vec::new();
    let shared: Vec<&String> = base.tasks.keys().filter(|name| new.tasks.contains_key(*name)).collect();
    let changed = |part: &dyn Fn(&LockedTask) -> String| -> Vec<String> {
        let differ = |name: &&&String| part(&base.tasks[**name]) != part(&new.tasks[**name]);
        shared.iter().filter(differ).map(|name| (*name).clone()).collect()
    };
    let requests = changed(&|task| task.prompts.clone());
    let data = changed(&|task| task.data.clone());
    // Without common tasks there is nothing to see the effect in.
    let has_effect = !requests.is_empty() || shared.is_empty();
    pairs(Kind::Model, &base.model, &new.model, &mut found);
    if has_effect {
        pairs(Kind::Template, &base.template, &new.template, &mut found);
    }
    for (name, from, to) in unequal(&base.settings, &new.settings) {
        let in_requests = SETTINGS_IN_REQUESTS.iter().find(|(known, _)| *known == name);
        let kind = match in_requests {
            Some((_, kind)) if has_effect => *kind,
            Some(_) => continue,
            None if ENVIRONMENT.contains(&name.as_str()) => Kind::Environment,
            None => Kind::Scoring,
        };
        found.push(Difference { kind, what: name, base: from, new: to, tasks: Vec::new() });
    }
    definitions(base, new, &shared, (&requests, &data), &mut found);
    let of_shots: Vec<String> =
        changed(&|task| task.shots.to_string()).into_iter().filter(|name| requests.contains(name)).collect();
    counts("number of examples", &of_shots, (base, new), |task| task.shots.to_string(), &mut found);
    let of_documents = changed(&|task| task.documents.to_string());
    counts("number of documents", &of_documents, (base, new), |task| task.documents.to_string(), &mut found);
    let selects = |difference: &Difference| {
        difference.kind == Kind::Selection
            || difference.what == "split"
            || difference.what.ends_with("_split")
    };
    let is_explained = |name: &String, found: &[Difference]| {
        found.iter().any(|one| selects(one) && (one.tasks.is_empty() || one.tasks.contains(name)))
    };
    let rows: Vec<String> = data.iter().filter(|name| !is_explained(name, &found)).cloned().collect();
    if !rows.is_empty() {
        let (base, new) = one_of(base, new, &rows, |task| &task.data);
        found.push(Difference {
            kind: Kind::Data,
            what: "documents or examples".to_owned(),
            base,
            new,
            tasks: rows,
        });
    }
    let explained = |name: &String| {
        found.iter().any(|one| {
            one.kind < Kind::Prompts
                && one.kind != Kind::Model
                && (one.tasks.is_empty() || one.tasks.contains(name))
        })
    };
    let rest: Vec<String> = requests.iter().filter(|name| !explained(name)).cloned().collect();
    if !rest.is_empty() {
        let (base, new) = one_of(base, new, &rest, |task| &task.prompts);
        found.push(Difference {
            kind: Kind::Prompts,
            what: "requests, for no reason that the locks record".to_owned(),
            base,
            new,
            tasks: rest,
        });
    }
    only(base, new, &mut found);
    pairs(Kind::Environment, &base.versions, &new.versions, &mut found);
    found.sort_by_key(|difference| difference.kind);
    found
}

/// Changed numbers, each pair with its tasks.
fn counts(
    what: &str,
    names: &[String],
    (base, new): (&Lock, &Lock),
    part: impl Fn(&LockedTask) -> String,
    found: &mut Vec<Difference>,
) {
    let mut pairs: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for name in names {
        pairs.entry((part(&base.tasks[name]), part(&new.tasks[name]))).or_default().push(name.clone());
    }
    found.extend(pairs.into_iter().map(|((base, new), tasks)| Difference {
        kind: Kind::Selection,
        what: what.to_owned(),
        base,
        new,
        tasks,
    }));
}

/// Changed keys of definitions, each with its tasks.
fn definitions(
    base: &Lock,
    new: &Lock,
    shared: &[&String],
    (requests, data): (&[String], &[String]),
    found: &mut Vec<Difference>,
) {
    let mut keys: BTreeMap<String, (String, String, Vec<String>)> = BTreeMap::new();
    for name in shared {
        let acts = requests.contains(name) || data.contains(name);
        for (key, from, to) in unequal(&base.tasks[*name].definition, &new.tasks[*name].definition) {
            if !acts && IN_REQUESTS.contains(&key.as_str()) {
                continue;
            }
            keys.entry(key).or_insert_with(|| (from, to, Vec::new())).2.push((*name).clone());
        }
    }
    for (key, (from, to, tasks)) in keys {
        let kind = match key.as_str() {
            "generation_kwargs" | "repeats" => Kind::Generation,
            _ => Kind::Definition,
        };
        found.push(Difference { kind, what: key, base: from, new: to, tasks });
    }
}

/// Tasks of one run alone.
fn only(base: &Lock, new: &Lock, found: &mut Vec<Difference>) {
    let missing = |from: &Lock, other: &Lock| -> Vec<String> {
        from.tasks.keys().filter(|name| !other.tasks.contains_key(*name)).cloned().collect()
    };
    for (tasks, [from, to]) in
        [(missing(base, new), ["evaluated", ""]), (missing(new, base), ["", "evaluated"])]
    {
        if !tasks.is_empty() {
            let (base, new) = (from.to_owned(), to.to_owned());
            found.push(Difference { kind: Kind::Selection, what: "tasks".to_owned(), base, new, tasks });
        }
    }
}

/// The digests of the first task.
fn one_of(
    base: &Lock,
    new: &Lock,
    tasks: &[String],
    part: impl Fn(&LockedTask) -> &String,
) -> (String, String) {
    let of = |lock: &Lock| tasks.first().map(|name| part(&lock.tasks[name]).clone()).unwrap_or_default();
    (of(base), of(new))
}

fn pairs(
    kind: Kind,
    base: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    found: &mut Vec<Difference>,
) {
    for (what, base, new) in unequal(base, new) {
        found.push(Difference { kind, what, base, new, tasks: Vec::new() });
    }
}

/// The keys with different values; what one side lacks is empty.
fn unequal(base: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<(String, String, String)> {
    let keys: BTreeSet<&String> = base.keys().chain(new.keys()).collect();
    let of = |map: &BTreeMap<String, String>, key: &String| map.get(key).cloned().unwrap_or_default();
    let all = keys.into_iter().map(|key| (key.clone(), of(base, key), of(new, key)));
    all.filter(|(_, base, new)| base != new).collect()
}
