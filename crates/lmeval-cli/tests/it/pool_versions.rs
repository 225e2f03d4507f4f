//! Pools of servers with different versions, protocols and weights. Every number is compared with the model's.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lmeval_testkit::{
    ScoringBehavior, ScoringModel, ServerOptions, StandInServer, TailRoute, TestContext, TokenIds,
};

use crate::long_run::results;
use crate::pools::{PATH, Run, arguments, list, write};
use crate::scoring_protocols::{MIXED, Served, check_numbers, prepared, serve, serve_slowly};

/// Not a test, but the process of a server that a test kills.
#[test]
fn member_process() {
    let Some(file) = std::env::var_os("POOL_MEMBER") else { return };
    let served = serve_slowly(BOTH, Duration::from_millis(30));
    let path = std::path::PathBuf::from(file);
    fs_err::write(path.with_extension("new"), served.server.url(PATH)).unwrap();
    fs_err::rename(path.with_extension("new"), path).unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A server in a process of its own; killed when dropped.
struct Process(Child, String);

impl Process {
    fn start(context: &TestContext, name: &str) -> Self {
        let file = context.work().join(name);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "pool_versions::member_process", "--nocapture"]).env("POOL_MEMBER", &file);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !file.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Self(child, fs_err::read_to_string(file).unwrap())
    }

    /// `kill -9`.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) const BOTH: ScoringBehavior = ScoringBehavior {
    owner: "vllm",
    token_ids: TokenIds::Honoured,
    tail: TailRoute::ComputedOnly,
    weights: 1,
    is_half: false,
    noise: 0.0,
    is_chat_only: false,
};

const REMOTE: &str = "tokenizer_backend=remote";

#[test]
fn killed_members_cost_no_answer() {
    let context = prepared(MIXED);
    let mut processes: Vec<Process> =
        (0..3).map(|number| Process::start(&context, &format!("member{number}"))).collect();
    let list = |processes: &[Process]| {
        let urls: Vec<&str> = processes.iter().map(|process| process.1.as_str()).collect();
        write(&context, &serde_json::json!(urls).to_string());
    };
    list(&processes[..2]);
    let mut run = Run::start(&context, &arguments("pick", REMOTE, ",num_concurrent=2"));
    run.wait_until("the first answers", |_| context.work().join("out/m/answers.journal").exists());
    processes[0].kill();
    list(&processes);
    run.wait_for("joined; servers: ");
    processes[1].kill();
    run.finish();
    check_numbers(&context, &ScoringModel::new(BOTH));
}

#[test]
fn returning_members_are_examined_again() {
    let context = prepared(MIXED);
    let (stays, leaves) = (serve_slowly(BOTH, Duration::from_millis(100)), serve(BOTH));
    list(&context, &[&stays.server, &leaves.server]);
    let mut run = Run::start(&context, &arguments("pick", REMOTE, ",num_concurrent=2"));
    run.wait_until("the first answers", |_| leaves.model.counts().next_token > 3);
    // It comes back with other weights under the same name.
    leaves.server.die_while(|| {
        // The faster one would get every other call, so that one has been refused by then.
        let before = stays.model.counts().next_token;
        run.wait_until("answers of the other one", |_| stays.model.counts().next_token > before + 2);
        leaves.model.restart(ScoringBehavior { weights: 2, ..BOTH });
    });
    run.wait_for("is not used: the log-probability of a test token");
    // A fast server, so that the test ends soon.
    let helper = serve(BOTH);
    list(&context, &[&helper.server]);
    run.finish();
    check_numbers(&context, &stays.model);
}

#[test]
fn weights_that_change_without_a_restart_are_noticed() {
    let context = prepared(MIXED);
    // The faster one gets most calls.
    let [stays, changes] = [400, 150].map(|delay| serve_slowly(BOTH, Duration::from_millis(delay)));
    list(&context, &[&stays.server, &changes.server]);
    let mut run = Run::start(&context, &arguments("pick", REMOTE, ",num_concurrent=2,recheck=0.1"));
    // An examination takes two and six at most.
    run.wait_until("the first answers", |_| {
        let (next_token, tail) = tails(&changes);
        next_token + tail > 10
    });
    changes.model.restart(ScoringBehavior { weights: 2, ..BOTH });
    run.wait_for("gives other numbers than when it joined");
    run.wait_for("is not used: the log-probability of a test token");
    // A fast server, so that the test ends soon.
    let helper = serve(BOTH);
    list(&context, &[&helper.server]);
    run.finish();
}

#[test]
fn members_are_examined_while_all_calls_wait() {
    let context = prepared(MIXED);
    let leaves = serve_slowly(BOTH, Duration::from_millis(30));
    list(&context, &[&leaves.server]);
    let mut run = Run::start(&context, &arguments("pick", REMOTE, ",num_concurrent=1,scoring=echo"));
    run.wait_until("the first answers", |_| context.work().join("out/m/answers.journal").exists());
    list(&context, &[]);
    run.wait_for("left after");
    let joins = serve(BOTH);
    list(&context, &[&joins.server]);
    run.finish();
    check_numbers(&context, &joins.model);
}

/// The calls of a server that are not part of an examination.
fn tails(served: &Served) -> (usize, usize) {
    let counts = served.model.counts();
    (counts.next_token, counts.tail)
}

#[test]
fn versions_mix_without_a_wrong_number() {
    let old = ScoringBehavior { token_ids: TokenIds::Ignored, tail: TailRoute::Forbidden, ..BOTH };
    let uninitialized = ScoringBehavior { tail: TailRoute::Uninitialized, ..BOTH };
    for (behavior, protocols) in [
        (old, "none"),
        (ScoringBehavior { token_ids: TokenIds::Masked, ..old }, "none"),
        (ScoringBehavior { token_ids: TokenIds::Refused, tail: TailRoute::Uninitialized, ..BOTH }, "none"),
        (uninitialized, "next_token"),
        (BOTH, "both"),
    ] {
        // From the start, in both orders, and joining later.
        let orders = if behavior.token_ids == TokenIds::Masked || protocols == "both" { 2..3 } else { 0..3 };
        for order in orders {
            let context = prepared(MIXED);
            // Answers take long until the other one has joined.
            let delay = Duration::from_millis(if order == 2 { 300 } else { 0 });
            let (new, other) = (serve_slowly(BOTH, delay), serve(behavior));
            match order {
                0 => list(&context, &[&new.server, &other.server]),
                1 => list(&context, &[&other.server, &new.server]),
                _ => list(&context, &[&new.server]),
            }
            let mut run = Run::start(&context, &arguments("pick", REMOTE, ",num_concurrent=4"));
            if order == 2 {
                run.wait_until("a request", |_| new.model.counts().next_token > 2);
                list(&context, &[&new.server, &other.server]);
                run.wait_for("joined; servers: 2");
                new.server.set_delay(Duration::ZERO);
            }
            let stderr = run.finish();
            check_numbers(&context, &new.model);
            let record = results(&context.work().join("out"))["scoring_protocol"].clone();
            assert_eq!(record["protocol"], "next_token+tail", "{behavior:?}, {order}: {record}\n{stderr}");
            assert_eq!(record["next_token"]["unexpected_answers"], 0, "{behavior:?}, {order}: {record}");
            let (next_token, tail) = tails(&other);
            match protocols {
                // Requests of examinations.
                "none" => {
                    assert!(next_token <= 2 && tail <= 6, "{behavior:?}, {order}: {next_token}, {tail}");
                }
                "next_token" => assert!(tail <= 6, "{behavior:?}, {order}: {tail}"),
                _ => {}
            }
        }
    }
}

#[test]
fn other_weights_under_the_same_name_are_refused() {
    for (scoring, order) in [("", 0), ("", 1), (",scoring=echo", 0), (",scoring=echo", 1)] {
        let context = prepared(MIXED);
        let (right, wrong) =
            (serve_slowly(BOTH, Duration::from_millis(20)), serve(ScoringBehavior { weights: 2, ..BOTH }));
        list(&context, &if order == 0 { vec![&right.server, &wrong.server] } else { vec![&right.server] });
        let mut run =
            Run::start(&context, &arguments("pick", REMOTE, &format!(",num_concurrent=2{scoring}")));
        if order == 1 {
            run.wait_until("a request", |_| right.model.counts().echo > 12);
            list(&context, &[&right.server, &wrong.server]);
        }
        run.wait_for(&format!(
            "warning: The server `{}` is not used: the log-probability",
            wrong.server.url(PATH)
        ));
        run.finish();
        check_numbers(&context, &right.model);
        assert_eq!(tails(&wrong), (0, 0));
        assert!(wrong.model.counts().echo <= 12, "only examinations: {:?}", wrong.model.counts());
    }
}

#[test]
fn addresses_that_come_up_later_prove_the_protocol_first() {
    let context = prepared(MIXED);
    let new = serve_slowly(BOTH, Duration::from_millis(60));
    // Holds a port at which nothing listens, until the server does.
    let late = tokio::net::TcpSocket::new_v4().unwrap();
    late.set_reuseaddr(true).unwrap();
    late.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = late.local_addr().unwrap().port();
    let urls = format!("{};http://127.0.0.1:{port}{PATH}", new.server.url(PATH));
    let mut words = arguments("pick", REMOTE, ",num_concurrent=4");
    for word in &mut words {
        *word = word.replace("@pool.json", &urls);
    }
    let mut run = Run::start(&context, &words);
    run.wait_until("a request", |_| new.model.counts().next_token > 1);
    let model = ScoringModel::new(ScoringBehavior { tail: TailRoute::Uninitialized, ..BOTH });
    let scoring = Some(model.clone());
    let server = StandInServer::start(ServerOptions { scoring, port, tokenizer: true, ..Default::default() });
    run.finish();
    drop(server);
    check_numbers(&context, &new.model);
    assert!(model.counts().tail <= 3, "{:?}", model.counts());
}
