//! Several base URLs, and connection reuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::http_support::{Server, ask, client, reply, reserve, serve, serve_on, settings};

fn both(one: &Server, other: &Server) -> Vec<String> {
    vec![one.url.clone(), other.url.clone()]
}

#[tokio::test]
async fn balances_calls() {
    let servers =
        (serve(|_| async { reply(200, &[], "1") }).await, serve(|_| async { reply(200, &[], "2") }).await);
    let client = client("", |settings| settings.base_urls = both(&servers.0, &servers.1));
    for _ in 0..20 {
        ask(&client, "{}").await.unwrap();
    }
    assert_eq!((servers.0.hits(), servers.1.hits()), (10, 10));
}

#[tokio::test]
async fn ejects_a_failing_server_and_readmits_it() {
    let works = Arc::new(AtomicBool::new(false));
    let is_working = Arc::clone(&works);
    let weak = serve(move |_| {
        let status = if is_working.load(Ordering::SeqCst) { 200 } else { 503 };
        async move { reply(status, &[], "1") }
    })
    .await;
    let strong = serve(|_| async { reply(200, &[], "2") }).await;
    let client = client("", |settings| settings.base_urls = both(&weak, &strong));
    for _ in 0..100 {
        assert_eq!(ask(&client, "{}").await.unwrap(), 2);
    }
    assert!(weak.hits() < 20, "{} calls to a failing server", weak.hits());
    works.store(true, Ordering::SeqCst);
    let started = Instant::now();
    while ask(&client, "{}").await.unwrap() != 1 {
        assert!(started.elapsed() < Duration::from_secs(5), "it is never readmitted");
    }
}

#[tokio::test]
async fn tolerates_a_dead_server_among_others() {
    let down = reserve();
    let dead = down.local_addr().unwrap();
    let alive = serve(|_| async { reply(200, &[], "2") }).await;
    let client = client("", |settings| {
        settings.base_urls = vec![format!("http://{dead}/v1/completions"), alive.url.clone()];
    });
    for _ in 0..50 {
        assert_eq!(ask(&client, "{}").await.unwrap(), 2);
    }
    assert_eq!(alive.hits(), 50);
}

#[tokio::test]
async fn waits_while_all_servers_are_down() {
    let down = [reserve(), reserve()];
    let [one, other] = down.each_ref().map(|socket| socket.local_addr().unwrap());
    let client = client("", |settings| {
        settings.base_urls = vec![format!("http://{one}/"), format!("http://{other}/")];
    });
    let back = async {
        while client.stats().retries.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let [_one, other] = down;
        serve_on(other.listen(8).unwrap(), |_| async { reply(200, &[], "2") })
    };
    let (answer, _server) = tokio::join!(ask(&client, "{}"), back);
    assert_eq!(answer.unwrap(), 2);
}

#[tokio::test]
async fn reuses_connections() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ports = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let seen = Arc::clone(&ports);
    let router = axum::Router::new()
        .fallback(
            move |axum::extract::ConnectInfo(peer): axum::extract::ConnectInfo<std::net::SocketAddr>| {
                seen.lock().unwrap().insert(peer.port());
                async { "42" }
            },
        )
        .into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let client = client(&format!("http://{address}/"), |_| {});
    for _ in 0..50 {
        assert_eq!(ask(&client, "{}").await.unwrap(), 42);
    }
    // One for the call in flight, plus spares that let each connection rest between calls.
    let used = ports.lock().unwrap().len();
    assert!((1..=4).contains(&used), "{used}");
}

#[test]
fn bypasses_proxies_for_loopback() {
    // The environment is read once per process, so another process makes the calls.
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "http_addresses::balances_calls"])
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("http_proxy", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[test]
fn rejects_malformed_base_urls() {
    for url in ["", "localhost:8000", "ftp://host/"] {
        let error = lmeval_models::http::Client::new(settings(url)).unwrap_err();
        assert!(error.to_string().contains("base_url"), "{error}");
    }
}
