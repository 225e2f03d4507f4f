//! Concurrency, rate limits, and released permits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use lmeval_core::{ModelError, ModelErrorKind};
use lmeval_models::http::Client;
use tokio::time::Instant;

use crate::http_support::{ReceivedCall, ask, client, raw, reply, serve, serve_raw};

/// The peak concurrency of a slow server.
#[derive(Clone, Default)]
struct Peak(Arc<(AtomicUsize, AtomicUsize)>);

impl Peak {
    async fn answer(self, _: ReceivedCall) -> axum::response::Response {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.0.0.fetch_sub(1, Ordering::SeqCst);
        reply(200, &[], "42")
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

async fn ask_many(client: &Arc<Client>, count: usize) -> Vec<Result<i64, ModelError>> {
    let calls: Vec<_> = (0..count)
        .map(|_| {
            let client = Arc::clone(client);
            tokio::spawn(async move { ask(&client, "{}").await })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

#[tokio::test]
async fn never_exceeds_a_fixed_limit() {
    let peak = Peak::default();
    let answering = peak.clone();
    let server = serve(move |call| answering.clone().answer(call)).await;
    let client = Arc::new(client(&server.url, |settings| settings.num_concurrent = Some(3)));
    assert_eq!(client.most_in_flight(), 3);
    assert!(ask_many(&client, 60).await.iter().all(Result::is_ok));
    assert_eq!(peak.most(), 3);
}

#[tokio::test]
async fn grows_while_the_server_answers() {
    let peak = Peak::default();
    let answering = peak.clone();
    let server = serve(move |call| answering.clone().answer(call)).await;
    let client = Arc::new(client(&server.url, |_| {}));
    assert_eq!((client.most_in_flight(), client.stats().concurrency.load(Ordering::Relaxed)), (512, 8));
    assert!(ask_many(&client, 512).await.iter().all(Result::is_ok));
    assert!(peak.most() > 32, "{}", peak.most());
    assert!(client.stats().concurrency.load(Ordering::Relaxed) > 32);
}

#[tokio::test]
async fn shrinks_when_the_server_is_overloaded() {
    // A server that rejects more than ten concurrent calls.
    let at_once = Arc::new(AtomicUsize::new(0));
    let server = serve(move |_| {
        let at_once = Arc::clone(&at_once);
        async move {
            let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::time::sleep(Duration::from_millis(3)).await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            if now > 10 { reply(429, &[], "busy") } else { reply(200, &[], "42") }
        }
    })
    .await;
    let client = Arc::new(client(&server.url, |_| {}));
    assert!(ask_many(&client, 400).await.iter().all(Result::is_ok));
    assert!(client.stats().concurrency.load(Ordering::Relaxed) < 32);
    assert!(client.stats().retries.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn a_dropped_call_releases_its_permit() {
    let server = serve(|call| async move {
        if &call.body[..] == b"slow" {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        reply(200, &[], "42")
    })
    .await;
    let client = Arc::new(client(&server.url, |settings| settings.num_concurrent = Some(2)));
    for _ in 0..5 {
        // Two calls are in flight and two are waiting when all are dropped.
        let calls: Vec<_> = (0..4)
            .map(|_| {
                let client = Arc::clone(&client);
                tokio::spawn(async move { ask(&client, "slow").await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        for call in calls {
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
        }
    }
    assert_eq!(client.stats().in_flight.load(Ordering::Relaxed), 0);
    assert!(ask_many(&client, 10).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn leaks_no_permits_after_a_thousand_mixed_failures() {
    for fixed in [Some(6), None] {
        let is_over = Arc::new(AtomicBool::new(false));
        let (calm, meeting) = (Arc::clone(&is_over), Barrier::new(6));
        let server = serve_raw(move |hit| {
            if calm.load(Ordering::SeqCst) {
                // Answers only when six calls are here at once.
                meeting.wait();
                return raw("200 OK", "", "42");
            }
            match hit % 12 {
                0 => raw("429 Too Many Requests", "", "{}"),
                1 => raw("500 Oops", "", "{}"),
                2 => raw("502 Bad Gateway", "", ""),
                3 => Vec::new(),
                4 => b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n4".to_vec(),
                5 => raw("200 OK", "", "{no json"),
                6 => raw("429 Too Many Requests", "retry-after-ms: 2\r\n", ""),
                7 => raw("400 Bad Request", "", r#"{"error": "no"}"#),
                _ => raw("200 OK", "", "42"),
            }
        });
        let client = Arc::new(client(&server.url, |settings| {
            settings.num_concurrent = fixed;
            settings.retry_wait = Duration::from_millis(1);
            settings.max_retries = 30;
        }));
        let mut counts = (0, 0);
        for _ in 0..4 {
            for answer in ask_many(&client, 250).await {
                match answer {
                    Ok(_) => counts.0 += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ModelErrorKind::Request, "{error}");
                        counts.1 += 1;
                    }
                }
            }
        }
        assert_eq!(counts.0 + counts.1, 1000);
        assert!(client.stats().retries.load(Ordering::Relaxed) > 500);
        assert_eq!(client.stats().in_flight.load(Ordering::Relaxed), 0);
        if fixed.is_some() {
            is_over.store(true, Ordering::SeqCst);
            let answers = tokio::time::timeout(Duration::from_secs(5), ask_many(&client, 12)).await;
            assert!(answers.expect("fewer than six permits are left").iter().all(Result::is_ok));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn respects_requests_and_tokens_per_minute() {
    let server = serve(|_| async { reply(200, &[], "42") }).await;
    let requests = Arc::new(client(&server.url, |settings| settings.requests_per_minute = Some(600.0)));
    let started = Instant::now();
    assert!(ask_many(&requests, 14).await.iter().all(Result::is_ok));
    // Ten at once and four a tenth of a second apart, on tokio's paused clock.
    assert_eq!(started.elapsed().as_millis() / 10, 40);

    // Every call is about ten tokens.
    let tokens = Arc::new(client(&server.url, |settings| settings.tokens_per_minute = Some(6000.0)));
    let started = Instant::now();
    assert!(ask_many(&tokens, 14).await.iter().all(Result::is_ok));
    assert_eq!(started.elapsed().as_millis() / 10, 40);
}
