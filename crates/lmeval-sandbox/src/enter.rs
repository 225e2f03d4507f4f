//! The child process, which limits itself and becomes the interpreter.

use std::convert::Infallible;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getuid, setrlimit};

use crate::error::Error;
use crate::linux::{self, Landlocked};
use crate::plan::Plan;
use crate::report::Report;

/// Limits this process according to the plan, prints the limits in force to stdout, and executes the interpreter.
///
/// Returns only if that fails.
pub fn enter(plan: &str) -> Result<Infallible, Error> {
    let plan = Plan::from_text(plan)?;
    linux::end_with_parent();
    linux::close_inherited().map_err(Error::Start)?;
    let mut report = Report::default();
    resources(&plan, &mut report);
    let privileges = linux::drop_privileges(plan.isolation.is_nobody);
    let files = linux::restrict_files(&plan.read, &plan.folder);
    let calls = linux::deny_system_calls();
    describe(&plan, privileges, &files, &calls, &mut report);
    let mut text = report.to_json().to_string();
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::Start)?;
    std::io::stdout().flush().map_err(Error::Start)?;
    let mut command = Command::new(&plan.executable);
    let source = command.args(&plan.arguments).exec();
    Err(Error::Interpreter { python: plan.executable, source })
}

/// Sets the resource limits of the process.
fn resources(plan: &Plan, report: &mut Report) {
    let limits = &plan.limits;
    let set = |resource: Resource, value: u64, text: String| {
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).map(|()| text).map_err(|error| error.to_string())
    };
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let seconds = limits.time.as_secs_f64();
    let cpu = limits.cpu_seconds();
    report.add(
        "time",
        Ok(match set(Resource::Cpu, cpu, String::new()) {
            Ok(_) => format!("{seconds} s, and {cpu} s of CPU time"),
            Err(_) => format!("{seconds} s"),
        }),
    );
    let memory = mebibytes(limits.memory);
    report.add("memory", set(Resource::As, limits.memory, format!("{memory} of address space")));
    let file_size = set(Resource::Fsize, limits.file_size, mebibytes(limits.file_size));
    report.add("file size", file_size);
    report.add("open files", set(Resource::Nofile, limits.open_files, limits.open_files.to_string()));
    report.add("core dumps", set(Resource::Core, 0, "none".to_owned()));
    let disk = if plan.isolation.has_disk {
        Ok(format!("{} in the folder", mebibytes(limits.disk)))
    } else {
        Err("the folder is on the system's disk; only the size of each file is limited".to_owned())
    };
    report.add("disk", disk);
    // The kernel counts all threads of a user, so a low limit only makes sense for a new user.
    let threads = if plan.isolation.is_nobody {
        set(Resource::Nproc, limits.threads * 8, format!("{} for all programs", limits.threads * 8))
    } else if getuid().is_root() {
        Err("the kernel does not count threads of root; memory bounds them".to_owned())
    } else if plan.isolation.has("user") {
        set(Resource::Nproc, limits.threads, limits.threads.to_string())
    } else {
        Err("threads of the user's other processes would count; memory bounds them".to_owned())
    };
    report.add("threads", threads);
}

/// Adds the limits that depend on the kernel to the report.
fn describe(
    plan: &Plan,
    privileges: Result<String, String>,
    files: &Result<Landlocked, String>,
    calls: &Result<String, String>,
    report: &mut Report,
) {
    let isolation = &plan.isolation;
    let because = isolation.shared_because.as_deref().unwrap_or("it is shared");
    let in_namespace = |name: &str| {
        if isolation.has(name) { Ok("a namespace".to_owned()) } else { Err(format!("namespace: {because}")) }
    };
    let by_calls = || match calls {
        Ok(_) => Ok("seccomp".to_owned()),
        Err(reason) => Err(format!("seccomp: {reason}")),
    };
    let by_landlock = |is_known: fn(&Landlocked) -> bool| match files {
        Ok(done) if is_known(done) => Ok("landlock".to_owned()),
        Ok(done) => Err(format!("landlock: version {} has no such rule", done.version)),
        Err(reason) => Err(format!("landlock: {reason}")),
    };
    report.add("processes", any("none can be started", [by_calls()]));
    report.add(
        "files",
        match files {
            Ok(done) => Ok(format!(
                "reading and writing in a temporary folder alone, reading of the interpreter and the system's libraries \
                 (landlock, version {})",
                done.version
            )),
            Err(reason) => Err(format!("landlock: {reason}")),
        },
    );
    let mut network = any("none", [by_calls(), in_namespace("network")]);
    if files.as_ref().is_ok_and(|done| done.limits_network) {
        // The rules only cover TCP.
        network = network.map(|text| format!("{text}, TCP also by landlock"));
        network = network.map_err(|reason| format!("{reason}; landlock: only TCP is denied"));
    }
    report.add("network", network);
    let signals = [by_calls(), in_namespace("process"), by_landlock(|done| done.limits_signals)];
    report.add("signals", any("none to other processes", signals));
    report.add("system calls", calls.clone().map_err(|reason| format!("seccomp: {reason}")));
    report.add("privileges", privileges);
    report.add("environment", Ok("cleared".to_owned()));
}

/// A limit that is enforced if one of several mechanisms enforces it.
fn any<const N: usize>(what: &str, parts: [Result<String, String>; N]) -> Result<String, String> {
    let (kept, missing): (Vec<_>, Vec<_>) = parts.into_iter().partition(Result::is_ok);
    if kept.is_empty() {
        return Err(missing.into_iter().filter_map(Result::err).collect::<Vec<_>>().join("; "));
    }
    Ok(format!("{what} ({})", kept.into_iter().filter_map(Result::ok).collect::<Vec<_>>().join(", ")))
}
