//! Keys and passwords reach the server and nothing else.

use std::path::Path;
use std::time::Duration;

use crate::context;
use crate::server::{Server, TASK, documents};

const SECRETS: [&str; 5] = ["sk-environment-1", "sk-header-2", "sk-argument-3", "hf-token-4", "sk-address-5"];

fn search(folder: &Path) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path);
            continue;
        }
        let content = fs_err::read(&path).unwrap();
        for secret in SECRETS {
            let found = content.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "`{secret}` is in {}", path.display());
        }
    }
}

#[test]
fn secrets_are_not_written_or_printed() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let server = Server::start(Duration::ZERO, Some("Number 5:"));
    let model_args = format!(
        "{{\"model\": \"m\", \"base_url\": \"{}\", \"tokenizer_backend\": null, \
          \"header\": {{\"Authorization\": \"Bearer sk-header-2\"}}, \"auth_token\": \"sk-argument-3\"}}",
        server.url.replace("//", "//user:sk-address-5@")
    );
    context.write("empty.yaml", "limit: 8\nmodel: local-completions\n");
    for more in [
        &["--show_config", "--write_out"][..],
        &["--format", "json", "--progress", "json"],
        &["--config", "empty.yaml"],
        &["--gen_kwargs", "temperature=0,", "--quiet"],
        &["--model_args", "no_such_argument=1"],
    ] {
        let mut words =
            vec!["run", "--model", "local-completions", "--tasks", "numbers.yaml", "--log_samples"];
        words.extend(["--output_path", "out", "--model_args", &model_args]);
        words.extend(["--hf_hub_log_args", "token=hf-token-4"]);
        words.extend(more);
        let output = context.command(&words).env("OPENAI_API_KEY", SECRETS[0]).run();
        assert_eq!(output.status, 1, "{output}");
        for secret in SECRETS {
            assert!(!output.stdout.contains(secret), "{secret}: {output}");
            assert!(!output.stderr.contains(secret), "{secret}: {output}");
        }
    }
    search(&context.work().join("out"));
}
