//! Drives the Rust client as the scenarios say: one JSON object in each line, as the page
//! clients/scenarios/README.md describes.
mod administer;
mod command;
mod reading;
mod writing;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, maybe_done};
use futures_util::poll;
use serde_json::{Value, json};
use strandline::{
    Batch, Check, Client, ClientOptions, Digest, Error, KeptHold, NewRecord, Producer, ProducerOptions, Sessions,
    Source, Stats, TlsFiles, Token, TroubleHandler, WriterLease,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::sleep;

use administer::{administer, hold, place, pointer};
use command::{Command, failed, position, shown};
use reading::{Reading, read_options};
use writing::{WriterWatch, claim, own};

/// What commands have made, by its name.
#[derive(Default)]
struct Runner {
    clients: Mutex<HashMap<String, Client>>,
    producers: Mutex<HashMap<String, Arc<Producer>>>,
    readers: Mutex<HashMap<String, Arc<Reading>>>,
    holds: Mutex<HashMap<String, Arc<KeptHold>>>,
    leases: Mutex<HashMap<String, Arc<WriterLease>>>,  // by log and name
    watches: Mutex<HashMap<String, Arc<WriterWatch>>>, // by log
    tokens: Arc<Mutex<HashMap<String, String>>>,       // that functions give, by client
    troubles: Arc<Mutex<HashMap<String, Vec<Option<Value>>>>>, // by client; none: it continues
}

fn named<T: Clone>(all: &Mutex<HashMap<String, T>>, name: &str) -> T {
    let all = all.lock().expect("not poisoned");
    all.get(name).unwrap_or_else(|| panic!("nothing is called {name}")).clone()
}

fn name<T>(all: &Mutex<HashMap<String, T>>, name: &str, made: T) {
    all.lock().expect("not poisoned").insert(name.to_string(), made);
}

fn forget<T>(all: &Mutex<HashMap<String, T>>, name: &str) -> Option<T> {
    all.lock().expect("not poisoned").remove(name)
}

#[tokio::main]
async fn main() {
    let (lines, mut received) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let sent = line.is_ok_and(|line| lines.send(line).is_ok());
            if !sent {
                return;
            }
        }
    });
    let runner = Arc::new(Runner::default());
    while let Some(line) = received.recv().await {
        let mut doing = Box::pin(runner.clone().answer(Command::parse(&line)));
        // Commands begin in their order, and end when they do.
        if poll!(&mut doing).is_pending() {
            tokio::spawn(doing);
        }
    }
}

impl Runner {
    async fn answer(self: Arc<Runner>, c: Command) {
        let answer = match self.carry_out(&c).await {
            Ok(value) => json!({"id": c.get("id"), "value": value}),
            Err(error) => json!({"id": c.get("id"), "error": failed(&error)}),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}").and_then(|()| out.flush()).expect("standard output is open");
    }

    async fn carry_out(&self, c: &Command) -> Result<Value, Error> {
        let reader = c.text("reader");
        match c.text("do") {
            "leaks" => return Ok(leaks().await),
            "dial" => name(&self.clients, c.text("client"), self.dial(c)?),
            "show-token" => name(&self.tokens, c.text("client"), c.text("token").to_string()),
            "await-trouble" => return Ok(self.trouble(c).await),
            "hang-up" => {
                if let Some(client) = forget(&self.clients, c.text("client")) {
                    client.close();
                }
            }
            "producer" => {
                let opening = named(&self.clients, c.text("client")).producer_with(c.text("log"), producer_options(c));
                let producer = c.bound(opening).await?;
                let at = producer.position();
                name(&self.producers, c.text("producer"), Arc::new(producer));
                return Ok(shown(at));
            }
            "append" | "batch" | "flush" | "close" | "position" | "stats" => {
                let producer = named(&self.producers, c.text("producer"));
                return produce(&producer, c).await;
            }
            "reader" => {
                let mut made = named(&self.clients, c.text("client")).read(c.text("log"), read_options(c))?;
                c.bound(made.open()).await?;
                name(&self.readers, reader, Arc::new(Reading::new(made)));
            }
            "digest" => {
                let client = named(&self.clients, c.text("client"));
                let d = c.bound(client.digest(c.text("log"), c.number("until_offset"), source(c))).await?;
                return Ok(json!({
                    "hash": d.hash.to_string(), "at": d.at, "from": d.from, "covered": d.covered,
                    "batches": d.batches, "start": d.start, "end": d.end,
                }));
            }
            "prove" => {
                let client = named(&self.clients, c.text("client"));
                let trusted = Digest::trusted(c.text("hash").parse()?, c.number("until_offset").unwrap_or(0));
                let offset = c.number("offset").unwrap_or(0);
                let r = c.bound(client.prove(c.text("log"), offset, trusted, source(c))).await?;
                return Ok(reading::proved(&r));
            }
            "read" => return named(&self.readers, reader).read(c).await,
            "await-progress" => {
                return named(&self.readers, reader).reach(c.number("offset").unwrap_or(0)).await;
            }
            "close-reader" => drop(forget(&self.readers, reader)),
            "leave-loop" => {
                let reader = named(&self.clients, c.text("client")).read(c.text("log"), read_options(c))?;
                return reading::first(reader).await;
            }
            "hold" => {
                let client = named(&self.clients, c.text("client"));
                let kept = c.bound(client.hold(c.text("log"), hold(c), place(c))).await?;
                let offset = kept.hold().offset;
                name(&self.holds, c.text("log"), Arc::new(kept));
                return Ok(json!({"offset": offset}));
            }
            "move-hold" => {
                let kept = named(&self.holds, c.text("log"));
                let moved = kept.move_to(c.number("offset").unwrap_or(0), pointer(c));
                c.bound(moved).await?;
                return Ok(json!({"offset": kept.hold().offset}));
            }
            "release-kept" => c.bound(named(&self.holds, c.text("log")).release()).await?,
            "close-hold" => named(&self.holds, c.text("log")).close(),
            "await-hold" => {
                let error = named(&self.holds, c.text("log")).ended().await;
                return Ok(json!({"reason": error.map_or_else(String::new, |e| e.reason().as_str().to_string())}));
            }
            "elect" => {
                let began = Instant::now();
                let client = named(&self.clients, c.text("client"));
                let lease = c.bound(client.lease_writer(c.text("log"), claim(c))).await?;
                let (term, end) = (lease.term(), lease.end());
                name(&self.leases, &own(c), Arc::new(lease));
                return Ok(json!({"writer_term": term, "end": end, "waited_ms": began.elapsed().as_millis() as u64}));
            }
            "release-lease" => c.bound(named(&self.leases, &own(c)).release()).await?,
            "hand-over" => c.bound(named(&self.leases, &own(c)).hand_over(c.text("to"))).await?,
            "await-lease" => {
                let error = named(&self.leases, &own(c)).ended().await;
                return Ok(json!({"reason": error.map_or_else(String::new, |e| e.reason().as_str().to_string())}));
            }
            "watch-writer" => {
                let admin = named(&self.clients, c.text("client")).admin();
                let watch = {
                    let mut watches = self.watches.lock().expect("not poisoned");
                    watches
                        .entry(c.text("log").to_string())
                        .or_insert_with(|| Arc::new(WriterWatch::new(&admin, c)))
                        .clone()
                };
                return watch.reach(c).await;
            }
            "close-watch" => drop(forget(&self.watches, c.text("log"))),
            "end" => {
                let client = named(&self.clients, c.text("client"));
                let asked = join_all((0..c.number("callers").unwrap_or(1)).map(|_| c.bound(client.end(c.text("log")))));
                let ends: Vec<i64> = asked.await.into_iter().collect::<Result<_, _>>()?;
                return Ok(json!({"end": ends.iter().min()}));
            }
            _ => return administer(&named(&self.clients, c.text("client")).admin(), c).await,
        }
        Ok(Value::Null)
    }
}

impl Runner {
    fn dial(&self, c: &Command) -> Result<Client, Error> {
        let client = c.text("client").to_string();
        let (troubles, of) = (self.troubles.clone(), client.clone());
        let on_trouble: TroubleHandler = Arc::new(move |_, error| {
            let mut all = troubles.lock().expect("not poisoned");
            all.entry(of.clone()).or_default().push(error.map(failed));
        });
        let retry_time = c.time("retry_ms").unwrap_or(ClientOptions::default().retry_time);
        if let Some(variables) = c.part("environment") {
            let variable = |name: &str| variables.get(name).as_str().map(String::from);
            return Client::from_variables(variable, |options| {
                (options.retry_time, options.on_trouble) = (retry_time, Some(on_trouble));
            });
        }
        let path = |name: &str| c.get(name).as_str().map(PathBuf::from);
        let files = TlsFiles { authorities: path("authority"), certificate: path("certificate"), key: path("key") };
        let mut token = c.get("token").as_str().map(Token::from);
        if let Some(first) = c.get("token_function").as_str() {
            name(&self.tokens, &client, first.to_string());
            let tokens = self.tokens.clone();
            let numbered = AtomicUsize::new(0);
            token = Some(Token::from_fn(move || {
                let token = named(&tokens, &client);
                Ok(match token.strip_suffix('#') {
                    Some(text) => format!("{text}{}", numbered.fetch_add(1, Ordering::Relaxed)),
                    None => token,
                })
            }));
        }
        let options = ClientOptions {
            tls_files: (files != TlsFiles::default()).then_some(files),
            token,
            retry_time,
            on_trouble: Some(on_trouble),
            ..Default::default()
        };
        Client::with_options(c.list::<String>("addresses"), options)
    }

    /// Waits until the client has told of trouble and of its end.
    async fn trouble(&self, c: &Command) -> Value {
        loop {
            let heard = self.troubles.lock().expect("not poisoned").get(c.text("client")).cloned().unwrap_or_default();
            let (first, last) = (heard.first().cloned().flatten(), heard.last());
            if let (Some(first), Some(None)) = (first, last) {
                return json!({"reason": first["reason"], "retryable": first["retryable"]});
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn producer_options(c: &Command) -> ProducerOptions {
    let defaults = ProducerOptions::default();
    let session = match c.get("resume") {
        _ if c.is("no_session") => Sessions::None,
        Value::Null => Sessions::New,
        at => Sessions::Resume(position(at)),
    };
    ProducerOptions {
        max_in_flight: c.number("in_flight"),
        max_in_flight_bytes: c.number("in_flight_bytes").unwrap_or(defaults.max_in_flight_bytes),
        max_request_bytes: c.number("request_bytes").unwrap_or(defaults.max_request_bytes),
        buffer_bytes: c.number("buffer_bytes").unwrap_or(defaults.buffer_bytes),
        linger: c.time("linger_ms").unwrap_or(defaults.linger),
        lease: c.time("lease_ms").unwrap_or(defaults.lease),
        writer_term: c.number("writer_term").unwrap_or(0),
        session,
        end_on_failure: c.is("end_on_failure"),
        record_timeout: c.time("record_timeout_ms").or(defaults.record_timeout),
    }
}

fn source(c: &Command) -> Source {
    if c.is("known") { Source::Known } else { Source::Leader }
}

async fn produce(producer: &Producer, c: &Command) -> Result<Value, Error> {
    match c.text("do") {
        "append" => return Ok(append(producer, c).await),
        "batch" => {
            let key = c.has(&["key"]).then(|| c.text("key").to_string().into());
            let timestamp = c.moment("record_time_ms");
            let record =
                |value: String| NewRecord { key: key.clone(), headers: c.headers(), timestamp, ..value.into() };
            let batch = Batch {
                records: c.list("values").into_iter().map(record).collect(),
                expected_end: c.number("expected_end"),
                atomic: c.is("atomic"),
                check: c.part("check").map(|check| Check {
                    since: check.number("since").unwrap_or(0),
                    keys: check.list("keys"),
                    key_prefixes: check.list("prefixes"),
                    headers: check.headers(),
                }),
            };
            let offsets = c.bound(producer.append_batch(batch)).await?;
            return Ok(json!({"offset": offsets[0]}));
        }
        "flush" => c.bound(producer.flush()).await?,
        "close" => c.bound(producer.close()).await?,
        "stats" => return Ok(counted(&producer.stats())),
        _ => return Ok(shown(producer.position())),
    }
    Ok(Value::Null)
}

fn counted(s: &Stats) -> Value {
    json!({
        "in_flight_requests": s.in_flight_requests, "in_flight_records": s.in_flight_records,
        "in_flight_bytes": s.in_flight_bytes, "buffered_bytes": s.buffered_bytes,
        "requests": s.request_records.count, "records": s.request_records.sum, "bytes": s.request_bytes.sum,
        "failed": s.failed, "resent": s.resent, "streams": s.streams,
        "request_records": s.request_records.quantile(1.0), "request_bytes": s.request_bytes.quantile(1.0),
        "latency_us": s.latency_micros.quantile(1.0),
    })
}

/// Appends without waiting, each record of its own, and answers when all have their answers.
async fn append(producer: &Producer, c: &Command) -> Value {
    let mut begun: Vec<_> =
        c.list::<String>("values").into_iter().map(|v| maybe_done(c.bound(producer.append(v)))).collect();
    for append in &mut begun {
        let _: Poll<()> = poll!(&mut *append); // they are accepted in this order
    }
    join_all(begun.iter_mut()).await;
    let mut records = Vec::new();
    for append in &mut begun {
        records.push(match Pin::new(append).take_output() {
            Some(Ok(offset)) => json!({"offset": offset}),
            Some(Err(error)) => json!({"error": failed(&error)}),
            None => unreachable!("all have been waited for"),
        });
    }
    json!({"records": records})
}

/// How many tasks run beside that of this command. They may take a moment to end.
async fn leaks() -> Value {
    let mut left = 0;
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
        left = Handle::current().metrics().num_alive_tasks() - 1;
        if left == 0 {
            break;
        }
    }
    json!({"leaks": left, "where": format!("{left} tasks")})
}
