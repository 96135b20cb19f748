//! What needs no server. Everything else is in the scenarios.
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use strandline::{
    Client, ClientOptions, Error, Freshness, Identity, Outcome, Position, ProducerOptions, ReadOptions, Reason,
    Sessions, Start, Tls,
};

/// An address where nobody is.
fn nobody() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

fn options(retry_ms: u64) -> ClientOptions {
    ClientOptions { retry_time: Duration::from_millis(retry_ms), ..Default::default() }
}

fn seen(error: Error) -> (Reason, Outcome, bool) {
    (error.reason().clone(), error.outcome(), error.retryable())
}

#[tokio::test]
async fn a_client_that_finds_nobody_says_so_in_time() {
    let client = Client::with_options([nobody(), nobody()], options(200)).unwrap();
    let expected = (Reason::Unreachable, Outcome::NotDone, true);
    assert_eq!(seen(client.producer("orders").await.unwrap_err()), expected);
    assert_eq!(seen(client.admin().info("orders").await.unwrap_err()), expected);
    let mut reader = client.read("orders", ReadOptions::default()).unwrap();
    assert_eq!(seen(reader.try_next().await.unwrap_err()), expected);
    assert_eq!(seen(reader.try_next().await.unwrap_err()), expected, "it stays so");
}

#[tokio::test]
async fn a_client_may_wait_for_ever() {
    let forever = ClientOptions { retry_time: Duration::MAX, ..Default::default() };
    let client = Client::with_options([nobody()], forever).unwrap();
    let short = Duration::from_millis(100);
    assert_eq!(client.admin().info("orders").within(short).await.unwrap_err().reason(), &Reason::Cancelled);
    let read = ReadOptions { follow: true, heartbeat: Duration::MAX, ..Default::default() };
    let mut reader = client.read("orders", read).unwrap();
    assert_eq!(reader.try_next().within(short).await.unwrap_err().reason(), &Reason::Cancelled);
}

#[tokio::test]
async fn a_closed_client_says_so() {
    let client = Client::new([nobody()]).unwrap();
    client.clone().close();
    assert_eq!(client.admin().info("orders").await.unwrap_err().reason(), &Reason::Closed);
    assert_eq!(client.producer("orders").await.unwrap_err().reason(), &Reason::Closed);
}

#[tokio::test]
async fn a_client_that_is_closed_ends_what_it_does() {
    let silent = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = Client::new([silent.local_addr().unwrap().to_string()]).unwrap();
    let asking = tokio::spawn(client.admin().info("orders"));
    let _connection = silent.accept().await.unwrap();
    client.close();
    assert_eq!(asking.await.unwrap().unwrap_err().reason(), &Reason::Closed);
}

#[tokio::test]
async fn a_call_ends_within_its_time() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = Client::new([silent.local_addr().unwrap().to_string()]).unwrap();
    let short = Duration::from_millis(100);
    let expected = (Reason::Cancelled, Outcome::NotDone, false);
    assert_eq!(seen(client.admin().info("orders").within(short).await.unwrap_err()), expected);
    assert_eq!(seen(client.producer("orders").within(short).await.unwrap_err()), expected);
    let mut reader = client.read("orders", ReadOptions { start: Start::Offset(0), ..Default::default() }).unwrap();
    assert_eq!(seen(reader.try_next().within(short).await.unwrap_err()), expected);
    assert_eq!(seen(reader.next_batch().within(short).await.unwrap_err()), expected);
    assert_eq!(reader.offset(), None);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let none: [String; 0] = [];
    for addresses in [&none[..], &["192.0.2.1:7171".into()], &["127.0.0.1".into()]] {
        assert_eq!(Client::new(addresses.to_vec()).unwrap_err().reason(), &Reason::Invalid);
    }
    let insecure = ClientOptions { insecure: true, ..Default::default() };
    Client::with_options(["192.0.2.1:7171"], insecure).unwrap();
    let token = ClientOptions { token: Some("two\nlines".into()), ..Default::default() };
    assert_eq!(Client::with_options([nobody()], token).unwrap_err().reason(), &Reason::Invalid);
    let tls = Tls { authorities: Some(b"no certificate".to_vec()), identity: None };
    let tls = ClientOptions { tls: Some(tls), ..Default::default() };
    assert_eq!(Client::with_options([nobody()], tls).unwrap_err().reason(), &Reason::Invalid);

    let client = Client::new([nobody()]).unwrap();
    let negative = ReadOptions { start: Start::Offset(-1), ..Default::default() };
    assert_eq!(client.read("orders", negative).unwrap_err().reason(), &Reason::Invalid);
    let resume = Sessions::Resume(Position { session: 1, ..Default::default() });
    for wrong in [
        ProducerOptions { buffer_bytes: 0, session: resume, ..Default::default() },
        ProducerOptions { max_in_flight: Some(0), ..Default::default() },
        ProducerOptions { lease: Duration::ZERO, ..Default::default() },
    ] {
        assert_eq!(client.producer_with("orders", wrong).await.unwrap_err().reason(), &Reason::Invalid);
    }
}

#[test]
fn every_reason_of_the_table_of_errors_is_known() {
    let page = include_str!("../../../docs/errors.md");
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")).map(|(name, _)| name);
    let reasons: Vec<_> = names.filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect();
    assert!(reasons.len() > 30, "{reasons:?}");
    for name in reasons {
        let reason = Reason::from(name.to_string());
        assert!(!matches!(reason, Reason::Other(_)), "{name}");
        assert_eq!(reason.as_str(), name);
    }
}

#[tokio::test]
async fn values_that_cannot_be_right_are_refused() {
    let invalid = (Reason::Invalid, Outcome::NotDone, false);
    let client = Client::with_options([nobody()], options(200)).unwrap();
    let within = |ms| ReadOptions { freshness: Freshness::Within(Duration::from_millis(ms)), ..Default::default() };
    assert_eq!(seen(client.read("orders", within(99)).unwrap_err()), invalid);
    client.read("orders", within(100)).unwrap();
    for (certificate, key) in [("certificate", ""), ("", "key")] {
        let identity = Some(Identity { certificate: certificate.into(), key: key.into() });
        let tls = Some(Tls { authorities: None, identity });
        let refused = Client::with_options([nobody()], ClientOptions { tls, ..options(200) }).unwrap_err();
        assert_eq!(seen(refused), invalid);
    }
    let token = Some("secret\n".into());
    let refused = Client::with_options([nobody()], ClientOptions { token, ..options(200) }).unwrap_err();
    assert!(!refused.to_string().contains("secret"));
    assert_eq!(seen(refused), invalid);
}
