//! However a run or its server ends, nothing is lost and nothing is left.

use std::net::TcpListener;
use std::process::{Child, ExitStatus};

use lmeval_testkit::Dice;

use crate::hf::{DOCUMENTS, answers};
use crate::launched::{Stage, files, kill, pretrained, wait_until};

#[test]
fn interrupts_end_the_server() {
    for (signals, is_loading) in [(1, true), (1, false), (2, false), (0, false)] {
        let stage = Stage::new();
        stage.fault(1, if is_loading { "hold" } else { "" });
        let words = Stage::arguments(
            "vllm",
            &format!("{},max_model_len=512,num_concurrent=1", pretrained()),
            "options",
            "out",
        );
        let mut child = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).spawn();
        wait_until("the server has started", || stage.start(1).is_some());
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

#[test]
fn interrupt_ends_a_resumed_run_whose_server_starts() {
    let stage = Stage::new();
    let arguments = format!("{},max_model_len=512", pretrained());
    assert_eq!(stage.run("vllm", &arguments, "options", "out").status, 0);
    stage.fault(2, "hold");
    let words = Stage::arguments("vllm", &arguments, "options,long", "out");
    let mut child = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).spawn();
    wait_until("the server has started", || stage.start(2).is_some());
    kill(child.id(), "-INT");
    assert_eq!(wait_for(&mut child).code(), Some(130));
    stage.check_gone();
    // The answers of the first run are used, and a third server answers the rest.
    let output = stage.run("vllm", &arguments, "options,long", "out");
    assert_eq!(output.status, 0, "{output}");
    assert_eq!(answers(&stage.context, "out", "long").len(), DOCUMENTS);
    assert!(stage.start(3).is_some());
}

#[test]
fn killed_guard_leaves_no_engine() {
    let stage = Stage::new();
    let words = Stage::arguments(
        "vllm",
        &format!("{},max_model_len=512,num_concurrent=1", pretrained()),
        "options,long",
        "out",
    );
    let mut child = stage.command(&words.iter().map(String::as_str).collect::<Vec<_>>()).spawn();
    wait_until("requests are answered", || stage.requests(1) > 5 || child.try_wait().unwrap().is_some());
    let start = stage.start(1).unwrap();
    let status = fs_err::read_to_string(format!("/proc/{}/status", start.pid)).unwrap();
    let guard = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
    kill(guard, "-9");
    assert!(wait_for(&mut child).success());
    assert!(stage.start(2).is_some());
    stage.check_gone();
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
    Worker,
    Run,
    Both,
}

/// When somebody dies.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The run has prepared the place of the server's socket.
    Start,
    Load,
    Flight(usize),
    End,
}

const VICTIMS: [Victim; 5] = [Victim::Server, Victim::Engine, Victim::Worker, Victim::Run, Victim::Both];

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
        let victim = VICTIMS[round % 5];
        let moment = match round / 5 {
            0 => Moment::Start,
            1 => Moment::Load,
            2..=4 => Moment::Flight(1 + dice.roll(all - 10)),
            _ => Moment::End,
        };
        let stage = Stage::new();
        survive(&stage, "vllm", &arguments, tasks, victim, moment);
        let found = ["options", "long"].map(|task| answers(&stage.context, "out", task));
        assert_eq!(found, expected, "{victim:?} at {moment:?}");
        stage.check_gone();
    }
}

#[test]
fn deaths_hold_no_port() {
    let arguments = format!("{},context_length=512,num_concurrent=4", pretrained());
    for victim in VICTIMS {
        let stage = Stage::new();
        survive(&stage, "sglang", &arguments, "long", victim, Moment::Flight(3));
        assert_eq!(answers(&stage.context, "out", "long").len(), DOCUMENTS);
        stage.check_gone();
        for start in stage.starts() {
            let port: u16 = start.value("--port").unwrap().parse().unwrap();
            // As servers do, so that a connection that was closed a moment ago is no obstacle.
            TcpListener::bind(("127.0.0.1", port)).unwrap();
        }
    }
}

/// Kills somebody at a moment of a run. The run has to go well, or, if it was killed itself, the next one.
fn survive(stage: &Stage, server: &str, arguments: &str, tasks: &str, victim: Victim, moment: Moment) {
    if let Moment::Start | Moment::Load = moment {
        stage.fault(1, "hold");
    }
    let words = Stage::arguments(server, arguments, tasks, "out");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut child = stage.command(&words).spawn();
    let is_victim = matches!(victim, Victim::Run | Victim::Both);
    let mut ended = false;
    wait_until("the moment has come", || {
        ended = child.try_wait().unwrap().is_some();
        let is_now = match moment {
            // A server that has not started yet cannot be killed.
            Moment::Start if matches!(victim, Victim::Run) => !stage.sockets().is_empty(),
            Moment::Start | Moment::Load => stage.start(1).is_some(),
            Moment::Flight(requests) => stage.requests(1) >= requests,
            Moment::End => files(&stage.context.work().join("out"))
                .iter()
                .any(|path| path.file_name().unwrap().to_string_lossy().starts_with("results_")),
        };
        ended || is_now
    });
    if let Moment::Load = moment {
        wait_until("weights are loaded", || stage.log().contains("Graph capturing finished"));
    }
    let start = stage.start(1);
    let process = start.map(|start| match victim {
        Victim::Server | Victim::Both => start.pid,
        Victim::Engine => start.engine,
        Victim::Worker => start.worker,
        Victim::Run => 0,
    });
    if let Some(process) = process.filter(|process| *process > 0) {
        kill(process, "-9");
    }
    if is_victim && !ended {
        child.kill().unwrap();
    }
    fs_err::write(stage.folder.join("go"), "").unwrap();
    let status = wait_for(&mut child);
    assert!(status.success() || is_victim, "{victim:?} at {moment:?}: {}", stage.log());
    if !status.success() {
        let output = stage.command(&words).run();
        assert_eq!(output.status, 0, "{victim:?} at {moment:?}: {output}");
    }
}
