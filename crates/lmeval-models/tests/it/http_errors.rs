//! Final errors and their messages.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use lmeval_core::{Diagnose as _, ModelErrorKind};

use crate::http_support::{ask, client, reply, serve};

#[tokio::test]
async fn refused_requests_show_the_server_message_and_the_document() {
    for (status, body, expected) in [
        (400, r#"{"error": {"message": "maximum context length is 10"}}"#, "maximum context length is 10"),
        (404, r#"{"object": "error", "message": "The model `x` does not exist"}"#, "does not exist"),
        (413, "<h1>Too large</h1>", "<h1>Too large</h1>"),
        (
            422,
            r#"{"detail": [{"loc": ["body", "prompt"], "msg": "field required"}]}"#,
            "body.prompt: field required",
        ),
    ] {
        let server = serve(move |_| async move { reply(status, &[], body) }).await;
        let error = ask(&client(&server.url, |_| {}), "{}").await.unwrap_err();
        assert_eq!((error.kind(), server.hits()), (ModelErrorKind::Request, 1), "{status}");
        let text = error.to_string();
        assert!(
            text.contains(expected) && text.contains("document 7") && text.contains(&server.url),
            "{text}"
        );
        assert!(text.contains(&status.to_string()), "{text}");
        assert_eq!(error.hints().is_empty(), status == 422, "{status}: {:?}", error.hints());
    }
}

#[tokio::test]
async fn requests_identity_encoding_but_accepts_gzip() {
    let server = serve(|call| async move {
        assert_eq!(call.headers["accept-encoding"], "identity");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"42").unwrap();
        let zipped = encoder.finish().unwrap();
        Response::builder().header("content-encoding", "gzip").body(zipped.into()).unwrap()
    })
    .await;
    assert_eq!(ask(&client(&server.url, |_| {}), "{}").await.unwrap(), 42);
    let odd = serve(|_| async { reply(200, &[("content-encoding", "br")], "?") }).await;
    let error = ask(&client(&odd.url, |_| {}), "{}").await.unwrap_err();
    assert_eq!((error.kind(), odd.hits()), (ModelErrorKind::Answer, 1));
    assert!(error.to_string().contains("content encoding `br`"), "{error}");
}

#[tokio::test]
async fn explains_a_wrong_path() {
    let server = serve(|_| async { reply(404, &[], r#"{"detail": "Not Found"}"#) }).await;
    let base = server.url.replace("/completions", "");
    let error = ask(&client(&base, |_| {}), "{}").await.unwrap_err();
    assert!(
        error.hints()[0].contains(&base) && error.hints()[0].contains("/v1/completions"),
        "{:?}",
        error.hints()
    );
}

#[tokio::test]
async fn a_rejected_key_is_fatal_and_masked() {
    for status in [401, 402, 403] {
        let body = r#"{"error": {"message": "Incorrect API key provided: sk-secret-key."}}"#;
        let server = serve(move |_| async move { reply(status, &[], body) }).await;
        let client = client(&server.url, |settings| {
            settings.key_source = "the environment variable `OPENAI_API_KEY`".into();
        });
        let error = ask(&client, "{}").await.unwrap_err();
        assert_eq!((error.kind(), server.hits()), (ModelErrorKind::Authentication, 1));
        assert!(error.is_fatal() && error.to_string().contains("Incorrect API key provided: ***"), "{error}");
        assert!(error.hints()[0].contains("OPENAI_API_KEY"), "{:?}", error.hints());
        assert!(!format!("{error:?} {client:?}").contains("sk-secret-key"));
    }
}

#[tokio::test]
async fn masks_secrets_in_messages_and_stats() {
    let server = serve(|call| async move {
        let body = format!("{:?} {}", call.headers, call.path);
        if call.hit == 0 { reply(503, &[], &body) } else { reply(400, &[], &body) }
    })
    .await;
    let url = server.url.replace("http://", "http://me:hunter22@") + "?api_key=query-secret";
    let client = client(&url, |_| {});
    let error = ask(&client, "{}").await.unwrap_err();
    let trouble = client.stats().take_retry_reason().unwrap();
    let shown = format!("{error} {error:?} {client:?} {trouble}");
    for secret in ["sk-secret-key", "hunter22", "query-secret", "bWU6aHVudGVyMjI="] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[tokio::test]
async fn follows_redirects_within_the_server_only() {
    let server = serve(|call| async move {
        match call.path.as_str() {
            "/v1/completions" => reply(307, &[("location", "/v2")], ""),
            "/v2" => reply(200, &[], &call.body.len().to_string()),
            _ => reply(404, &[], ""),
        }
    })
    .await;
    assert_eq!(ask(&client(&server.url, |_| {}), "{\"a\": 1}").await.unwrap(), 8);

    let other = serve(|_| async { reply(200, &[], "42") }).await;
    let target = other.url.clone();
    let leading = serve(move |_| {
        let target = target.clone();
        async move { reply(308, &[("location", &target)], "") }
    })
    .await;
    let error = ask(&client(&leading.url, |_| {}), "{}").await.unwrap_err();
    assert_eq!((error.kind(), other.hits()), (ModelErrorKind::Configuration, 0));
    assert!(error.hints()[0].contains(&other.url), "{:?}", error.hints());
}

#[tokio::test]
async fn explains_tls_to_a_plain_server() {
    let server = serve(|_| async { reply(200, &[], "42") }).await;
    let error = ask(&client(&server.url.replace("http:", "https:"), |_| {}), "{}").await.unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Configuration, "{error}");
    assert!(error.hints()[0].contains("http://"), "{:?}", error.hints());
}

#[tokio::test]
async fn names_unreadable_certificate_files() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    fs_err::write(&empty, "no certificate").unwrap();
    for path in [empty, folder.path().join("absent.pem")] {
        let mut settings = crate::http_support::settings("https://host/v1");
        settings.ca_cert_path = Some(path.clone());
        let error = lmeval_models::http::Client::new(settings).unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::Configuration);
        assert!(error.to_string().contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn auxiliary_gets_retry_little_and_send_headers_to_base_url_only() {
    let server = serve(|call| async move {
        match (call.path.as_str(), call.hit) {
            ("/v1/models", 0) => reply(503, &[], ""),
            ("/v1/models", _) if call.headers.contains_key("authorization") => reply(200, &[], "models"),
            _ => reply(404, &[], ""),
        }
    })
    .await;
    let client = client(&server.url, |_| {});
    let models = server.url.replace("completions", "models");
    assert_eq!(client.get(&models, Duration::from_secs(1)).await.unwrap(), "models");
    let error = client.get(&server.url, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ModelErrorKind::Request);

    let other = serve(|call| async move {
        reply(200, &[], if call.headers.contains_key("authorization") { "key" } else { "none" })
    })
    .await;
    assert_eq!(client.get(&other.url, Duration::from_secs(1)).await.unwrap(), "none");
    assert!(client.get("no address", Duration::from_secs(1)).await.is_err());
}

fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// A TLS server with a self-signed certificate, as created by `openssl req -x509`.
fn tls_server(address: &str, certificate: &str) -> String {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let certificate = CertificateDer::from_pem_file(tls_file(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            std::thread::spawn(move || {
                // A client that does not trust the certificate aborts the handshake.
                while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n42").unwrap();
                    stream.flush().unwrap();
                }
            });
        }
    });
    format!("https://{address}:{port}/v1/completions")
}

#[tokio::test]
async fn trusts_a_named_self_signed_certificate() {
    let url = tls_server("127.0.0.1", "certificate.pem");
    let with = |path: Option<&str>| {
        let path = path.map(tls_file);
        client(&url, |settings| settings.ca_cert_path = path)
    };
    assert_eq!(ask(&with(Some("certificate.pem")), "{}").await.unwrap(), 42);
    for path in [None, Some("other.pem")] {
        let error = ask(&with(path), "{}").await.unwrap_err();
        assert_eq!(error.kind(), ModelErrorKind::Configuration, "{error}");
        assert!(error.hints()[0].contains("ca_cert_path"), "{:?}", error.hints());
    }
    // The name in the certificate is checked.
    let elsewhere = tls_server("127.0.0.2", "certificate.pem");
    let named = client(&elsewhere, |settings| settings.ca_cert_path = Some(tls_file("certificate.pem")));
    assert_eq!(ask(&named, "{}").await.unwrap_err().kind(), ModelErrorKind::Configuration);
    // So is its expiry.
    let expired = tls_server("127.0.0.1", "expired.pem");
    let named = client(&expired, |settings| settings.ca_cert_path = Some(tls_file("expired.pem")));
    assert_eq!(ask(&named, "{}").await.unwrap_err().kind(), ModelErrorKind::Configuration);
}

/// A runtime per run, as for evaluations in one process: connections of the last one must not be used.
#[test]
fn connections_of_earlier_runtimes_are_not_used() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let serving = runtime();
    let plain = serving.block_on(serve(|_| async { reply(200, &[], "42") }));
    for url in [plain.url, tls_server("127.0.0.1", "certificate.pem")] {
        let client = client(&url, |settings| {
            settings.ca_cert_path = Some(tls_file("certificate.pem"));
            settings.max_retries = 1;
        });
        for _ in 0..3 {
            let run = runtime();
            for _ in 0..3 {
                assert_eq!(run.block_on(ask(&client, "{}")).unwrap(), 42, "{url}");
            }
            // Waits for its threads, so that its connections are dead.
            drop(run);
        }
    }
}
