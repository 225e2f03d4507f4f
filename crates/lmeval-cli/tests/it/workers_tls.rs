//! Workers over TLS, and the words for certificates that do not fit.

use std::path::{Path, PathBuf};

use lmeval_testkit::TestContext;

use crate::hf::{answers, arguments, prepared, run};
use crate::worker_proxy::Proxy;
use crate::workers::{Run, ended, restrict, write_token};

/// A certificate of this crate's tests, or of those of `lmeval-models`.
fn pem(name: &str) -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name);
    let others = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lmeval-models/tests/it/tls").join(name);
    let path: PathBuf = if own.exists() { own } else { others };
    path.canonicalize().unwrap().display().to_string()
}

/// The key of all certificates, readable by its owner only.
fn write_key(context: &TestContext) {
    let path = context.write("key.pem", fs_err::read(pem("key.pem")).unwrap());
    restrict(&path, 0o600);
}

/// Starts a run with a certificate.
fn start(context: &TestContext, tasks: &str, out: &str, certificate: &str) -> Run {
    write_key(context);
    let more = format!(",tls_cert={},tls_key=key.pem", pem(certificate));
    Run::start(context, arguments(tasks, "", out), &more)
}

/// The arguments of a worker that trusts a certificate.
fn worker<'a>(address: &'a str, trusted: &'a str) -> [&'a str; 9] {
    ["worker", "--connect", address, "--token_file", "token", "--patience", "10", "--tls_ca", trusted]
}

#[test]
fn encrypted_workers_match_a_single_process() {
    let context = prepared();
    let tasks = "options,wholes,draws";
    let output = run(&context, &arguments(tasks, "", "one"));
    assert_eq!(output.status, 0, "{output}");
    let mut pool = start(&context, tasks, "pool", "issued.pem");
    pool.wait_for("--token_file FILE --tls_ca FILE`");
    let proxy = Proxy::start(&pool.address);
    // By name, and by address; of the authority, and the certificate itself.
    let by_name = proxy.address.replace("127.0.0.1", "localhost");
    let workers = [(by_name, pem("authority.pem")), (proxy.address.clone(), pem("issued.pem"))]
        .map(|(address, trusted)| context.command(&worker(&address, &trusted)).spawn_piped());
    pool.wait_for("workers: 2");
    let text = pool.finish();
    assert!(!text.contains("warning"), "{text}");
    for worker in workers {
        let (status, text) = ended(worker);
        assert_eq!(status, 0, "{text}");
    }
    for task in tasks.split(',') {
        assert_eq!(answers(&context, "pool", task), answers(&context, "one", task), "{task}");
    }
    proxy.passed(|passed| {
        assert!(passed.bytes.len() > 10_000 && passed.messages.is_empty());
        for clear in ["lm-eval worker", "requests", "even?"] {
            assert!(!passed.bytes.windows(clear.len()).any(|bytes| bytes == clear.as_bytes()), "{clear}");
        }
    });
}

#[test]
fn worker_trusts_the_certificate_of_the_run_under_any_name() {
    let context = prepared();
    for certificate in ["certificate.pem", "elsewhere.pem"] {
        let mut pool = start(&context, "options", certificate, certificate);
        let child = context.command(&worker(&pool.address, &pem(certificate))).spawn_piped();
        pool.wait_for("workers: 1");
        pool.finish();
        assert_eq!(ended(child).0, 0, "{certificate}");
    }
}

#[test]
fn both_sides_name_what_does_not_fit() {
    let context = prepared();
    // The certificate of the run, the one that the worker trusts, and the words of the worker and of the run.
    let cases = [
        (Some("issued.pem"), None, "uses TLS", "it does not use TLS: start it with `--tls_ca FILE`"),
        (
            None,
            Some("authority.pem"),
            "does not use TLS",
            "it uses TLS, and this run does not: add `tls_cert` and `tls_key`",
        ),
        (
            Some("issued.pem"),
            Some("other.pem"),
            "is not accepted: its issuer is not in the file of `--tls_ca`",
            "it does not trust the certificate of this run: it does not know its issuer",
        ),
        (
            Some("expired.pem"),
            Some("expired.pem"),
            "is not accepted: it has expired, or the clock of this machine is wrong",
            "it does not trust the certificate of this run: it has expired",
        ),
        (
            Some("elsewhere.pem"),
            Some("authority.pem"),
            "is not accepted: it is for DnsName(\"head.example\"), not for `127.0.0.1`",
            "it does not trust the certificate of this run: ",
        ),
    ];
    for (certificate, trusted, of_worker, of_run) in cases {
        let mut pool = match certificate {
            Some(certificate) => start(&context, "options", "out", certificate),
            None => Run::start(&context, arguments("options", "", "out"), ""),
        };
        let trusted = trusted.map(pem);
        let words = match &trusted {
            Some(trusted) => worker(&pool.address, trusted).to_vec(),
            None => worker(&pool.address, "")[..7].to_vec(),
        };
        let output = context.run(&words);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains(of_worker), "{of_worker}: {output}");
        assert!(output.stderr.contains("hint: "), "{output}");
        pool.wait_for(of_run);
    }
}

#[test]
fn token_is_required_over_tls() {
    let context = prepared();
    let mut pool = start(&context, "options", "out", "issued.pem");
    write_token(&context, "other", "another token, long enough");
    let trusted = pem("authority.pem");
    let words = ["worker", "--connect", &pool.address, "--token_file", "other", "--tls_ca", &trusted];
    let output = context.run(&words);
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("has another token"), "{output}");
    pool.wait_for("was refused: it has another token");
}

#[test]
fn unusable_certificates_and_keys_are_errors() {
    let context = prepared();
    write_token(&context, "token", "0123456789abcdef0123456789abcdef");
    write_key(&context);
    let key = context.write("open.pem", fs_err::read(pem("key.pem")).unwrap());
    restrict(&key, 0o644);
    context.write("empty.pem", "nothing");
    restrict(&context.work().join("empty.pem"), 0o600);
    let (issued, other) = (pem("issued.pem"), pem("other.pem"));
    let cases = [
        (format!("tls_cert={issued}"), "has `tls_cert`, but not `tls_key`"),
        ("tls_key=key.pem".to_owned(), "has `tls_key`, but not `tls_cert`"),
        ("tls_cert=none.pem,tls_key=key.pem".to_owned(), "none.pem"),
        (format!("tls_cert={issued},tls_key=none.pem"), "Cannot read the key file `none.pem`"),
        (format!("tls_cert={issued},tls_key=open.pem"), "chmod 600 open.pem"),
        ("tls_cert=empty.pem,tls_key=key.pem".to_owned(), "`empty.pem` contains no PEM certificate"),
        (format!("tls_cert={issued},tls_key=empty.pem"), "`empty.pem` contains no private key"),
        (format!("tls_cert={other},tls_key=key.pem"), "`key.pem` is not the key of"),
    ];
    for (tls, expected) in cases {
        let mut words = arguments("options", "", "out");
        words.extend(["--workers".to_owned(), format!("listen=127.0.0.1:0,token_file=token,{tls}")]);
        let output = run(&context, &words);
        assert_eq!(output.status, 1, "{output}");
        assert!(output.stderr.contains(expected), "{expected}: {output}");
    }
    let output = context.run(&worker("127.0.0.1:9", "empty.pem"));
    assert_eq!(output.status, 1, "{output}");
    assert!(output.stderr.contains("`empty.pem` contains no PEM certificate"), "{output}");
}
