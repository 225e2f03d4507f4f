//! The servers that a run can start, and how they differ.

use super::arguments::Style;

/// A server that a run can start.
#[derive(Debug)]
pub(super) struct Software {
    /// Its name in messages.
    pub(super) title: &'static str,
    /// Its Python package.
    pub(super) module: &'static str,
    /// The module that is run, and its file below the package.
    pub(super) entry: (&'static str, &'static str),
    /// The words that start the server where the package has no such file; the model follows.
    pub(super) other_entry: Option<&'static [&'static str]>,
    /// The flag of the model.
    pub(super) model: &'static str,
    /// The flag of the context length.
    pub(super) context: &'static str,
    /// The flag of the tokenizer.
    pub(super) tokenizer: &'static str,
    /// The arguments that say how many GPUs a server needs: the product of their values.
    pub(super) sizes: &'static [&'static str],
    /// The arguments that say how many servers there are.
    pub(super) copies: &'static [&'static str],
    /// The environment variable with the API key; without one, the key is an argument.
    pub(super) key_variable: Option<&'static str>,
    /// The flag of the Unix socket, if it can have one.
    pub(super) socket: Option<&'static str>,
    /// Flags without a value, and the name by which an installed version shows that it knows them.
    pub(super) optional: &'static [(&'static str, &'static str)],
    /// Flags with a value, unless the caller sets them: parameters of a request must not be replaced by the checkpoint's.
    pub(super) defaults: &'static [(&'static str, &'static str)],
    /// Whether `/health` fails with status 503 only when the engine is dead. SGLang's also fails when it is busy.
    pub(super) reports_health: bool,
    /// The path of the base URL.
    pub(super) path: &'static str,
    /// How values become flags.
    pub(super) style: Style,
    /// The words that list all flags.
    pub(super) help: &'static str,
}

pub(super) const VLLM: Software = Software {
    title: "vLLM",
    module: "vllm",
    entry: ("vllm.entrypoints.openai.api_server", "entrypoints/openai/api_server.py"),
    other_entry: Some(&["-m", "vllm.entrypoints.cli.main", "serve"]),
    model: "--model",
    context: "--max-model-len",
    tokenizer: "--tokenizer",
    sizes: &["tensor_parallel_size", "pipeline_parallel_size"],
    copies: &["data_parallel_size"],
    key_variable: Some("VLLM_API_KEY"),
    socket: Some("--uds"),
    optional: &[
        ("--disable-uvicorn-access-log", "disable_uvicorn_access_log"),
        ("--enable-scale-out", "enable_scale_out"),
    ],
    defaults: &[("generation_config", "vllm")],
    reports_health: true,
    path: "/v1/completions",
    style: Style { negated: true, lists: true },
    help: "--help=all",
};

pub(super) const SGLANG: Software = Software {
    title: "SGLang",
    module: "sglang",
    entry: ("sglang.launch_server", "launch_server.py"),
    other_entry: None,
    model: "--model-path",
    context: "--context-length",
    tokenizer: "--tokenizer-path",
    sizes: &["tp_size", "tensor_parallel_size", "pp_size", "pipeline_parallel_size"],
    copies: &["data_parallel_size"],
    key_variable: None,
    socket: None,
    optional: &[],
    defaults: &[],
    reports_health: false,
    path: "/generate",
    style: Style { negated: false, lists: true },
    help: "--help",
};
