//! Checks of a server's installation for `lm-eval doctor`, without loading weights.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use fs_err as fs;
use lmeval_core::{Check, CheckSink, Diagnose as _, Model as _};

use super::arguments::Arguments;
use super::checkpoint::{Checkpoint, weights};
use super::flags;
use super::interpreter::Interpreter;
use super::software::Software;
use crate::api::ApiModel;

/// The share of a GPU's memory that a server takes by default.
const SHARE: f64 = 0.9;

const GIB: f64 = (1_u64 << 30) as f64;

/// The installation and the arguments to examine.
#[derive(Debug)]
pub(super) struct Examination {
    software: &'static Software,
    interpreter: Interpreter,
    given: Vec<String>,
    folder: PathBuf,
    pretrained: String,
    /// GPUs of each server, and servers.
    gpus: usize,
    servers: usize,
    share: f64,
    cache: Option<PathBuf>,
}

/// A GPU as `nvidia-smi` lists it: its name, and its memory in bytes.
pub(super) struct Gpu {
    name: String,
    total: f64,
    free: f64,
}

impl Examination {
    pub(super) fn new(
        software: &'static Software,
        interpreter: &Interpreter,
        arguments: &Arguments,
        checkpoint: &Checkpoint,
        cache: Option<PathBuf>,
    ) -> Self {
        Self {
            software,
            interpreter: interpreter.clone(),
            given: arguments.given.clone(),
            folder: checkpoint.folder.clone(),
            pretrained: arguments.named.pretrained.clone(),
            gpus: arguments.layout.gpus,
            servers: arguments.layout.servers,
            share: arguments.share.unwrap_or(SHARE),
            cache,
        }
    }

    /// Makes all checks.
    pub(super) fn run(&self, model: &ApiModel, mut report: CheckSink) {
        let Interpreter { python, version, .. } = &self.interpreter;
        let title = self.software.title;
        report(Check::good("server", format!("{title} {version} in `{}`", python.display())));
        let gpus = gpus();
        report(self.check_devices(&gpus));
        report(self.check_memory(&gpus));
        report(self.check_flags());
        report(Check::good("model", format!("`{}`", self.pretrained)));
        report(match model.chat_template(None) {
            Ok(_) => Check::good("chat template", "available for `--apply_chat_template`"),
            Err(error) => Check::note("chat template", error.to_string()),
        });
    }

    fn check_devices(&self, gpus: &[Gpu]) -> Check {
        let needed = self.gpus * self.servers;
        if gpus.is_empty() {
            let detail = "`nvidia-smi` lists no GPU; only a build for other devices can run";
            return Check::note("devices", detail);
        }
        let first = &gpus[0].name;
        let detail = format!("{} × {first}, of which the run needs {needed}", gpus.len());
        if needed > gpus.len() {
            let sizes = self.software.sizes.join("`, `");
            return Check::bad("devices", detail)
                .advise(format!("Lower `{sizes}` or `{}`", self.software.copies.join("`, `")));
        }
        Check::good("devices", detail)
    }

    fn check_memory(&self, gpus: &[Gpu]) -> Check {
        let files = weights(&self.folder).unwrap_or_default();
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        let all: u64 = files.iter().map(size).sum();
        if all == 0 {
            return Check::note("memory", "unknown: the weights are not on this machine yet");
        }
        let each = all as f64 / self.gpus as f64 / GIB;
        let weights = format!("the weights take {each:.1} GiB of each GPU");
        let Some(gpu) = gpus.iter().min_by(|one, other| one.free.total_cmp(&other.free)) else {
            return Check::note("memory", format!("the weights take {:.1} GiB", all as f64 / GIB));
        };
        let room = gpu.total * self.share / GIB;
        let detail = format!(
            "{weights}; {title} may use {room:.1} of {:.1} GiB ({:.1} GiB are free)",
            gpu.total / GIB,
            gpu.free / GIB,
            title = self.software.title
        );
        if each > room {
            return Check::bad("memory", detail)
                .advise("Use more GPUs for each server, or a quantized checkpoint");
        }
        if gpu.free / GIB < room {
            return Check::bad("memory", detail)
                .advise("End the processes that use the GPU, or lower `gpu_memory_utilization`");
        }
        Check::good("memory", detail)
    }

    fn check_flags(&self) -> Check {
        let Self { software, interpreter, given, cache, .. } = self;
        let Some(known) = flags::learn(interpreter, software, cache.as_deref()) else {
            let detail = format!("not checked: `{}` of {} failed", software.help, software.title);
            return Check::note("flags", detail);
        };
        match flags::check(interpreter, software, given, &known) {
            Ok(()) => Check::good("flags", format!("{} given, {} known", given.len(), known.len())),
            Err(error) => {
                error.hints().into_iter().fold(Check::bad("flags", error.to_string()), Check::advise)
            }
        }
    }
}

/// The visible GPUs of NVIDIA; empty without `nvidia-smi`.
pub(super) fn gpus() -> Vec<Gpu> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=index,uuid,name,memory.total,memory.free", "--format=csv,noheader,nounits"]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let Ok(output) = output.as_ref().map(|output| String::from_utf8_lossy(&output.stdout)) else {
        return Vec::new();
    };
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let is_visible = |index: &str, uuid: &str| {
        visible
            .as_deref()
            .is_none_or(|list| list.split(',').any(|device| [index, uuid].contains(&device.trim())))
    };
    let read = |line: &str| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [index, uuid, name, total, free] = fields.as_slice() else { return None };
        let bytes =
            |mebibytes: &str| mebibytes.parse::<f64>().ok().map(|mebibytes| mebibytes * f64::from(1 << 20));
        is_visible(index, uuid).then_some(Gpu {
            name: (*name).to_owned(),
            total: bytes(total)?,
            free: bytes(free)?,
        })
    };
    output.lines().filter_map(read).collect()
}
