//! Several addresses, and connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::http_support::{Server, ask, client, reply, serve, serve_at, settings};

fn both(one: &Server, other: &Server) -> Vec<String> {
    vec![one.url.clone(), other.url.clone()]
}

#[tokio::test]
async fn calls_are_shared_out() {
    let servers =
        (serve(|_| async { reply(200, &[], "1") }).await, serve(|_| async { reply(200, &[], "2") }).await);
    let client = client("", |settings| settings.base_urls = both(&servers.0, &servers.1));
    for _ in 0..20 {
        ask(&client, "{}").await.unwrap();
    }
    assert_eq!((servers.0.hits(), servers.1.hits()), (10, 10));
}

#[tokio::test]
async fn a_server_that_fails_is_left_out_and_taken_back() {
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
    assert!(weak.hits() < 20, "{} calls to a server that fails", weak.hits());
    works.store(true, Ordering::SeqCst);
    let started = Instant::now();
    while ask(&client, "{}").await.unwrap() != 1 {
        assert!(started.elapsed() < Duration::from_secs(5), "it is never taken back");
    }
}

#[tokio::test]
async fn a_dead_server_among_others_costs_little() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
async fn all_away_is_waited_for() {
    let dead = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (one, other) = (dead(), dead());
    let client = client("", |settings| {
        settings.base_urls = vec![format!("http://{one}/"), format!("http://{other}/")];
    });
    let back = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        serve_at(other, |_| async { reply(200, &[], "2") }).await
    };
    let (answer, _server) = tokio::join!(ask(&client, "{}"), back);
    assert_eq!(answer.unwrap(), 2);
}

#[tokio::test]
async fn connections_are_used_again() {
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
    // One for the call in flight, and spare ones, so that each can rest between calls.
    let used = ports.lock().unwrap().len();
    assert!((1..=4).contains(&used), "{used}");
}

#[test]
fn a_proxy_is_never_used_for_this_machine() {
    // The environment is read once and by the whole process, so the calls are made by another one.
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "http_addresses::calls_are_shared_out"])
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
fn addresses_that_are_none_are_named() {
    for url in ["", "localhost:8000", "ftp://host/"] {
        let error = lmeval_models::http::Client::new(settings(url)).unwrap_err();
        assert!(error.to_string().contains("base_url"), "{error}");
    }
}
