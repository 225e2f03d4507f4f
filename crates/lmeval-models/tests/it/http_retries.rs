//! Failures that are retried, and those that are not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lmeval_core::{Diagnose as _, ModelError, ModelErrorKind};
use lmeval_models::http::{BadAnswer, Call, Client};
use tokio::time::Instant;

use crate::http_support::{PAUSE, ask, client, raw, reply, reserve, serve, serve_on, serve_raw};

#[tokio::test]
async fn sends_headers_and_body_and_parses_the_answer() {
    let server = serve(|call| async move {
        assert_eq!(call.headers["authorization"], "Bearer sk-secret-key");
        assert_eq!(call.headers["content-type"], "application/json");
        assert_eq!(&call.body[..], br#"{"prompt": 1}"#);
        reply(200, &[], "42")
    })
    .await;
    let client = client(&server.url, |_| {});
    assert_eq!(ask(&client, r#"{"prompt": 1}"#).await.unwrap(), 42);
    assert_eq!((server.hits(), client.stats().in_flight.load(Ordering::Relaxed)), (1, 0));
}

#[tokio::test]
async fn appends_paths_to_the_base_url() {
    let server = serve(|call| async move { reply(200, &[], &call.path.len().to_string()) }).await;
    let base = server.url.replace("/completions", "?key=a");
    let client = client(&base, |_| {});
    let call = Call { path: "/chat/completions", body: "{}".into(), about: "", tokens: 0, scores: false };
    let length = client.post(call, |answer| Ok(String::from_utf8_lossy(answer).into_owned())).await.unwrap();
    assert_eq!(length, "/v1/chat/completions?key=a".len().to_string());
}

#[tokio::test]
async fn retries_transient_failures() {
    for (status, headers, body) in [
        (429, &[][..], r#"{"error": {"message": "slow down"}}"#),
        (429, &[("retry-after", "0")], ""),
        (500, &[], "oops"),
        (502, &[], "<html>bad gateway</html>"),
        (503, &[], ""),
        (504, &[], ""),
        (408, &[], ""),
        (409, &[], ""),
        (425, &[], ""),
        (529, &[], ""),
        (200, &[], "{\"cut"),
        (200, &[], "[\"another shape\"]"),
        (200, &[], ""),
    ] {
        let server = serve(move |call| async move {
            if call.hit < 2 { reply(status, headers, body) } else { reply(200, &[], "42") }
        })
        .await;
        let client = client(&server.url, |_| {});
        assert_eq!(ask(&client, "{}").await.unwrap(), 42, "{status} {body}");
        assert_eq!(
            (server.hits(), client.stats().retries.load(Ordering::Relaxed)),
            (3, 2),
            "{status} {body}"
        );
        let trouble = client.stats().take_retry_reason().unwrap();
        assert!(trouble.contains(&status.to_string()) || status == 200, "{trouble}");
    }
}

#[tokio::test]
async fn retries_closed_sockets_and_truncated_bodies() {
    let server = serve_raw(|hit| match hit {
        0 => Vec::new(),
        1 => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n4".to_vec(),
        2 => b"HTTP/1.1 200".to_vec(),
        3 => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n42".to_vec(),
        4 => b"no HTTP at all\r\n\r\n".to_vec(),
        5 => b"HTTP/1.1 500 Oops\r\ncontent-length: 50\r\n\r\nhalf".to_vec(),
        _ => raw("200 OK", "", "42"),
    });
    let client = client(&server.url, |_| {});
    assert_eq!(ask(&client, "{}").await.unwrap(), 42);
    assert_eq!(server.hits(), 7);
}

#[tokio::test(start_paused = true)]
async fn retries_after_a_timeout() {
    let server = serve(|call| async move {
        if call.hit == 0 {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        reply(200, &[], "42")
    })
    .await;
    let client = client(&server.url, |settings| settings.timeout = Duration::from_millis(100));
    let started = Instant::now();
    assert_eq!(ask(&client, "{}").await.unwrap(), 42);
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!((server.hits(), client.stats().retries.load(Ordering::Relaxed)), (2, 1));
}

#[tokio::test]
async fn times_out_slow_bodies() {
    let server = serve_raw(|hit| {
        let mut answer = raw("200 OK", "", "42");
        if hit == 0 {
            answer.insert(answer.len() - 1, PAUSE);
        }
        answer
    });
    let client = client(&server.url, |settings| settings.timeout = Duration::from_millis(100));
    assert_eq!(ask(&client, "{}").await.unwrap(), 42);
    assert_eq!(client.stats().retries.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn honours_retry_after() {
    for (name, value, wait) in [("retry-after", "1", 1000), ("retry-after-ms", "300", 300)] {
        let server = serve(move |call| async move {
            if call.hit == 0 { reply(429, &[(name, value)], "") } else { reply(200, &[], "42") }
        })
        .await;
        let client = client(&server.url, |_| {});
        let started = Instant::now();
        assert_eq!(ask(&client, "{}").await.unwrap(), 42);
        // Up to a tenth is added.
        let waited = started.elapsed().as_millis();
        assert!((wait..=wait + wait / 10 + 1).contains(&waited), "{name}: {value}: {waited} ms");
    }
}

#[tokio::test]
async fn waits_for_a_server_that_is_down() {
    let down = reserve();
    let address = down.local_addr().unwrap();
    // A second bad answer would end the call; being down is not a bad answer.
    let client = std::sync::Arc::new(client(&format!("http://{address}/v1/completions"), |settings| {
        settings.max_retries = 1;
    }));
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let client = std::sync::Arc::clone(&client);
            tokio::spawn(async move { ask(&client, "{}").await })
        })
        .collect();
    while client.stats().retries.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let server = serve_on(down.listen(64).unwrap(), |_| async { reply(200, &[], "42") });
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 42);
    }
    assert_eq!(server.hits(), 40);
}

#[tokio::test(start_paused = true)]
async fn gives_up_after_patience() {
    let down = reserve();
    let address = down.local_addr().unwrap();
    let client = client(&format!("http://{address}/v1/completions"), |settings| {
        settings.patience = Duration::from_millis(150);
    });
    let started = Instant::now();
    let error = ask(&client, "{}").await.unwrap_err();
    assert!(started.elapsed() >= Duration::from_millis(150));
    assert_eq!(error.kind(), ModelErrorKind::Unreachable);
    let text = error.to_string();
    assert!(text.contains("document 7") && text.contains("patience") && text.contains("refused"), "{text}");
    // Later calls do not wait that long again.
    let started = Instant::now();
    ask(&client, "{}").await.unwrap_err();
    assert!(started.elapsed() < Duration::from_millis(150));
}

#[tokio::test]
async fn gives_up_on_bad_answers_after_max_retries() {
    let shape = serve(|_| async { reply(200, &[], "{\"choices\": []}") }).await;
    let error = ask(&client(&shape.url, |settings| settings.max_retries = 3), "{}").await.unwrap_err();
    assert_eq!((error.kind(), shape.hits()), (ModelErrorKind::Answer, 3));
    let text = error.to_string();
    assert!(
        text.contains("3 attempts") && text.contains("not a number") && text.contains("choices"),
        "{text}"
    );

    let broken = serve(|_| async { reply(500, &[], r#"{"detail": "engine is dead"}"#) }).await;
    let error = ask(&client(&broken.url, |settings| settings.max_retries = 2), "{}").await.unwrap_err();
    assert_eq!((error.kind(), broken.hits()), (ModelErrorKind::Unreachable, 2));
    assert!(error.to_string().contains("engine is dead"), "{error}");
}

#[tokio::test]
async fn reports_an_exhausted_quota() {
    let body = r#"{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}"#;
    let server = serve(move |_| async move { reply(429, &[], body) }).await;
    let error = ask(&client(&server.url, |settings| settings.max_retries = 2), "{}").await.unwrap_err();
    assert_eq!(server.hits(), 2);
    assert!(error.to_string().contains("exceeded your current quota"), "{error}");
    assert!(error.hints()[0].contains("billing"), "{:?}", error.hints());
}

#[tokio::test]
async fn shares_the_retry_budget() {
    let server = serve(|_| async { reply(503, &[], "") }).await;
    let client = client(&server.url, |settings| settings.retry_budget = Some(5));
    let error = ask(&client, "{}").await.unwrap_err();
    assert!(error.to_string().contains("retry_budget"), "{error}");
    ask(&client, "{}").await.unwrap_err();
    assert_eq!(server.hits(), 7, "two first attempts and five more");
}

#[tokio::test]
async fn a_parser_can_fail_a_call() {
    let server = serve(|_| async { reply(200, &[], "{}") }).await;
    let client: Client = client(&server.url, |_| {});
    let call = || Call { path: "", body: "{}".into(), about: "", tokens: 0, scores: false };
    let fatal = |_: &[u8]| -> Result<(), BadAnswer> {
        Err(BadAnswer::Fatal(ModelError::new(ModelErrorKind::Capability, "No `logprobs` in it")))
    };
    let error = client.post(call(), fatal).await.unwrap_err();
    assert!(error.is_fatal());
    let last = |_: &[u8]| -> Result<(), BadAnswer> {
        Err(BadAnswer::Final(
            ModelError::new(ModelErrorKind::Answer, "Filtered, sk-secret-key").hint("sk-secret-key"),
        ))
    };
    let error = client.post(call(), last).await.unwrap_err();
    assert!(!format!("{error:?}").contains("sk-secret-key"), "{error:?}");
    assert_eq!(server.hits(), 2);
}

#[tokio::test(start_paused = true)]
async fn stops_if_a_server_fails_every_call_from_the_beginning() {
    for (status, body) in [(500, r#"{"detail": "engine is dead"}"#), (200, "<html>engine is dead</html>")] {
        for concurrent in [Some(1), None] {
            let server = serve(move |_| async move { reply(status, &[], body) }).await;
            let client = std::sync::Arc::new(client(&server.url, |settings| {
                settings.retry_wait = Duration::from_millis(500);
                settings.num_concurrent = concurrent;
                settings.max_retries = 1000;
            }));
            let started = Instant::now();
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..20 {
                let client = std::sync::Arc::clone(&client);
                calls.spawn(async move { ask(&client, "{}").await });
            }
            let error = calls.join_next().await.unwrap().unwrap().unwrap_err();
            assert!(error.is_fatal(), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("engine is dead") && text.contains("No request has been answered"),
                "{text}"
            );
            assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_good_answer_keeps_a_failing_server_in_use() {
    let server =
        serve(
            |call| async move { if call.hit == 0 { reply(200, &[], "42") } else { reply(500, &[], "no") } },
        )
        .await;
    let client = client(&server.url, |settings| settings.retry_wait = Duration::from_secs(20));
    ask(&client, "{}").await.unwrap();
    let error = ask(&client, "{}").await.unwrap_err();
    assert!(!error.is_fatal() && error.to_string().contains("10 attempts"), "{error}");
}
