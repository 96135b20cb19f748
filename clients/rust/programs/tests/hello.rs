use strandline::{Client, Error, LogConfig, ReadOptions};
use strandline_testing::Server;

#[tokio::test]
async fn a_record_that_was_appended_is_read() -> Result<(), Error> {
    let server = Server::start().unwrap();
    let client = Client::new([server.address()])?;
    client.admin().create_log("orders", LogConfig::default()).await?;
    let producer = client.producer("orders").await?;
    producer.append("first").await?;
    let record = client.read("orders", ReadOptions::default())?.try_next().await?.unwrap();
    assert_eq!(record.value.as_deref(), Some(&b"first"[..]));
    Ok(())
}
