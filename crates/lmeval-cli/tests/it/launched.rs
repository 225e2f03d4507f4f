//! Servers that a run starts itself: how they are called, and how they end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use lmeval_testkit::{Dice, Output, TestCommand, TestContext, python};
use serde_json::Value;

use crate::hf::{DOCUMENTS, answers, model, prepared};

/// How long a server may take to end after its run.
const END: Duration = Duration::from_secs(10);
/// Something is wrong if a condition takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

/// A context with a checkpoint, tasks, and stand-ins for vLLM and SGLang.
struct Stage {
    context: TestContext,
    folder: PathBuf,
    packages: PathBuf,
}

/// A start of a server, as the stand-in has recorded it.
struct Start {
    argv: Vec<String>,
    env: Value,
    pid: u32,
    engine: u32,
}

impl Start {
    /// The word after a flag.
    fn value(&self, flag: &str) -> Option<&str> {
        let place = self.argv.iter().position(|word| word == flag)?;
        self.argv.get(place + 1).map(String::as_str)
    }

    fn has(&self, flag: &str) -> bool {
        self.argv.iter().any(|word| word == flag)
    }
}

impl Stage {
    fn new() -> Self {
        let context = prepared();
        let folder = context.work().join("servers");
        fs_err::create_dir_all(&folder).unwrap();
        let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
        Self { context, folder, packages }
    }

    fn command(&self, arguments: &[&str]) -> TestCommand {
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
    fn arguments(&self, name: &str, model_args: &str, tasks: &str, out: &str) -> Vec<String> {
        let python = python();
        let words =
            ["run", "--model", name, "--model_args", model_args, "--tasks", tasks, "--include_path", "tasks"];
        let more = ["--library", "none", "--output_path", out, "--log_samples", "--python"];
        words.into_iter().chain(more).map(str::to_owned).chain([python.display().to_string()]).collect()
    }

    fn run(&self, name: &str, model_args: &str, tasks: &str, out: &str) -> Output {
        let arguments = self.arguments(name, model_args, tasks, out);
        self.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).run()
    }

    fn fault(&self, start: usize, fault: &str) {
        fs_err::write(self.folder.join(format!("fault-{start}")), fault).unwrap();
    }

    fn start(&self, number: usize) -> Option<Start> {
        let text = fs_err::read_to_string(self.folder.join(format!("start-{number}.json"))).ok()?;
        let record: Value = serde_json::from_str(&text).unwrap();
        let number = |name: &str| u32::try_from(record[name].as_u64().unwrap()).unwrap();
        let words = record["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
        Some(Start {
            argv: words.collect(),
            env: record["env"].clone(),
            pid: number("pid"),
            engine: number("engine"),
        })
    }

    fn starts(&self) -> Vec<Start> {
        (1..).map_while(|number| self.start(number)).collect()
    }

    /// The requests that a start has answered.
    fn requests(&self, start: usize) -> usize {
        let text = fs_err::read_to_string(self.folder.join(format!("requests-{start}"))).unwrap_or_default();
        text.parse().unwrap_or(0)
    }

    /// Waits until every process and every socket of the run is gone.
    fn check_gone(&self) {
        let begun = Instant::now();
        loop {
            let alive: Vec<u32> = self
                .starts()
                .iter()
                .flat_map(|start| [start.pid, start.engine])
                .filter(|process| is_alive(*process))
                .collect();
            let sockets = sockets(&self.context.work().join("t"));
            if alive.is_empty() && sockets.is_empty() {
                return;
            }
            assert!(begun.elapsed() < END, "left after {END:?}: processes {alive:?}, {sockets:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The folders of sockets.
fn sockets(temporary: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_dir() && path.file_name().unwrap().to_string_lossy().starts_with("lm-eval-"))
        .collect()
}

fn is_alive(process: u32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited too long until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(process: u32, signal: &str) {
    // It may have ended by itself.
    let _ = Command::new("kill").args([signal, &process.to_string()]).status();
}

fn pretrained() -> String {
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

/// Public calls: the name of the model, its arguments after `pretrained`, the other words, and what the server must get.
/// The numbers are those of the collection of calls.
const CALLS: [(&str, &str, &str, &str, &str); 16] = [
    (
        "1, 2",
        "vllm",
        "tensor_parallel_size=2,add_bos_token=true,trust_remote_code=true,max_model_len=4096",
        "--batch_size auto",
        "--tensor-parallel-size 2 --max-model-len 4096 --trust-remote-code",
    ),
    (
        "4",
        "vllm",
        "tensor_parallel_size=1,enforce_eager=true,kv_cache_dtype=auto,add_bos_token=true,trust_remote_code=False,\
         max_model_len=4096,allow_deprecated_quantization=True,",
        "--batch_size auto",
        "--tensor-parallel-size 1 --enforce-eager --kv-cache-dtype auto --allow-deprecated-quantization \
         --max-model-len 4096",
    ),
    ("5", "vllm", "max_model_len=4096", "--batch_size auto", "--max-model-len 4096"),
    (
        "7",
        "vllm",
        r#"{"cudagraph_capture_sizes": [16, 32]}"#,
        "--batch_size 64",
        "--cudagraph-capture-sizes 16 32",
    ),
    (
        "8",
        "vllm",
        "tensor_parallel_size=4,dtype=auto,gpu_memory_utilization=0.8,trust_remote_code=False",
        "--batch_size 8",
        "--tensor-parallel-size 4 --dtype auto --gpu-memory-utilization 0.8",
    ),
    (
        "10",
        "vllm",
        r#"{"tensor_parallel_size": 2, "enable_expert_parallel": true, "compilation_config": {"mode": 3}}"#,
        "--batch_size 64 --num_fewshot 1",
        r#"--tensor-parallel-size 2 --enable-expert-parallel --compilation-config {"mode": 3}"#,
    ),
    (
        "11",
        "vllm",
        "max_model_len=8192,max_num_batched_tokens=32768,max_num_seqs=128,gpu_memory_utilization=0.8,dtype=bfloat16,\
         max_gen_toks=2048",
        "--batch_size 128",
        "--max-num-batched-tokens 32768 --max-num-seqs 128 --gpu-memory-utilization 0.8 --dtype bfloat16 \
         --max-model-len 8192",
    ),
    (
        "13",
        "vllm",
        "tensor_parallel_size=8,dtype=auto,gpu_memory_utilization=0.8,",
        "--batch_size auto",
        "--tensor-parallel-size 8 --dtype auto --gpu-memory-utilization 0.8",
    ),
    (
        "14",
        "vllm",
        "dtype=auto,add_bos_token=True,trust_remote_code=False,max_model_len=4096,seed=42,gpu_memory_utilization=0.7,\
         pipeline_parallel_size=1,",
        "",
        "--dtype auto --seed 42 --gpu-memory-utilization 0.7 --pipeline-parallel-size 1 --max-model-len 4096",
    ),
    ("16", "vllm-vlm", "add_bos_token=true", "--batch_size auto --apply_chat_template", ""),
    ("17", "vllm", "kv_cache_dtype=fp8,add_bos_token=True", "--batch_size auto", "--kv-cache-dtype fp8"),
    (
        "19, 28",
        "vllm",
        "dtype=bfloat16,trust_remote_code=True,add_bos_token=False,device=cuda,batch_size=auto:8,\
         allow_deprecated_quantization=True,tensor_parallel_size=1",
        "",
        "--dtype bfloat16 --allow-deprecated-quantization --tensor-parallel-size 1 --trust-remote-code",
    ),
    (
        "20",
        "vllm",
        "add_bos_token=true,tensor_parallel_size=1,gpu_memory_utilization=0.8,data_parallel_size=1,max_model_len=8192,\
         kv_cache_dtype=auto",
        "--batch_size 8 --apply_chat_template --fewshot_as_multiturn",
        "--tensor-parallel-size 1 --gpu-memory-utilization 0.8 --kv-cache-dtype auto --max-model-len 8192",
    ),
    (
        "22",
        "vllm",
        "max_gen_toks=2048,max_model_len=8192,enable_prefix_caching=False,kv_cache_dtype=auto",
        "--batch_size 8 --seed 42 --show_config",
        "--no-enable-prefix-caching --kv-cache-dtype auto --max-model-len 8192",
    ),
    (
        "23, 25",
        "vllm",
        r#"{"tensor_parallel_size": 1, "max_model_len": 4096, "enforce_eager": false}"#,
        "--batch_size auto --apply_chat_template --num_fewshot 2",
        "--tensor-parallel-size 1 --no-enforce-eager --max-model-len 4096",
    ),
    (
        "26",
        "vllm-vlm",
        "max_model_len=8192,gpu_memory_utilization=0.7",
        "--batch_size 32 --apply_chat_template --trust_remote_code",
        "--gpu-memory-utilization 0.7 --max-model-len 8192 --trust-remote-code",
    ),
];

/// Adds the path of the checkpoint to arguments in any of their forms.
fn with_pretrained(arguments: &str) -> String {
    match arguments.strip_prefix('{') {
        Some(rest) => format!("{{\"pretrained\": \"{}\", {rest}", model().display()),
        None => format!("{},{arguments}", pretrained()),
    }
}

#[test]
fn public_calls_run_as_written() {
    let context = Stage::new();
    fs_err::copy(chat_template(&context.context), context.context.work().join("template.jinja")).unwrap();
    for (number, (call, name, model_args, more, expected)) in CALLS.iter().enumerate() {
        let mut words =
            context.arguments(name, &with_pretrained(model_args), "long", &format!("out{number}"));
        words.extend(["--limit", "2"].map(str::to_owned));
        words.extend(more.split_whitespace().map(str::to_owned));
        let checkpoint = context.context.work().join("checkpoint");
        for word in &mut words {
            *word = word.replace(&model().display().to_string(), &checkpoint.display().to_string());
        }
        let output = context.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).run();
        assert_eq!(output.status, 0, "call {call}: {output}");
        let start = context.start(number + 1).unwrap();
        let model = checkpoint.display().to_string();
        let line = start.argv.join(" ");
        let flags = line.strip_prefix(&format!("--model {model}")).unwrap().trim();
        let own = " --generation-config vllm --disable-uvicorn-access-log --enable-scale-out --uds ";
        let (flags, socket) =
            format!(" {flags}").split_once(own).map(|(a, b)| (a.trim().to_owned(), b.to_owned())).unwrap();
        assert!(socket.len() < 100 && !socket.contains(' '), "call {call}: {socket}");
        let sorted = |line: &str| {
            line.split(" --")
                .map(|flag| flag.trim_start_matches("--").trim().to_owned())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(sorted(&flags), sorted(expected), "call {call}: {line}");
    }
    context.check_gone();
}

/// Copies the checkpoint and gives it a chat template; returns its path.
fn chat_template(context: &TestContext) -> PathBuf {
    let folder = context.work().join("checkpoint");
    fs_err::create_dir_all(&folder).unwrap();
    for entry in fs_err::read_dir(model()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs_err::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
    }
    let template = "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}";
    fs_err::write(folder.join("chat_template.jinja"), template).unwrap();
    folder.join("chat_template.jinja")
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
    let words = stage.arguments("vllm", &arguments, "long", "out");
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
    assert_eq!(results["max_length"], 511);
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
    let words = stage.arguments("vllm", &pretrained(), "long", "out");
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

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
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
        "lower `max_model_len` or `gpu_memory_utilization`",
        "Its log is `",
    ] {
        assert!(output.stderr.contains(part), "{part}: {output}");
    }
    stage.check_gone();
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
        kill(start.engine, "-9");
    }
    // A dead one is started again, and its socket is removed.
    let fourth = stage.run("vllm", &arguments, "wholes", "four");
    assert_eq!(fourth.status, 0, "{fourth}");
    assert_eq!(stage.starts().len(), 3);
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
fn interrupts_end_the_server() {
    for (signals, is_loading) in [(1, true), (1, false), (2, false), (0, false)] {
        let stage = Stage::new();
        stage.fault(1, if is_loading { "hold" } else { "" });
        let words = stage.arguments(
            "vllm",
            &format!("{},max_model_len=512,num_concurrent=1", pretrained()),
            "options",
            "out",
        );
        let mut child = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).spawn();
        wait_until("the server is there", || stage.start(1).is_some());
        if !is_loading {
            wait_until("requests are answered", || {
                stage.requests(1) > 5 || child.try_wait().unwrap().is_some()
            });
        }
        let signal = if signals == 0 { "-TERM" } else { "-INT" };
        for _ in 0..signals.max(1) {
            kill(child.id(), signal);
        }
        wait_for(&mut child);
        stage.check_gone();
    }
}

fn wait_for(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the run has ended", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Who dies.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Server,
    Engine,
    Run,
    Both,
}

/// When somebody dies.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Load,
    Flight(usize),
    End,
}

#[test]
fn deaths_change_no_result_and_leave_nothing() {
    let calm = Stage::new();
    let arguments = format!("{},max_model_len=512,num_concurrent=4", pretrained());
    let tasks = "options,long";
    let output = calm.run("vllm", &arguments, tasks, "out");
    assert_eq!(output.status, 0, "{output}");
    let expected = ["options", "long"].map(|task| answers(&calm.context, "out", task));
    let all = calm.requests(1);
    let mut dice = Dice::new(11);
    for round in 0..30 {
        let victim = [Victim::Server, Victim::Engine, Victim::Run, Victim::Both][round % 4];
        let moment = match round / 4 % 4 {
            0 => Moment::Load,
            1 | 2 => Moment::Flight(1 + dice.roll(all - 10)),
            _ => Moment::End,
        };
        let stage = Stage::new();
        survive(&stage, &arguments, tasks, victim, moment);
        let found = ["options", "long"].map(|task| answers(&stage.context, "out", task));
        assert_eq!(found, expected, "{victim:?} at {moment:?}");
        stage.check_gone();
    }
}

/// Kills somebody at a moment of a run, and runs again what did not end well.
fn survive(stage: &Stage, arguments: &str, tasks: &str, victim: Victim, moment: Moment) {
    if let Moment::Load = moment {
        stage.fault(1, "hold");
    }
    let words = stage.arguments("vllm", arguments, tasks, "out");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut child = stage.command(&words).spawn();
    wait_until("the server is there", || stage.start(1).is_some());
    let start = stage.start(1).unwrap();
    let mut ended = false;
    wait_until("the moment has come", || {
        ended = child.try_wait().unwrap().is_some();
        let is_now = match moment {
            Moment::Load => true,
            Moment::Flight(requests) => stage.requests(1) >= requests,
            Moment::End => files(&stage.context.work().join("out"))
                .iter()
                .any(|path| path.file_name().unwrap().to_string_lossy().starts_with("results_")),
        };
        ended || is_now
    });
    if matches!(victim, Victim::Server | Victim::Both) {
        kill(start.pid, "-9");
    }
    if matches!(victim, Victim::Engine) {
        kill(start.engine, "-9");
    }
    if matches!(victim, Victim::Run | Victim::Both) && !ended {
        child.kill().unwrap();
    }
    fs_err::write(stage.folder.join("go"), "").unwrap();
    let status = wait_for(&mut child);
    if !status.success() {
        let output = stage.command(&words).run();
        assert_eq!(output.status, 0, "{victim:?} at {moment:?}: {output}");
    }
}
