//! Servers that a run starts itself: how they are called, and how they end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lmeval_testkit::{Output, ServerOptions, StandInServer, TestCommand, TestContext, python};
use serde_json::Value;

use crate::hf::{DOCUMENTS, answers, model, prepared};

/// How long a server may take to end after its run.
const END: Duration = Duration::from_secs(10);
/// Something is wrong if a condition takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

/// A context with a checkpoint, tasks, and stand-ins for vLLM and SGLang.
pub(crate) struct Stage {
    pub(crate) context: TestContext,
    pub(crate) folder: PathBuf,
    packages: PathBuf,
}

/// A start of a server, as the stand-in has recorded it.
pub(crate) struct Start {
    pub(crate) argv: Vec<String>,
    env: Value,
    /// Its command line, as other users see it.
    cmdline: Vec<String>,
    pub(crate) pid: u32,
    pub(crate) engine: u32,
    pub(crate) worker: u32,
}

impl Start {
    /// The word after a flag.
    pub(crate) fn value(&self, flag: &str) -> Option<&str> {
        let place = self.argv.iter().position(|word| word == flag)?;
        self.argv.get(place + 1).map(String::as_str)
    }

    fn has(&self, flag: &str) -> bool {
        self.argv.iter().any(|word| word == flag)
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        let context = prepared();
        let folder = context.work().join("servers");
        fs_err::create_dir_all(&folder).unwrap();
        let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
        Self { context, folder, packages }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> TestCommand {
        let command = self.context.command(arguments);
        // Sockets go where they can be counted.
        let temporary = self.context.work().join("t");
        fs_err::create_dir_all(&temporary).unwrap();
        command
            .env("PYTHONPATH", &self.packages)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("STANDIN_FOLDER", &self.folder)
            .env("TMPDIR", temporary)
    }

    /// Arguments of a run of tasks.
    pub(crate) fn arguments(name: &str, model_args: &str, tasks: &str, out: &str) -> Vec<String> {
        let python = python();
        let words =
            ["run", "--model", name, "--model_args", model_args, "--tasks", tasks, "--include_path", "tasks"];
        let more = ["--library", "none", "--output_path", out, "--log_samples", "--python"];
        words.into_iter().chain(more).map(str::to_owned).chain([python.display().to_string()]).collect()
    }

    pub(crate) fn run(&self, name: &str, model_args: &str, tasks: &str, out: &str) -> Output {
        let arguments = Self::arguments(name, model_args, tasks, out);
        self.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).run()
    }

    pub(crate) fn fault(&self, start: usize, fault: &str) {
        fs_err::write(self.folder.join(format!("fault-{start}")), fault).unwrap();
    }

    pub(crate) fn start(&self, number: usize) -> Option<Start> {
        let text = fs_err::read_to_string(self.folder.join(format!("start-{number}.json"))).ok()?;
        let record: Value = serde_json::from_str(&text).unwrap();
        let number = |name: &str| u32::try_from(record[name].as_u64().unwrap()).unwrap();
        let words = |name: &str| {
            let words = record[name].as_array().unwrap().iter();
            words.map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        Some(Start {
            argv: words("argv"),
            cmdline: words("cmdline"),
            env: record["env"].clone(),
            pid: number("pid"),
            engine: number("engine"),
            worker: number("worker"),
        })
    }

    pub(crate) fn starts(&self) -> Vec<Start> {
        (1..).map_while(|number| self.start(number)).collect()
    }

    /// The requests that a start has answered.
    pub(crate) fn requests(&self, start: usize) -> usize {
        let text = fs_err::read_to_string(self.folder.join(format!("requests-{start}"))).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// The last request that a start has answered.
    pub(crate) fn request(&self, start: usize) -> Value {
        let text = fs_err::read_to_string(self.folder.join(format!("request-{start}.json"))).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The folders of sockets.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let entries =
            fs_err::read_dir(self.context.work().join("t")).unwrap().map(|entry| entry.unwrap().path());
        let is_ours = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("lm-eval-");
        entries.filter(|path| path.is_dir() && is_ours(path)).collect()
    }

    /// What the servers have logged.
    pub(crate) fn log(&self) -> String {
        let logs = files(&self.context.work().join("out"));
        let logs = logs.iter().filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.map(|path| fs_err::read_to_string(path).unwrap()).collect()
    }

    /// Waits until every process and every socket of the run is gone.
    pub(crate) fn check_gone(&self) {
        let begun = Instant::now();
        loop {
            let alive: Vec<u32> = self
                .starts()
                .iter()
                .flat_map(|start| [start.pid, start.engine, start.worker])
                .filter(|process| is_alive(*process))
                .collect();
            let sockets = self.sockets();
            if alive.is_empty() && sockets.is_empty() {
                return;
            }
            assert!(begun.elapsed() < END, "left after {END:?}: processes {alive:?}, {sockets:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn is_alive(process: u32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited too long until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn kill(process: u32, signal: &str) {
    // It may have ended by itself.
    let _ = Command::new("kill").args([signal, &process.to_string()]).status();
}

pub(crate) fn pretrained() -> String {
    format!("pretrained={}", model().display())
}

#[test]
fn runs_a_task_on_a_server_of_its_own() {
    let stage = Stage::new();
    let output =
        stage.run("vllm", &format!("{},max_model_len=512", pretrained()), "options,wholes,long", "out");
    assert_eq!(output.status, 0, "{output}");
    let starts = stage.starts();
    assert_eq!(starts.len(), 1, "{output}");
    assert!(starts[0].value("--uds").unwrap().ends_with("/s"));
    assert_eq!(starts[0].value("--model"), Some(model().display().to_string().as_str()));
    assert_eq!(starts[0].value("--generation-config"), Some("vllm"));
    assert!(!starts[0].has("--api-key"), "the key is an argument that everybody can read");
    let key = starts[0].env["VLLM_API_KEY"].as_str().unwrap();
    assert!(key.len() == 32 && !output.stderr.contains(key), "{output}");
    assert_eq!(answers(&stage.context, "out", "long").len(), DOCUMENTS);
    stage.check_gone();
    // Everything is answered, so no server is needed.
    let output =
        stage.run("vllm", &format!("{},max_model_len=512", pretrained()), "options,wholes,long", "out");
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(stage.starts().len(), 1, "{output}");
}

#[test]
fn sglang_runs_on_a_port_with_a_key() {
    let stage = Stage::new();
    let arguments = format!(
        "{},tp_size=2,mem_fraction_static=0.7,context_length=512,disable_radix_cache=False",
        pretrained()
    );
    let output = stage.run("sglang", &arguments, "options,long", "out");
    assert_eq!(output.status, 0, "{output}");
    let start = stage.start(1).unwrap();
    assert_eq!(start.value("--model-path"), Some(model().display().to_string().as_str()));
    let key = start.value("--api-key").unwrap();
    assert!(start.cmdline.iter().any(|word| word == "sglang.launch_server"), "{:?}", start.cmdline);
    assert!(!start.cmdline.iter().any(|word| word == key), "every user can read the command line");
    assert!(!start.env.as_object().unwrap().values().any(|value| value == key), "its children would have it");
    assert_eq!(start.value("--tp-size"), Some("2"));
    assert_eq!(start.value("--mem-fraction-static"), Some("0.7"));
    assert_eq!(start.value("--context-length"), Some("512"));
    assert_eq!(start.value("--host"), Some("127.0.0.1"));
    assert!(!start.has("--disable-radix-cache"));
    assert_eq!(start.value("--api-key").unwrap().len(), 32);
    assert!(!output.stderr.contains(start.value("--api-key").unwrap()), "{output}");
    stage.check_gone();
}

#[test]
fn several_servers_share_the_gpus() {
    let stage = Stage::new();
    let arguments = format!("{},max_model_len=512,data_parallel_size=2,tensor_parallel_size=2", pretrained());
    let words = Stage::arguments("vllm", &arguments, "long", "out");
    let command = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let output = command.env("CUDA_VISIBLE_DEVICES", "3,1,0,2").run();
    assert_eq!(output.status, 0, "{output}");
    let starts = stage.starts();
    let devices: BTreeSet<&str> =
        starts.iter().map(|start| start.env["CUDA_VISIBLE_DEVICES"].as_str().unwrap()).collect();
    assert_eq!(devices, BTreeSet::from(["0,2", "3,1"]));
    assert!(starts.iter().all(|start| !start.has("--data-parallel-size")));
    assert_eq!((1..=2).map(|start| stage.requests(start)).filter(|requests| *requests > 0).count(), 2);
    stage.check_gone();
}

#[test]
fn adapters_devices_and_raw_words_reach_the_server() {
    let stage = Stage::new();
    let arguments = format!(
        "{},max_model_len=512,device=cuda:1,lora_local_path={},max_lora_rank=32,server_args=--enforce-eager --seed '7'",
        pretrained(),
        model().display()
    );
    let output = stage.run("vllm", &arguments, "long", "out");
    assert_eq!(output.status, 0, "{output}");
    let start = stage.start(1).unwrap();
    assert_eq!(start.env["CUDA_VISIBLE_DEVICES"], "1");
    assert!(start.has("--enable-lora") && start.has("--enforce-eager"));
    assert_eq!(start.value("--lora-modules").unwrap(), format!("finetuned={}", model().display()));
    assert_eq!(start.value("--max-lora-rank"), Some("32"));
    assert_eq!(start.value("--seed"), Some("7"));
}

#[test]
fn context_length_is_that_of_the_server() {
    let stage = Stage::new();
    let output = stage.run("vllm", &pretrained(), "long", "out");
    assert_eq!(output.status, 0, "{output}");
    let results = results(&stage.context, "out");
    assert_eq!(results["max_length"], 512);
}

/// The newest results file.
fn results(context: &TestContext, out: &str) -> Value {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in fs_err::read_dir(context.work().join(out)).unwrap() {
        let entries = fs_err::read_dir(folder.unwrap().path()).unwrap().map(|entry| entry.unwrap().path());
        files.extend(
            entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("results_")),
        );
    }
    files.sort();
    serde_json::from_str(&fs_err::read_to_string(files.pop().unwrap()).unwrap()).unwrap()
}

#[test]
fn missing_package_is_reported_with_the_interpreter() {
    let stage = Stage::new();
    let words = Stage::arguments("vllm", &pretrained(), "long", "out");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = stage.command(&words).without("PYTHONPATH").run();
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("vLLM is not installed in `"), "{output}");
    assert!(
        output.stderr.contains("pip install vllm") && output.stderr.contains("local-completions"),
        "{output}"
    );
}

#[test]
fn unknown_flags_are_errors_with_the_nearest_name() {
    let stage = Stage::new();
    let arguments = format!("{},max_model_len=512,kv_cache_dtipe=fp8", pretrained());
    for _ in 0..2 {
        let output = stage.run("vllm", &arguments, "long", "out");
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains("The model argument `kv_cache_dtipe` is unknown"), "{output}");
        assert!(output.stderr.contains("Did you mean `kv_cache_dtype`?"), "{output}");
        assert!(stage.starts().is_empty());
    }
    // The flags are remembered, so the second time no server had to refuse it.
    let logs: Vec<PathBuf> = files(&stage.context.work().join("out"));
    assert_eq!(
        logs.iter().filter(|path| path.extension().is_some_and(|name| name == "log")).count(),
        1,
        "{logs:?}"
    );
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // A run creates its folder when it needs it.
    for entry in fs_err::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn server_that_cannot_load_shows_its_last_lines_and_the_cause() {
    let stage = Stage::new();
    stage.fault(1, "crash");
    let output = stage.run("vllm", &format!("{},max_model_len=512", pretrained()), "long", "out");
    assert_eq!(output.status, 1, "{output}");
    for part in [
        "vLLM 0.32.0 ended before it was ready (exit status 1)",
        "torch.OutOfMemoryError: CUDA out of memory",
        "raise `tensor_parallel_size`, lower `gpu_memory_utilization` or `max_model_len`",
        "Its log is `",
    ] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    stage.check_gone();
}

#[test]
fn server_whose_port_is_taken_is_started_again_once() {
    for (taken, status) in [(1, 0), (2, 1)] {
        let stage = Stage::new();
        for start in 1..=taken {
            stage.fault(start, "taken");
        }
        let output = stage.run("sglang", &format!("{},context_length=512", pretrained()), "long", "out");
        assert_eq!(output.status, status, "{output}");
        assert_eq!(stage.starts().len(), 2, "{output}");
        assert!(output.stderr.contains("is started again (1 of 3)"), "{output}");
        stage.check_gone();
    }
}

#[test]
fn server_without_an_engine_is_started_again() {
    let stage = Stage::new();
    stage.fault(1, "sick");
    let output =
        stage.run("vllm", &format!("{},max_model_len=512,num_concurrent=1", pretrained()), "options", "out");
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(stage.starts().len(), 2, "{output}");
    assert!(stage.requests(1) > 3, "{output}");
    stage.check_gone();
}

#[test]
fn flags_that_an_old_list_lacks_are_asked_for_again() {
    let stage = Stage::new();
    let learn = stage.run("vllm", &format!("{},max_model_lem=512", pretrained()), "long", "one");
    assert_eq!(learn.status, 1, "{learn}");
    let lists = files(&stage.context.lm_eval_home().join("cache/flags"));
    assert_eq!(lists.len(), 1, "{learn}");
    let list = fs_err::read_to_string(&lists[0]).unwrap();
    fs_err::write(&lists[0], list.replace("--max-model-len", "--max-model-length")).unwrap();
    let output = stage.run("vllm", &format!("{},max_model_len=512", pretrained()), "long", "two");
    assert_eq!(output.status, 0, "{output}");
}

#[test]
fn repeats_have_seeds_of_their_own() {
    let stage = Stage::new();
    stage.context.write(
        "tasks/drawn.yaml",
        "task: drawn\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/numbers.jsonl}}\n\
         test_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\noutput_type: generate_until\n\
         repeats: 3\ngeneration_kwargs: {until: ['.'], do_sample: true, temperature: 1, max_gen_toks: 5}\n",
    );
    let arguments = format!("{},max_model_len=512,seed=7", pretrained());
    let output = stage.run("vllm", &arguments, "drawn", "out");
    assert_eq!(output.status, 0, "{output}");
    let log = fs_err::read_to_string(stage.folder.join("seeds-1")).unwrap();
    let seeds: BTreeSet<&str> = log.lines().collect();
    assert_eq!(seeds, BTreeSet::from(["7", "8", "9"]), "{log}");
}

#[test]
fn server_that_takes_too_long_is_ended() {
    let stage = Stage::new();
    stage.fault(1, "hold");
    let output = stage.run("vllm", &format!("{},start_timeout=2", pretrained()), "long", "out");
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("was not ready within 2 s"), "{output}");
    assert!(output.stderr.contains("Graph capturing finished"), "{output}");
    stage.check_gone();
}

#[test]
fn server_that_keeps_dying_is_given_up() {
    let stage = Stage::new();
    for start in 1..=5 {
        stage.fault(start, "die:2");
    }
    let output =
        stage.run("vllm", &format!("{},max_model_len=512,num_concurrent=1", pretrained()), "long", "out");
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("vLLM has ended 4 times"), "{output}");
    assert_eq!(stage.starts().len(), 4);
    stage.check_gone();
}

#[test]
fn kept_server_is_used_again() {
    let stage = Stage::new();
    let arguments = format!("{},max_model_len=512,keep_server=True", pretrained());
    let first = stage.run("vllm", &arguments, "options", "one");
    assert_eq!(first.status, 0, "{first}");
    let start = stage.start(1).unwrap();
    assert!(is_alive(start.pid) && is_alive(start.engine));
    assert!(first.stderr.contains(&format!("kill -- -{}", start.pid)), "{first}");
    // A server that is ready at once is not reported as starting.
    let starting = first.stderr.find("Starting vLLM").unwrap_or(usize::MAX);
    assert!(first.stderr.find("kill -- -").is_some_and(|said| said < starting), "{first}");
    let second = stage.run("vllm", &arguments, "long", "two");
    assert_eq!(second.status, 0, "{second}");
    assert_eq!(stage.starts().len(), 1, "{second}");
    // Other flags need another server.
    let third = stage.run("vllm", &format!("{arguments},enforce_eager=True"), "long", "three");
    assert_eq!(third.status, 0, "{third}");
    assert_eq!(stage.starts().len(), 2);
    let records = files(&stage.context.lm_eval_home().join("cache/servers"));
    assert_eq!(records.len(), 2);
    for record in records {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs_err::metadata(&record).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    for start in stage.starts() {
        kill(start.pid, "-9");
        wait_until("the server is dead", || !is_alive(start.pid));
    }
    // A dead one is started again, and what is left of it is removed.
    let fourth = stage.run("vllm", &arguments, "wholes", "four");
    assert_eq!(fourth.status, 0, "{fourth}");
    assert_eq!(stage.starts().len(), 3);
    let engine = stage.start(1).unwrap().engine;
    wait_until("the engine of the dead server has ended", || !is_alive(engine));
    let other = stage.start(2).unwrap();
    kill(other.engine, "-9");
    kill(other.worker, "-9");
    let last = stage.start(3).unwrap();
    let _ = Command::new("kill").args(["--", &format!("-{}", last.pid)]).status();
    wait_until("the group has ended", || !is_alive(last.pid) && !is_alive(last.engine));
}

#[test]
fn doctor_examines_without_a_server() {
    let stage = Stage::new();
    let python = python();
    let model_args = format!("{},enforce_eagre=True", pretrained());
    let python = python.display().to_string();
    let words = ["doctor", "--model", "vllm", "--model_args", &model_args, "--python", &python];
    let output = stage.command(&words).run();
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stdout.contains("vLLM 0.32.0 in `"), "{output}");
    assert!(output.stdout.contains("Did you mean `enforce_eager`?"), "{output}");
    assert!(output.stdout.contains("the weights take"), "{output}");
    assert!(stage.starts().is_empty());
}

#[test]
fn servers_that_are_already_there_are_used() {
    let stage = Stage::new();
    let server = StandInServer::start(ServerOptions::default());
    let arguments = format!("{},max_model_len=512,base_url={}", pretrained(), server.url("/v1/completions"));
    let output = stage.run("vllm", &arguments, "long", "out");
    assert_eq!(output.status, 0, "{output}");
    assert!(stage.starts().is_empty());
    assert!(server.counts().total() >= DOCUMENTS);
}

#[test]
fn kept_servers_that_die_in_a_run_are_started_again_at_their_address() {
    let stage = Stage::new();
    let arguments = format!("{},max_model_len=512,keep_server=True,data_parallel_size=2", pretrained());
    let first = stage.run("vllm", &arguments, "options", "one");
    assert_eq!(first.status, 0, "{first}");
    let starts = stage.starts();
    assert_eq!(starts.len(), 2);
    assert_eq!(starts[0].env["VLLM_API_KEY"], starts[1].env["VLLM_API_KEY"]);
    kill(starts[0].pid, "-9");
    wait_until("the server is dead", || !is_alive(starts[0].pid));
    let second = stage.run("vllm", &arguments, "long", "two");
    assert_eq!(second.status, 0, "{second}");
    let again = stage.start(3).unwrap();
    assert_eq!(again.env["VLLM_API_KEY"], starts[1].env["VLLM_API_KEY"]);
    assert!(stage.start(4).is_none(), "{second}");
    // The address of the server that lives on is used, although this run did not start it.
    let words = Stage::arguments("vllm", &arguments, "wholes", "three");
    stage.fault(4, "hold");
    let mut child = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).spawn();
    kill(starts[1].pid, "-9");
    wait_until("it was started again", || stage.start(4).is_some() || child.try_wait().unwrap().is_some());
    fs_err::write(stage.folder.join("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    for start in stage.starts().iter().skip(2) {
        let _ = Command::new("kill").args(["--", &format!("-{}", start.pid)]).status();
        wait_until("the group has ended", || !is_alive(start.pid) && !is_alive(start.engine));
    }
}

#[test]
fn kept_server_of_other_weights_is_not_used() {
    let stage = Stage::new();
    let folder = stage.context.work().join("checkpoint");
    fs_err::create_dir_all(&folder).unwrap();
    for file in files(&model()) {
        fs_err::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
    }
    let arguments = format!("pretrained={},max_model_len=512,keep_server=True", folder.display());
    for expected in 1..=2 {
        let output = stage.run("vllm", &arguments, "long", "out");
        assert_eq!(output.status, 0, "{output}");
        assert_eq!(stage.starts().len(), expected, "{output}");
        let config = fs_err::read_to_string(folder.join("config.json")).unwrap();
        fs_err::write(folder.join("config.json"), format!("{config} \n")).unwrap();
    }
    for start in stage.starts() {
        let _ = Command::new("kill").args(["--", &format!("-{}", start.pid)]).status();
        wait_until("the group has ended", || !is_alive(start.pid) && !is_alive(start.engine));
    }
}

#[test]
fn thoughts_end_before_stop_strings_apply() {
    for name in ["vllm", "sglang"] {
        let stage = Stage::new();
        stage.context.write(
            "tasks/thoughtful.yaml",
            "task: thoughtful\ndataset_path: json\ndataset_kwargs: {data_files: {test: tasks/numbers.jsonl}}\n\
             test_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\noutput_type: generate_until\n\
             generation_kwargs: {until: [' is'], max_gen_toks: 20}\n",
        );
        let length = if name == "vllm" { "max_model_len" } else { "context_length" };
        // SGLang's server has no flag `--seed`.
        let seed = if name == "vllm" { ",seed=7" } else { "" };
        let arguments = format!("{},{length}=512,think_end_token=</think>{seed}", pretrained());
        let words = Stage::arguments(name, &arguments, "thoughtful", "out");
        let command = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let output = command.env("STANDIN_THOUGHTS", "it is 3</think>").run();
        assert_eq!(output.status, 0, "{output}");
        let found = answers(&stage.context, "out", "thoughtful");
        assert!(found.iter().all(|answer| answer[0][0] == "The answer"), "{found:?}");
        let request = stage.request(1);
        let sent = if name == "vllm" { &request } else { &request["sampling_params"] };
        assert!(!sent["stop"].as_array().unwrap().contains(&Value::from(" is")), "{request}");
        if name == "vllm" {
            assert_eq!(request["seed"], 7);
        }
    }
}

#[test]
fn thinking_models_score_no_options() {
    let stage = Stage::new();
    let arguments =
        format!("{},max_model_len=512,enable_thinking=True,think_end_token=</think>", pretrained());
    let output = stage.run("vllm", &arguments, "options", "out");
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`enable_thinking=True` cannot be used with log-likelihoods"), "{output}");
    assert!(stage.starts().is_empty());
}

#[test]
fn prompts_fill_the_context_up_to_the_answer() {
    let stage = Stage::new();
    let output = stage.run("vllm", &format!("{},max_model_len=255", pretrained()), "long", "out");
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(stage.request(1)["prompt"][0].as_array().unwrap().len(), 5);
}

#[test]
fn refuses_what_would_not_work() {
    let stage = Stage::new();
    let cases = [
        ("vllm", "port=8000", "The model argument `port` cannot be set"),
        ("vllm", "server_args=--ssl-keyfile=x", "The model argument `ssl_keyfile` cannot be set"),
        ("sglang", "api_key=secret-of-mine", "The model argument `api_key` cannot be set"),
        ("sglang", "lora_local_path=x", "`lora_local_path` is an argument of `vllm`"),
        (
            "vllm-vlm",
            "image_width=100,image_max_side=90",
            "`image_max_side` cannot be combined with `image_width`",
        ),
        (
            "vllm",
            "data_parallel_size=2,tensor_parallel_size=2",
            "2 servers with 2 GPUs each need 4, and 3 are visible",
        ),
        ("sglang", "tp_size=2,dp_size=2", "The server needs 4 GPUs, and 3 are visible"),
        ("sglang", "tensor_parallel_size=4", "The server needs 4 GPUs, and 3 are visible"),
    ];
    for (name, arguments, expected) in cases {
        let words = Stage::arguments(name, &format!("{},{arguments}", pretrained()), "long", "out");
        let command = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let output = command.env("CUDA_VISIBLE_DEVICES", "0,1,2").run();
        assert_eq!(output.status, 1, "{arguments}: {output}");
        assert!(output.stderr.contains(expected), "{arguments}: {output}");
        assert!(!output.stderr.contains("secret-of-mine"), "{output}");
    }
    assert!(stage.starts().is_empty());
}

#[test]
fn refused_key_is_an_error() {
    let stage = Stage::new();
    stage.fault(1, "refuse");
    let output = stage.run("vllm", &format!("{},max_model_len=512", pretrained()), "long", "out");
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("vLLM 0.32.0 refuses the key of this run"), "{output}");
    stage.check_gone();
}

#[test]
fn switches_without_a_negative_form_are_left_out() {
    let stage = Stage::new();
    let arguments = format!("{},max_model_len=512,only_on=False,hf_token=hf_secretsecret", pretrained());
    for out in ["one", "two"] {
        let output = stage.run("vllm", &arguments, "long", out);
        assert_eq!(output.status, 0, "{output}");
        assert!(!output.stderr.contains("hf_secretsecret"), "{output}");
    }
    let starts = stage.starts();
    assert_eq!(starts.len(), 2);
    for start in starts {
        assert_eq!(start.env["HF_TOKEN"], "hf_secretsecret");
        assert!(!start.argv.iter().any(|word| word.contains("secretsecret") || word.contains("only-on")));
    }
    for file in files(&stage.context.work().join("one")) {
        let text = fs_err::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("hf_secretsecret"), "{}", file.display());
        if file.extension().is_some_and(|name| name == "log") {
            let mode =
                std::os::unix::fs::PermissionsExt::mode(&fs_err::metadata(&file).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}

#[test]
fn served_commit_is_that_of_the_identity() {
    let stage = Stage::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let repository = stage.context.work().join("hub/models--org--name");
    let snapshot = repository.join("snapshots").join(commit);
    fs_err::create_dir_all(&snapshot).unwrap();
    fs_err::create_dir_all(repository.join("refs")).unwrap();
    fs_err::write(repository.join("refs/main"), commit).unwrap();
    for file in files(&model()) {
        fs_err::copy(&file, snapshot.join(file.file_name().unwrap())).unwrap();
    }
    let words = Stage::arguments("vllm", "pretrained=org/name,max_model_len=512", "long", "out");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = || {
        let hub = stage.context.work().join("hub");
        let output = stage.command(&words).env("HF_HUB_CACHE", hub).env("HF_HUB_OFFLINE", "1").run();
        assert_eq!(output.status, 0, "{output}");
    };
    run();
    let start = stage.start(1).unwrap();
    assert_eq!(start.value("--revision"), Some(commit));
    assert_eq!(start.value("--tokenizer-revision"), Some(commit));
    // Files that the server fetches change nothing: the commit determines them.
    fs_err::write(snapshot.join("generation_config.json"), "{}").unwrap();
    run();
    assert_eq!(stage.starts().len(), 1);
}

#[test]
fn template_variables_of_images_are_sent() {
    let stage = Stage::new();
    for (number, thinks) in ["True", "False"].into_iter().enumerate() {
        let arguments =
            format!("{},max_model_len=512,think_end_token=</t>,enable_thinking={thinks}", pretrained());
        let mut words = Stage::arguments("vllm-vlm", &arguments, "long", "out");
        words.push("--apply_chat_template".to_owned());
        let output = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).run();
        assert_eq!(output.status, 0, "{output}");
        let request = stage.request(number + 1);
        assert_eq!(request["chat_template_kwargs"]["enable_thinking"], thinks == "True");
    }
}
