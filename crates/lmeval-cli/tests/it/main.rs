//! Tests of the `lm-eval` binary: output, files and exit status.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advice;
mod budget;
mod changed_files;
mod chaos;
mod chaos_long;
mod chat_choices;
mod claims;
mod class_tasks;
mod code;
mod command_line;
mod compare;
mod compare_input;
mod curve;
mod differential;
mod documentation;
mod everyday;
mod explain;
mod fail_under;
mod fidelity;
mod first_contact;
mod foreign;
mod function_sources;
mod group_parity;
mod hf;
mod hostile;
mod hub;
mod interrupted;
mod journal;
mod journal_faults;
mod judge;
mod judge_schema;
mod judge_verdicts;
mod kill_and_resume;
#[cfg(target_os = "linux")]
mod launched;
#[cfg(target_os = "linux")]
mod launched_calls;
#[cfg(target_os = "linux")]
mod launched_deaths;
mod launched_images;
mod lock;
mod long_run;
mod ls;
mod media;
mod media_servers;
mod messages;
mod missing_columns;
mod parity;
mod pool_versions;
mod pools;
mod preview;
mod publish;
mod python;
mod python_models;
#[cfg(unix)]
mod ray;
mod recipes;
mod recorded_runs;
mod repeats;
mod rescore;
mod rescore_chat;
mod run;
mod run_settings;
mod samples;
mod samples_ids;
mod sandbox;
mod score_table;
mod scoring_chat;
mod scoring_journal;
mod scoring_protocols;
mod secrets;
mod server;
mod server_identity;
mod shard_data;
mod shards;
mod show;
mod snapshots;
#[cfg(target_os = "linux")]
mod streams;
mod tasks_command;
mod terminal;
mod traps;
mod unfinished;
mod unusual_documents;
mod validate;
mod variants;
mod verify;
mod view;
mod watch;
mod watch_faults;
#[cfg(unix)]
mod worker_proxy;
#[cfg(unix)]
mod workers;
#[cfg(unix)]
mod workers_faults;
#[cfg(unix)]
mod workers_judge;
#[cfg(unix)]
mod workers_tls;

use lmeval_testkit::TestContext;

/// A fresh folder and home.
fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_lm-eval"))
}
