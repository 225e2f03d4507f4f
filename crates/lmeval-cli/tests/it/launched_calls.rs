//! Public calls of vLLM, as they are written.

use std::collections::BTreeSet;
use std::path::PathBuf;

use lmeval_testkit::TestContext;

use crate::hf::model;
use crate::launched::{Stage, pretrained};

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
        let mut words = Stage::arguments(name, &with_pretrained(model_args), "long", &format!("out{number}"));
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
