//! A writer lease that is dropped. Everything else is in the scenarios.
use std::time::Duration;

use strandline::{Client, Error, LogConfig, Reason, WriterClaim};
use strandline_testing::Server;

fn claim(name: &str, seconds: u64) -> WriterClaim {
    WriterClaim { name: name.into(), lease: Duration::from_secs(seconds), payload: "10.0.0.1:80".into() }
}

#[tokio::test]
async fn a_lease_that_is_dropped_runs_out_and_one_that_is_lost_says_so() -> Result<(), Error> {
    let server = Server::start().unwrap();
    let client = Client::new([server.address()])?;
    client.admin().create_log("orders", LogConfig::default()).await?;
    let lease = client.lease_writer("orders", claim("first", 1)).await?;
    assert_eq!((lease.term(), lease.end(), lease.claim()), (1, 0, &claim("first", 1)));
    assert!(lease.left() > Duration::ZERO && lease.error().is_none());
    let state = client.admin().watch_writer("orders", None).try_next().await?.unwrap();
    assert_eq!(state.holder.map(|holder| holder.claim), Some(claim("first", 1)));
    drop(lease);

    let lease = client.lease_writer("orders", claim("second", 3600)).await?;
    assert_eq!(lease.term(), 2);
    client.admin().acquire_writer("orders").await?;
    assert_eq!(lease.hand_over("").await.unwrap_err().reason(), &Reason::Invalid);
    assert_eq!(lease.hand_over("third").await.unwrap_err().reason(), &Reason::Fenced);
    assert_eq!(lease.ended().await.unwrap().reason(), &Reason::Fenced);
    Ok(())
}
