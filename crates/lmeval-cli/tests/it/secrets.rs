//! Keys and passwords reach the server and nothing else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::context;
use crate::server::{Server, TASK, documents};

const SECRETS: [&str; 6] = [
    "sk-environment-1",
    "sk-header-2",
    "sk-argument-3",
    "hf-token-4",
    "sk-address-5",
    "sk-answered-0123456789",
];

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
fn secrets_are_neither_written_nor_printed() {
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

/// A server that repeats the key, the query and more in every answer, and records the requested paths.
fn repeating_server(filler: usize) -> (String, Arc<Mutex<Vec<String>>>) {
    answering_server(move |head, path| {
        let message = format!("{}{head} {path}", "x".repeat(filler));
        ("400 Bad Request", format!("{{\"error\": {{\"message\": {message:?}}}}}"))
    })
}

/// A server whose status and body are a function of the head and the path of a request. Records the requested paths.
fn answering_server(
    answer: impl Fn(&str, &str) -> (&'static str, String) + Send + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/completions", listener.local_addr().unwrap());
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&paths);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (Vec::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push(line.trim().to_owned());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let Some(path) = head.first().map(|line| line.split(' ').nth(1).unwrap().to_owned()) else {
                continue;
            };
            let (status, body) = answer(&head.join(" "), &path);
            seen.lock().unwrap().push(path);
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    (url, paths)
}

fn holds_none(output: &lmeval_testkit::Output, secrets: &[&str]) {
    for secret in secrets {
        assert!(!output.stdout.contains(secret), "{secret}: {output}");
        assert!(!output.stderr.contains(secret), "{secret}: {output}");
    }
}

/// A server may repeat a key so that the excerpt is cut inside it: part of a key is a leak too.
#[test]
fn masks_a_key_cut_by_an_excerpt() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    for filler in [380, 400, 420, 440, 460] {
        let (url, _) = repeating_server(filler);
        let model_args = format!("model=m,base_url={url},tokenizer_backend=none,max_retries=1");
        let words =
            ["run", "--model", "local-completions", "--tasks", "numbers.yaml", "--model_args", &model_args];
        let output = context.command(&words).env("OPENAI_API_KEY", "sk-repeated-0123456789-abcdefghij").run();
        assert_eq!(output.status, 1, "{output}");
        holds_none(&output, &["sk-repeated", "sk-rep", "abcdefghij"]);
    }
}

#[test]
fn url_queries_are_sent_but_not_shown() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let (url, paths) = repeating_server(0);
    let secrets = ["signature-0123456789", "function-code-9876", "fragment-5555"];
    let url = format!("{url}?sig={}&code={}#{}", secrets[0], secrets[1], secrets[2]);
    let model_args = format!("model=m,base_url={url},tokenizer_backend=none,max_retries=1");
    context.write("settings.yaml", format!("model: local-completions\nmodel_args: {model_args:?}\n"));
    for more in
        [&["--model", "local-completions", "--model_args", &model_args][..], &["--config", "settings.yaml"]]
    {
        let words =
            [&["run", "--tasks", "numbers.yaml", "--output_path", "out", "--log_samples"], more].concat();
        let output = context.command(&words).env("OPENAI_API_KEY", "sk-0123456789").run();
        assert_eq!(output.status, 1, "{output}");
        holds_none(&output, &secrets);
    }
    let paths = paths.lock().unwrap();
    assert!(
        paths.iter().any(|path| path == &format!("/v1/models?sig={}&code={}", secrets[0], secrets[1])),
        "{paths:?}"
    );
    assert!(paths.iter().all(|path| path.split('?').next().unwrap().chars().all(|c| c != '&')), "{paths:?}");
}

#[test]
fn results_contain_no_credentials() {
    let context = context();
    let model_args = "bearer=sk-bearer-1234,auth=sk-auth-1234,api_keys=sk-keys-1234,seed=3";
    let words =
        ["run", "--model", "dummy", "--model_args", model_args, "--limit", "2", "--tasks", "demo_all"];
    let more = ["--output_path", "out", "--log_samples", "--metadata", "access_token=sk-meta-1234"];
    let output = context.run(&[&words[..], &more].concat());
    holds_none(&output, &["sk-bearer", "sk-auth", "sk-keys", "sk-meta"]);
    let mut folders = vec![context.work().join("out")];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = String::from_utf8_lossy(&fs_err::read(&path).unwrap()).into_owned();
                assert!(!text.contains("-1234\"") && !text.contains("sk-"), "{}", path.display());
            }
        }
    }
}

/// Whatever characters of a key JSON escapes, neither the journal nor the samples keep it.
#[test]
fn answers_that_repeat_the_key_are_masked() {
    let context = context();
    context.write("numbers.jsonl", documents());
    context.write("numbers.yaml", TASK);
    let key = SECRETS[5];
    for (index, repeated) in
        [key.to_owned(), key.replace('-', "\\u002d"), key.replace('s', "\\u0073")].into_iter().enumerate()
    {
        let (url, _) = answering_server(move |_, path| match path {
            "/v1/models" => ("404 Not Found", "{}".to_owned()),
            _ => (
                "200 OK",
                format!(
                    r#"{{"choices": [{{"index": 0, "text": " 7 {repeated}", "finish_reason": "stop"}}]}}"#
                ),
            ),
        });
        let model_args = format!("model=m,base_url={url},tokenizer_backend=none");
        let folder = format!("out{index}");
        let words =
            ["run", "--model", "local-completions", "--tasks", "numbers.yaml", "--model_args", &model_args];
        let words = [&words[..], &["--output_path", &folder, "--log_samples"]].concat();
        let output = context.command(&words).env("OPENAI_API_KEY", key).run();
        assert_eq!(output.status, 0, "{output}");
        holds_none(&output, &SECRETS);
        search(&context.work().join(&folder));
        let samples = only_file(&context.work().join(&folder), "samples_");
        assert!(samples.contains(" 7 ***"), "{samples}");
    }
}

/// Short excerpts of a settings file do not show lines with secrets.
#[test]
fn excerpts_of_settings_hide_headers() {
    let context = context();
    let lines = "model: local-completions\nmodel_args:\n  model: m\n  header: {Authorization: Bearer sk-1}\n";
    for (name, text) in [
        ("broken.yaml", format!("{lines}  base_url: [http://h\ntasks: x\n")),
        ("inside.yaml", "model_args:\n  header: {\"Authorization\": \"Bearer sk-1\n  more: 1\n".to_owned()),
        ("unknown.yaml", "model: dummy\nheader: {Authorization: Bearer sk-1}\n".to_owned()),
        ("kind.yaml", "model: dummy\nlimit: {api_key: sk-1}\n".to_owned()),
        ("nested.yaml", "model: dummy\nmodel_args:\n  header:\n    X-Key: sk-1\n   odd: 1\n".to_owned()),
    ] {
        context.write(name, text);
        let output = context.run(&["run", "--config", name]);
        assert_eq!(output.status, 1, "{output}");
        assert!(!output.stderr.contains("sk-1"), "{name}: {output}");
    }
    let output = context.run(&["run", "--model", "dummy", "--api_key", "sk-typed-1234"]);
    assert!(output.status != 0);
    holds_none(&output, &["sk-typed-1234"]);
}

/// The only file in a folder with this prefix.
fn only_file(folder: &Path, start: &str) -> String {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with(start) {
                found.push(entry.path());
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    fs_err::read_to_string(&found[0]).unwrap()
}

/// Values of settings with secret-like names may be ordinary words and numbers, which occur in documents and scores.
#[test]
fn data_keeps_words_that_are_also_settings() {
    let context = context();
    let document = "{\"q\": \"A question about the password 20480000, a Cornerstonewords and \
                    sk-document-0123456789\", \"a\": \"4\", \"number\": 0.333333333333}\n";
    context.write("words.jsonl", document);
    let task = TASK.replace("numbers.jsonl", "words.jsonl").replace("numbers", "words");
    let prompt = task.lines().find(|line| line.starts_with("doc_to_text")).unwrap();
    let target = task.lines().find(|line| line.starts_with("doc_to_target")).unwrap();
    let task = task.replace(prompt, "doc_to_text: \"{{q}}:\"").replace(target, "doc_to_target: \"{{a}}\"");
    context.write("words.yaml", task);
    context.write("settings.yaml", "model: dummy\nmetadata: {sort_key: A question about}\n");
    let words = ["run", "--tasks", "words.yaml", "--output_path", "out", "--log_samples", "--format", "json"];
    let more = ["--config", "settings.yaml", "--metadata", "{\"answer_key\": \"question\"}"];
    let output = context
        .command(&[&words[..], &more].concat())
        .env("POSTGRES_PASSWORD", "password")
        .env("PIN_KEY", "333333333333")
        .env("OTHER_KEY", "20480000")
        .env("WORD_TOKEN", "Cornerstonewords")
        .env("DOCUMENT_API_KEY", "sk-document-0123456789")
        .run();
    assert_eq!(output.status, 0, "{output}");
    let sample: serde_json::Value =
        serde_json::from_str(&only_file(&context.work().join("out"), "samples_")).unwrap();
    let shown = "A question about the password 20480000, a Cornerstonewords and ***";
    assert_eq!(sample["doc"]["q"], shown);
    assert_eq!(sample["doc"]["number"], 0.333_333_333_333);
    assert_eq!(sample["arguments"]["gen_args_0"]["arg_0"], format!("{shown}:"));
    let results: serde_json::Value =
        serde_json::from_str(&only_file(&context.work().join("out"), "results_")).unwrap();
    // Values of secret-like settings are still masked where settings are shown.
    assert_eq!(results["configs"]["words"]["metadata"]["answer_key"], "***");
    // A line with the settings comes first.
    let printed = output.stdout.find("{\n").unwrap();
    serde_json::from_str::<serde_json::Value>(&output.stdout[printed..]).unwrap();
}

/// Excerpts of task files are cut, and part of a key would not be recognized.
#[test]
fn masks_a_key_cut_by_a_template_excerpt() {
    let context = context();
    context.write("numbers.jsonl", documents());
    let prompt = TASK.lines().find(|line| line.starts_with("doc_to_text")).unwrap();
    for filler in (60..150).step_by(6) {
        let filler = "x".repeat(filler);
        let broken = format!(
            "doc_to_text: \"{{{{ missing.column.of.it }}}}{filler}sk-template-0123456789-abcdefghij\""
        );
        context.write("numbers.yaml", TASK.replace(prompt, &broken));
        let words = ["run", "--model", "dummy", "--tasks", "numbers.yaml"];
        let output = context.command(&words).env("OPENAI_API_KEY", "sk-template-0123456789-abcdefghij").run();
        assert_eq!(output.status, 1, "{output}");
        holds_none(&output, &["sk-tem", "abcdef", "0123456"]);
    }
}
