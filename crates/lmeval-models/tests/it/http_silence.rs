//! Servers that keep connections open and do not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lmeval_models::http::Client;
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::http_support::{Server, ask, client, reply, reserve, reserve_at, serve, serve_on};

/// A server whose calls and queries wait while it hangs, and the calls it received.
async fn stoppable() -> (Server, watch::Sender<bool>, Arc<AtomicUsize>) {
    let (stop, stopped) = watch::channel(false);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let server = serve(move |call| {
        let mut stopped = stopped.clone();
        if call.path != "/v1/models" {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        async move {
            stopped.wait_for(|stopped| !stopped).await.unwrap();
            reply(200, &[], "42")
        }
    })
    .await;
    (server, stop, calls)
}

/// A client with the default limits, and what it says while it waits.
fn patient(urls: &[&str]) -> (Client, Arc<Mutex<Vec<String>>>) {
    let client = client(urls[0], |settings| {
        settings.base_urls = urls.iter().map(|url| (*url).to_owned()).collect();
        settings.timeout = Duration::from_mins(5);
        settings.patience = Duration::from_mins(5);
        settings.retry_wait = Duration::from_millis(500);
    });
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&said);
    client.stats().on_wait(move |line| heard.lock().unwrap().push(line.to_owned()));
    (client, said)
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_hung_server_without_the_timeout_of_a_call() {
    let (server, stop, calls) = stoppable().await;
    let (client, said) = patient(&[&server.url]);
    ask(&client, "{}").await.unwrap();
    stop.send(true).unwrap();
    let started = Instant::now();
    let resume = async {
        tokio::time::sleep(Duration::from_secs(100)).await;
        stop.send(false).unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&client, "{}"), resume);
    assert_eq!(answer.unwrap(), 42);
    assert!(started.elapsed() < Duration::from_secs(130), "{:?}", started.elapsed());
    // One is answered before, one is taken back, and one is sent after the server answered a query.
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let said = said.lock().unwrap().join("\n");
    assert!(said.contains(" s, with 1 call in flight: No complete answer from"), "{said}");
    assert_eq!(client.stats().waiting(), None);
    assert!(said.contains("to answer queries again: No complete answer"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn one_query_answers_for_all_calls_that_wait() {
    let (server, stop, _) = stoppable().await;
    let client = client(&server.url, |settings| {
        settings.timeout = Duration::from_mins(5);
        settings.patience = Duration::from_secs(20);
        settings.retry_wait = Duration::from_millis(500);
        settings.num_concurrent = Some(30);
    });
    ask(&client, "{}").await.unwrap();
    stop.send(true).unwrap();
    let started = Instant::now();
    let client = Arc::new(client);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let client = Arc::clone(&client);
        calls.spawn(async move { ask(&client, "{}").await });
    }
    assert!(calls.join_all().await.iter().all(Result::is_err));
    // A silence of 15 s, three queries of 5 s, and the patience. One query after the other would take 150 s each round.
    assert!(started.elapsed() < Duration::from_secs(75), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn sends_the_calls_of_a_hung_server_to_another() {
    let (server, stop, _) = stoppable().await;
    let other = serve(|_| async { reply(200, &[], "43") }).await;
    let (client, _) = patient(&[&server.url, &other.url]);
    let reasons = || client.stats().take_retry_reason().unwrap_or_default();
    for _ in 0..4 {
        ask(&client, "{}").await.unwrap();
    }
    stop.send(true).unwrap();
    let started = Instant::now();
    let mut reason = String::new();
    for _ in 0..20 {
        assert_eq!(ask(&client, "{}").await.unwrap(), 43);
        reason += &reasons();
    }
    let seconds = reason.split_once("has not answered for ").and_then(|(_, rest)| rest.split(' ').next());
    assert!(seconds.is_some_and(|seconds| seconds.parse::<u64>().unwrap() >= 15), "{reason}");
    assert!(started.elapsed() < Duration::from_mins(2), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_that_answers_queries_keeps_its_calls() {
    let server = serve(|call| async move {
        if call.path != "/v1/models" {
            tokio::time::sleep(Duration::from_secs(100)).await;
        }
        reply(200, &[], "42")
    })
    .await;
    let (client, said) = patient(&[&server.url]);
    let started = Instant::now();
    assert_eq!(ask(&client, "{}").await.unwrap(), 42);
    assert_eq!(started.elapsed().as_secs(), 100);
    assert_eq!(client.stats().retries.load(Ordering::Relaxed), 0);
    let lines = said.lock().unwrap().len();
    assert!((2..=4).contains(&lines), "{said:?}");
    assert!(said.lock().unwrap()[0].contains("it still answers queries for its models"), "{said:?}");
    // From now on, such a silence is usual.
    ask(&client, "{}").await.unwrap();
    assert_eq!(said.lock().unwrap().len(), lines);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_one_request_at_a_time_loses_its_calls_once_at_most() {
    let turn = Arc::new(tokio::sync::Mutex::new(0_u32));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let server = serve(move |call| {
        let (turn, counted) = (Arc::clone(&turn), Arc::clone(&counted));
        // The work continues if the client leaves.
        let work = tokio::spawn(async move {
            let mut turn = turn.lock().await;
            if call.path != "/v1/models" {
                counted.fetch_add(1, Ordering::SeqCst);
                *turn += 1;
                tokio::time::sleep(Duration::from_secs(if *turn == 1 { 1 } else { 90 })).await;
            }
            reply(200, &[], "42")
        });
        async move { work.await.unwrap() }
    })
    .await;
    let (client, _) = patient(&[&server.url]);
    for _ in 0..4 {
        assert_eq!(ask(&client, "{}").await.unwrap(), 42);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn refused_connections_end_the_calls_of_open_ones() {
    let stopping = reserve();
    let address = stopping.local_addr().unwrap();
    let restarted = reserve_at(address);
    let listener = stopping.listen(8).unwrap();
    let hanging = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        // The connection stays open, like those of a server that is shutting down.
        stream
    });
    let (client, said) = patient(&[&format!("http://{address}/v1/completions")]);
    let was_refused = || said.lock().unwrap().iter().any(|line| line.contains("refused"));
    let restart = async {
        let _open = hanging.await.unwrap();
        while !was_refused() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        let server = serve_on(restarted.listen(8).unwrap(), |_| async { reply(200, &[], "42") });
        std::future::pending::<()>().await;
        drop(server);
    };
    let started = Instant::now();
    let answer = tokio::select! {
        answer = ask(&client, "{}") => answer,
        () = restart => unreachable!("the restarted server stays"),
    };
    assert_eq!(answer.unwrap(), 42);
    assert!(started.elapsed() < Duration::from_mins(4), "{:?}", started.elapsed());
}
