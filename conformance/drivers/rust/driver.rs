//! A driver of Pulsar's Rust client, for pulsar-conformance. docs/driver-protocol.md specifies the protocol.
//!
//! It was compiled against 6.9.1. The public API cannot cut connections, so each client has a process. It neither takes nor
//! shows sequence ids, and it has no chunking and no request to redeliver everything.
//! A task performs the requests of each producer and each consumer.

use std::collections::HashMap;
use std::io::{self, BufRead, ErrorKind, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::{engine::general_purpose::STANDARD, Engine};
use futures::StreamExt;
use pulsar::compression::{Compression, CompressionLz4, CompressionZlib};
use pulsar::consumer::{InitialPosition, Message};
use pulsar::error::{ConnectionError, ConsumerError, ProducerError, ServiceDiscoveryError};
use pulsar::{
    Authentication, Consumer, ConsumerOptions, Error, OperationRetryOptions, Producer, ProducerOptions, Pulsar,
    SubType, TokioExecutor,
};
use serde::Deserialize;
use serde_json::{json, Value};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout, Instant};

const FEATURES: [&str; 8] =
    ["batching", "compression", "cumulative-ack", "key-shared", "nack", "ordering-key", "tls", "token"];
const FLUSH_BEGINS: Duration = Duration::from_millis(50); // send_batch() waits for the confirmation: no longer than this
const RETRY_DELAY_MS: u64 = 200; // of a refused request. The client retries even ProducerBusy, by default for ever.
const UNANSWERED: i64 = 0; // the id of what the driver itself requests

#[derive(Deserialize, Default)]
#[serde(default)]
struct Request {
    r#type: String,
    id: i64,
    client: String,
    producer: String,
    consumer: String,
    name: Option<String>,
    timeout_ms: u64,
    url: String,
    token: Option<String>,
    trust_certs_file: Option<String>,
    allow_insecure: bool,
    verify_hostname: Option<bool>,
    topic: String,
    initial_sequence_id: Option<i64>,
    batching: bool,
    batch_messages: u32,
    batch_delay_ms: u64,
    compression: String,
    payload: String,
    key: Option<String>,
    ordering_key: Option<String>,
    properties: HashMap<String, String>,
    subscription: String,
    kind: String,
    initial: String,
    queue: Option<u32>,
    message: usize,
    cumulative: bool,
    request: i64,
}

type Client = Pulsar<TokioExecutor>;
type Received = Message<Vec<u8>>;

/// What performs the requests of a producer or consumer of a client.
struct Worker {
    client: String,
    requests: UnboundedSender<Request>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Driver {
    clients: Mutex<HashMap<String, Client>>,
    workers: Mutex<HashMap<String, Worker>>,
}

fn main() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}"); // the last line: a request without its answer would only be late
        std::process::exit(101);
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let _entered = runtime.enter();
    let driver = Arc::new(Driver::default());
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match serde_json::from_str::<Request>(&line) {
            Ok(request) => driver.take(request),
            Err(problem) => {
                let shown: Value = serde_json::from_str(&line).unwrap_or_default();
                say(shown["id"].as_i64().unwrap_or(UNANSWERED), error(&problem.to_string()));
            }
        }
    }
    std::process::exit(0);
}

/// Write an answer: one line.
fn say(id: i64, mut answer: Value) {
    if id != UNANSWERED {
        answer["id"] = id.into();
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
    }
}

impl Driver {
    fn take(self: &Arc<Self>, request: Request) {
        match request.r#type.as_str() {
            "send" | "flush" => self.pass(request.producer.clone(), request),
            "receive" | "acknowledge" | "nack" | "unsubscribe" => self.pass(request.consumer.clone(), request),
            "cancel" => {
                say(request.id, done());
                for worker in self.workers.lock().unwrap().values() {
                    let cancelled = Request { r#type: "cancel".into(), request: request.request, ..Request::default() };
                    let _ = worker.requests.send(cancelled);
                }
            }
            _ => {
                let driver = self.clone();
                tokio::spawn(async move { driver.perform(request).await });
            }
        }
    }

    fn pass(&self, name: String, request: Request) {
        match self.workers.lock().unwrap().get(&name) {
            Some(worker) => {
                let _ = worker.requests.send(request);
            }
            None => say(request.id, missing(&name)),
        }
    }

    async fn perform(self: Arc<Self>, request: Request) {
        let (id, limit) = (request.id, Duration::from_millis(request.timeout_ms));
        let answering = tokio::spawn(async move {
            match request.r#type.as_str() {
                "hello" => hello(),
                "connect" => self.connect(request).await,
                "open-producer" => self.open(request).await,
                "subscribe" => self.subscribe(request).await,
                "close" => self.close(&request).await,
                other => error(&format!("the Rust client cannot perform {other}")),
            }
        });
        // A late request goes on, as the client may not be interrupted while it connects.
        let answer = if limit.is_zero() { Ok(answering.await) } else { timeout(limit, answering).await };
        match answer {
            Ok(Ok(answer)) => say(id, answer),
            Ok(Err(problem)) => say(id, error(&problem.to_string())),
            Err(_) => say(id, gave_up("timeout", "no answer in time")),
        }
    }

    async fn connect(&self, request: Request) -> Value {
        let retries = OperationRetryOptions {
            operation_timeout: Duration::from_millis(request.timeout_ms),
            retry_delay: Duration::from_millis(RETRY_DELAY_MS),
            max_retries: Some((request.timeout_ms / RETRY_DELAY_MS / 2) as u32),
        };
        let mut builder = Pulsar::builder(request.url, TokioExecutor).with_operation_retry_options(retries);
        if let Some(token) = request.token {
            builder = builder.with_auth(Authentication { name: "token".into(), data: token.into_bytes() });
        }
        if let Some(file) = request.trust_certs_file {
            builder = match builder.with_certificate_chain_file(&file) {
                Ok(builder) => builder,
                Err(problem) => return error(&format!("{file}: {problem}")),
            };
        }
        builder = builder
            .with_allow_insecure_connection(request.allow_insecure)
            .with_tls_hostname_verification_enabled(request.verify_hostname.unwrap_or(true) && !request.allow_insecure);
        match builder.build().await {
            Ok(client) => {
                self.clients.lock().unwrap().insert(request.client, client);
                done()
            }
            Err(problem) => failed(&problem),
        }
    }

    async fn open(&self, request: Request) -> Value {
        let Some(client) = self.client(&request.client) else { return missing(&request.client) };
        if request.initial_sequence_id.is_some() {
            return error("the Rust client has no initial sequence id");
        }
        let mut options = ProducerOptions {
            compression: compression(&request.compression),
            block_queue_if_full: true,
            ..ProducerOptions::default()
        };
        if request.batching {
            options.batch_size = Some(request.batch_messages);
            options.batch_timeout = Some(Duration::from_millis(request.batch_delay_ms.max(1)));
        }
        let mut builder = client.producer().with_topic(request.topic).with_options(options);
        if let Some(name) = &request.name {
            builder = builder.with_name(name);
        }
        match builder.build().await {
            Ok(producer) => {
                self.employ(request.producer, request.client, |requests| produce(producer, requests));
                json!({"type": "opened", "name": request.name.unwrap_or_default()}) // it shows no name
            }
            Err(problem) => failed(&problem),
        }
    }

    async fn subscribe(&self, request: Request) -> Value {
        let Some(client) = self.client(&request.client) else { return missing(&request.client) };
        let start = if request.initial == "earliest" { InitialPosition::Earliest } else { InitialPosition::Latest };
        let mut builder = client
            .consumer()
            .with_topic(request.topic)
            .with_subscription(request.subscription)
            .with_subscription_type(match request.kind.as_str() {
                "Shared" => SubType::Shared,
                "Failover" => SubType::Failover,
                "Key_Shared" => SubType::KeyShared,
                _ => SubType::Exclusive,
            })
            .with_batch_size(request.queue.unwrap_or(1000).max(1)) // its permits; there is no queue of 0
            .with_options(ConsumerOptions::default().with_initial_position(start));
        if let Some(name) = request.name {
            builder = builder.with_consumer_name(name);
        }
        match builder.build::<Vec<u8>>().await {
            Ok(consumer) => {
                self.employ(request.consumer, request.client, |requests| consume(consumer, requests));
                done()
            }
            Err(problem) => failed(&problem),
        }
    }

    /// Close a producer or consumer; or a client, which the crate does by closing all that it has.
    async fn close(&self, request: &Request) -> Value {
        let name = request.name.clone().unwrap_or_default();
        let client = self.clients.lock().unwrap().remove(&name);
        let closed: Vec<Worker> = {
            let mut workers = self.workers.lock().unwrap();
            let names: Vec<String> =
                workers.iter().filter(|(own, by)| **own == name || by.client == name).map(|(own, _)| own.clone()).collect();
            names.iter().filter_map(|own| workers.remove(own)).collect()
        };
        if client.is_none() && closed.is_empty() {
            return missing(&name);
        }
        for worker in closed {
            let _ = worker.requests.send(Request { r#type: "close".into(), ..Request::default() });
            let _ = worker.task.await;
        }
        done()
    }

    fn client(&self, name: &str) -> Option<Client> {
        self.clients.lock().unwrap().get(name).cloned()
    }

    fn employ<F: std::future::Future<Output = ()> + Send + 'static>(
        &self,
        name: String,
        client: String,
        work: impl FnOnce(UnboundedReceiver<Request>) -> F,
    ) {
        let (requests, received) = unbounded_channel();
        let task = tokio::spawn(work(received));
        self.workers.lock().unwrap().insert(name, Worker { client, requests, task });
    }
}

/// Performs the requests of a producer, in their order.
async fn produce(mut producer: Producer<TokioExecutor>, mut requests: UnboundedReceiver<Request>) {
    while let Some(request) = requests.recv().await {
        let id = request.id;
        match request.r#type.as_str() {
            "send" => match producer.send_non_blocking(message_of(request)).await {
                Ok(receipt) => {
                    tokio::spawn(async move {
                        say(id, receipt.await.map_or_else(|problem| failed(&problem), |receipt| sent(&receipt)))
                    });
                }
                Err(problem) => say(id, failed(&problem)),
            },
            "flush" => match timeout(FLUSH_BEGINS, producer.send_batch()).await {
                Ok(Err(problem)) => say(id, failed(&problem)),
                _ => say(id, done()),
            },
            "close" => {
                let _ = producer.close().await;
                return;
            }
            _ => {}
        }
    }
}

fn message_of(request: Request) -> pulsar::producer::Message {
    pulsar::producer::Message {
        payload: STANDARD.decode(request.payload).unwrap_or_default(),
        partition_key: request.key,
        ordering_key: request.ordering_key.map(String::into_bytes),
        properties: request.properties,
        ..pulsar::producer::Message::default()
    }
}

fn compression(name: &str) -> Option<Compression> {
    match name {
        "lz4" => Some(Compression::Lz4(CompressionLz4::default())),
        "zlib" => Some(Compression::Zlib(CompressionZlib::default())),
        _ => None,
    }
}

/// A receive that waits for a message.
struct Waiting {
    id: i64,
    until: Instant,
}

enum Happened {
    Requested(Option<Request>),
    Arrived(Option<Result<Received, Error>>),
    Waited,
}

/// Performs the requests of a consumer.
async fn consume(mut consumer: Consumer<Vec<u8>, TokioExecutor>, mut requests: UnboundedReceiver<Request>) {
    let mut received: Vec<Received> = vec![];
    let mut waiting: Vec<Waiting> = vec![];
    loop {
        let next = waiting.iter().map(|one| one.until).min();
        let happened = tokio::select! {
            biased;
            request = requests.recv() => Happened::Requested(request),
            arrived = consumer.next(), if next.is_some() => Happened::Arrived(arrived),
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => Happened::Waited,
        };
        match happened {
            Happened::Requested(None) => return,
            Happened::Requested(Some(request)) => match request.r#type.as_str() {
                "receive" => {
                    let until = Instant::now() + Duration::from_millis(request.timeout_ms);
                    waiting.push(Waiting { id: request.id, until });
                }
                "cancel" => answer(&mut waiting, |one| one.id == request.request, json!({"type": "cancelled"})),
                "close" => {
                    let _ = consumer.close().await;
                    answer(&mut waiting, |_| true, gave_up("disconnected", "the consumer was closed"));
                    return;
                }
                _ => say(request.id, performed(&mut consumer, &received, &request).await),
            },
            Happened::Arrived(Some(Ok(message))) => {
                say(waiting.remove(0).id, shown(received.len(), &message));
                received.push(without_payload(message));
            }
            Happened::Arrived(Some(Err(problem))) => say(waiting.remove(0).id, failed(&problem)),
            Happened::Arrived(None) => answer(&mut waiting, |_| true, gave_up("disconnected", "the consumer ended")),
            Happened::Waited => {
                let now = Instant::now();
                answer(&mut waiting, |one| one.until <= now, json!({"type": "nothing"}));
            }
        }
    }
}

/// Answer those waiting receives, which wait no longer.
fn answer(waiting: &mut Vec<Waiting>, those: impl Fn(&Waiting) -> bool, with: Value) {
    waiting.iter().filter(|one| those(one)).for_each(|one| say(one.id, with.clone()));
    waiting.retain(|one| !those(one));
}

async fn performed(
    consumer: &mut Consumer<Vec<u8>, TokioExecutor>,
    received: &[Received],
    request: &Request,
) -> Value {
    if request.r#type == "unsubscribe" {
        return consumer.unsubscribe().await.map_or_else(|problem| failed(&problem), |()| done());
    }
    let Some(message) = received.get(request.message) else {
        return error(&format!("no message {} was received", request.message));
    };
    let performed = match request.r#type.as_str() {
        "nack" => consumer.nack(message).await,
        _ if request.cumulative => consumer.cumulative_ack(message).await,
        _ => consumer.ack(message).await,
    };
    performed.map_or_else(|problem| failed(&Error::Consumer(problem)), |()| done())
}

fn without_payload(mut message: Received) -> Received {
    message.payload.data = vec![];
    message
}

fn shown(number: usize, message: &Received) -> Value {
    let (id, metadata) = (message.message_id(), message.metadata());
    let properties: HashMap<&str, &str> =
        metadata.properties.iter().map(|one| (one.key.as_str(), one.value.as_str())).collect();
    json!({
        "type": "message",
        "message": number,
        "ledger": id.ledger_id as i64,
        "entry": id.entry_id as i64,
        "batch_index": id.batch_index.unwrap_or(-1),
        "payload": STANDARD.encode(&message.payload.data),
        "topic": message.topic,
        "producer": metadata.producer_name,
        "key": metadata.partition_key,
        "ordering_key": metadata.ordering_key.as_ref().map(|key| String::from_utf8_lossy(key)),
        "properties": properties,
    })
}

fn hello() -> Value {
    json!({"type": "hello", "protocol": 1, "client": "rust", "version": env!("CARGO_PKG_VERSION"), "features": FEATURES})
}

fn done() -> Value {
    json!({"type": "done"})
}

fn sent(receipt: &pulsar::CommandSendReceipt) -> Value {
    let id = receipt.message_id.clone().unwrap_or_default();
    let batch_index = id.batch_index.unwrap_or(-1);
    json!({"type": "sent", "ledger": id.ledger_id as i64, "entry": id.entry_id as i64, "batch_index": batch_index})
}

fn error(message: &str) -> Value {
    json!({"type": "error", "message": message})
}

fn missing(name: &str) -> Value {
    error(&format!("there is no {name}"))
}

fn gave_up(why: &str, message: &str) -> Value {
    json!({"type": "gave-up", "why": why, "message": message})
}

/// What the client said no with: what the broker refused; or else it does not know.
fn failed(problem: &Error) -> Value {
    let text = problem.to_string();
    match problem {
        Error::Connection(cause)
        | Error::Consumer(ConsumerError::Connection(cause))
        | Error::Producer(ProducerError::Connection(cause))
        | Error::ServiceDiscovery(ServiceDiscoveryError::Connection(cause)) => match cause {
            ConnectionError::PulsarError(Some(code), _) => refused(&format!("{code:?}"), &text),
            ConnectionError::Io(cause) if cause.kind() == ErrorKind::TimedOut => gave_up("timeout", &text),
            _ => gave_up("disconnected", &text),
        },
        Error::ServiceDiscovery(ServiceDiscoveryError::Query(Some(code), _)) => refused(&format!("{code:?}"), &text),
        Error::Producer(ProducerError::Batch(cause)) => failed(cause),
        Error::Producer(ProducerError::Fenced) => refused("ProducerFenced", &text),
        _ => gave_up("disconnected", &text),
    }
}

fn refused(code: &str, message: &str) -> Value {
    json!({"type": "refused", "code": code, "message": message})
}
