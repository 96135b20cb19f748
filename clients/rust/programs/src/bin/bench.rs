//! Appends or reads for `strandline bench`: bench/driver says what goes through standard input and
//! output.
//!
//!     bench append|read ADDRESSES LOG OPTIONS
use std::error::Error;
use std::io::{ErrorKind::WouldBlock, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use serde_json::Value;
use strandline::{Client, Pending, ProducerOptions, ReadOptions, Sessions, Start};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;

/// How much of standard input is held: values are smaller.
const INPUT: usize = 17 << 20;

/// One thread does everything: with another for standard input, each would wait for the other.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [verb, addresses, log, options] = &arguments[..] else {
        return Err("bench append|read ADDRESSES LOG OPTIONS".into());
    };
    let options: Value = serde_json::from_str(options)?;
    let client = Client::new(addresses.split(','))?;
    if verb == "read" { read(&client, log, &options).await } else { append(&client, log, &options).await }
}

async fn append(client: &Client, log: &str, o: &Value) -> Result<(), Box<dyn Error>> {
    let size = |name: &str| o[name].as_u64().filter(|n| *n > 0).map(|n| n as usize);
    let defaults = ProducerOptions::default();
    let options = ProducerOptions {
        session: if o["no_session"] == true { Sessions::None } else { Sessions::New },
        linger: Duration::from_millis(o["linger_ms"].as_u64().unwrap_or(0)),
        max_in_flight: size("in_flight"),
        buffer_bytes: size("buffer_bytes").unwrap_or(defaults.buffer_bytes),
        max_request_bytes: size("request_bytes").unwrap_or(defaults.max_request_bytes),
        ..defaults
    };
    let producer = client.producer_with(log, options).await?;
    write(&[0])?; // ready
    let (pending, begun) = mpsc::unbounded_channel();
    let answering = tokio::spawn(answer(begun));
    let input = Receiver::from_owned_fd(stdin().as_fd().try_clone_to_owned()?)?;
    let (mut data, mut had) = (vec![0; INPUT], 0);
    loop {
        input.readable().await?;
        match input.try_read(&mut data[had..]) {
            Ok(0) => break,
            Ok(n) => had += n,
            Err(e) if e.kind() == WouldBlock => continue,
            Err(e) => return Err(e.into()),
        }
        let mut at = 0;
        while let Some((length, rest)) = data[at..had].split_first_chunk() {
            let Some(value) = rest.get(..u32::from_be_bytes(*length) as usize) else { break };
            pending.send(producer.send(value).await?)?;
            at += length.len() + value.len();
        }
        data.copy_within(at..had, 0);
        had -= at;
    }
    drop(pending);
    producer.close().await?;
    Ok(answering.await??)
}

/// Writes a byte for each record, in order, with those that are ready at the same time.
async fn answer(mut begun: mpsc::UnboundedReceiver<Pending>) -> std::io::Result<()> {
    let mut answers = Vec::new();
    while let Some(mut pending) = begun.recv().await {
        let outcome = match poll!(&mut pending) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                write(&answers)?;
                answers.clear();
                pending.await
            }
        };
        if let Err(e) = &outcome {
            eprintln!("{e:?}");
        }
        answers.push(u8::from(outcome.is_err()));
        if begun.is_empty() {
            write(&answers)?;
            answers.clear();
        }
    }
    write(&answers)
}

async fn read(client: &Client, log: &str, o: &Value) -> Result<(), Box<dyn Error>> {
    let mut reader = client.read(
        log,
        ReadOptions {
            start: o["offset"].as_i64().map_or(Start::Oldest, Start::Offset),
            until_offset: o["until_offset"].as_i64(),
            follow: o["follow"] == true,
            ..Default::default()
        },
    )?;
    loop {
        let batch = reader.next_batch().await?;
        if batch.is_empty() {
            return Ok(());
        }
        let bytes: usize = batch.iter().filter_map(|record| record.value.as_ref()).map(|value| value.len()).sum();
        let mut run = [0; 8];
        run[..4].copy_from_slice(&(batch.len() as u32).to_be_bytes());
        run[4..].copy_from_slice(&(bytes as u32).to_be_bytes());
        write(&run)?;
    }
}

fn write(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
