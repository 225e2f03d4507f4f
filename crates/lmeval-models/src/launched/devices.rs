//! The devices of each server.

use lmeval_core::{ModelError, ModelSettings};

use super::arguments::{Arguments, Layout};
use super::examine;
use super::interpreter::configuration;

/// The environment variables that select devices: of NVIDIA, AMD, Ascend and Intel. The first one that is set counts.
pub(super) const VARIABLES: [&str; 5] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
];

/// The variable that selects devices, and those that it lists, if it is set.
fn listed() -> (&'static str, Option<Vec<String>>) {
    let set = VARIABLES.into_iter().find_map(|name| {
        let list = std::env::var(name).ok().filter(|list| !list.trim().is_empty())?;
        Some((name, Some(list.split(',').map(|device| device.trim().to_owned()).collect())))
    });
    set.unwrap_or((VARIABLES[0], None))
}

/// Fails if servers need more GPUs than there are, as far as they can be counted. A `device` that does not exist has no effect, as
/// in the reference.
pub(super) fn check(arguments: &mut Arguments, settings: &ModelSettings) -> Result<(), ModelError> {
    let Layout { servers, gpus, device } = arguments.layout;
    let spans_machines = settings.get("nnodes").is_some()
        || settings.text("distributed_executor_backend").as_deref() == Some("ray");
    let needed = servers * gpus;
    if (needed == 1 && device.is_none()) || (spans_machines && servers == 1) {
        return Ok(());
    }
    let (variable, list) = listed();
    let found = list.map_or_else(|| examine::gpus().len(), |list| list.len());
    // Devices of other makers are not counted.
    if found == 0 {
        return Ok(());
    }
    if let Some(index) = device.filter(|index| index + needed > found) {
        arguments.layout.device = None;
        arguments.warnings.push(format!(
            "`device=cuda:{index}` has no effect: the run needs {needed} of {found} visible GPUs"
        ));
    }
    if needed <= found {
        return Ok(());
    }
    let message = match servers {
        1 => format!("The server needs {needed} GPUs, and {found} are visible"),
        servers => format!("{servers} servers with {gpus} GPUs each need {needed}, and {found} are visible"),
    };
    Err(configuration(message).hint(format!(
        "Lower `data_parallel_size` or `tensor_parallel_size`, or make more visible with {variable}"
    )))
}

/// The variable that gives one server its devices, if they are a part of those that are visible.
pub(super) fn visible(layout: &Layout, number: usize) -> Vec<(String, String)> {
    if layout.servers == 1 && layout.device.is_none() {
        return Vec::new();
    }
    let (variable, all) = listed();
    let first = layout.device.unwrap_or(0) + number * layout.gpus;
    let device = |index: usize| match &all {
        Some(all) => all.get(index).cloned(),
        None => Some(index.to_string()),
    };
    let devices: Vec<String> = (first..first + layout.gpus).filter_map(device).collect();
    vec![(variable.to_owned(), devices.join(","))]
}
