use std::collections::HashSet;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, timeout};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::call::{BoxFuture, Deadline};
use crate::client::TroubleHandler;
use crate::codec::{AppendCodec, BytesCodec, Outgoing};
use crate::ends::Ends;
use crate::errors::{Error, Outcome};
use crate::near::Near;
use crate::pauses::Pauses;
use crate::peers::{CONNECT_PATIENCE, Peers};
use crate::reason::Reason;
use crate::route::{Route, ToLeader};
use crate::silence::{self, Waiting};
use crate::token::{Header, Shown, Token};
use crate::wire;

/// What a server answers at most: a frame of a read.
const MAX_ANSWER: usize = 64 << 20;

/// One verb of the servers.
pub(crate) struct Method<Q, A> {
    path: &'static str,
    types: PhantomData<fn(Q) -> A>,
}

macro_rules! methods {
    ($($name:ident: $path:literal ($request:ident) -> $answer:ident,)*) => {
        $(pub(crate) const $name: Method<wire::$request, wire::$answer> =
            Method { path: concat!("/strandline.v1.", $path), types: PhantomData };)*
    };
}

methods! {
    CREATE_LOG: "CatalogService/CreateLog" (CreateLogRequest) -> CreateLogResponse,
    LIST_LOGS: "CatalogService/ListLogs" (ListLogsRequest) -> ListLogsResponse,
    CONFIGURE_LOG: "CatalogService/ConfigureLog" (ConfigureLogRequest) -> ConfigureLogResponse,
    DELETE_LOG: "CatalogService/DeleteLog" (DeleteLogRequest) -> DeleteLogResponse,
    OPEN_SESSION: "SessionService/OpenSession" (OpenSessionRequest) -> OpenSessionResponse,
    KEEP_SESSION: "SessionService/KeepSession" (KeepSessionRequest) -> KeepSessionResponse,
    CLOSE_SESSION: "SessionService/CloseSession" (CloseSessionRequest) -> CloseSessionResponse,
    RESOLVE: "SessionService/Resolve" (ResolveRequest) -> ResolveResponse,
    READ: "LogService/Read" (ReadRequest) -> ReadResponse,
    TRIM: "LogService/Trim" (TrimRequest) -> TrimResponse,
    GET_INFO: "LogService/GetInfo" (GetInfoRequest) -> GetInfoResponse,
    WATCH_INFO: "LogService/WatchInfo" (WatchInfoRequest) -> WatchInfoResponse,
    SET_HOLD: "LogService/SetHold" (SetHoldRequest) -> SetHoldResponse,
    KEEP_HOLD: "LogService/KeepHold" (KeepHoldRequest) -> KeepHoldResponse,
    RELEASE_HOLD: "LogService/ReleaseHold" (ReleaseHoldRequest) -> ReleaseHoldResponse,
    DIGEST: "LogService/Digest" (DigestRequest) -> DigestResponse,
    PROVE: "LogService/Prove" (ProveRequest) -> ProveResponse,
    ACQUIRE_WRITER: "LogService/AcquireWriter" (AcquireWriterRequest) -> AcquireWriterResponse,
    LEASE_WRITER: "LogService/LeaseWriter" (LeaseWriterRequest) -> LeaseWriterResponse,
    KEEP_WRITER: "LogService/KeepWriter" (KeepWriterRequest) -> KeepWriterResponse,
    RELEASE_WRITER: "LogService/ReleaseWriter" (ReleaseWriterRequest) -> ReleaseWriterResponse,
    WATCH_WRITER: "LogService/WatchWriter" (WatchWriterRequest) -> WatchWriterResponse,
}

/// Makes the calls of a client.
pub(crate) struct Calls {
    pub peers: Peers,
    /// How long calls go on looking for a node that can answer.
    pub retry_time: Duration,
    pub near: Near,
    pub ends: Ends,
    /// Writer leases that this client was granted and has not released, by log and name.
    pub unreleased: Mutex<HashSet<(String, String)>>,
    token: Option<Token>,
    on_trouble: Option<TroubleHandler>,
}

/// What is known of one call over all tries of it, on whatever nodes.
struct Tries {
    outcome: Outcome,
    answered: Option<Error>,
}

impl Tries {
    /// Adds a try that failed, and returns its error with the outcome of all tries.
    fn failed(&mut self, newest: Error) -> Error {
        self.outcome.also(newest.outcome());
        let failure = newest.with_outcome(self.outcome);
        if *failure.reason() != Reason::Unreachable {
            self.answered = Some(failure.clone());
        }
        failure
    }

    /// The error of the call when the newest try was the last: what a node has answered says
    /// more than that another one cannot be reached.
    fn verdict(self, failure: Error) -> Error {
        match self.answered {
            Some(answered) if *failure.reason() == Reason::Unreachable => answered.with_outcome(self.outcome),
            _ => failure,
        }
    }
}

impl Calls {
    pub fn new(
        peers: Peers,
        retry_time: Duration,
        token: Option<Token>,
        on_trouble: Option<TroubleHandler>,
    ) -> Result<Calls, Error> {
        token.as_ref().map(Token::check).transpose()?;
        let (near, ends, unreleased) = (Near::default(), Ends::default(), Mutex::default());
        Ok(Calls { peers, retry_time, near, ends, unreleased, token, on_trouble })
    }

    /// Tells the application that a producer or reader of a log tries again, or continues.
    pub fn trouble(&self, log: &str, error: Option<&Error>) {
        if let Some(handler) = &self.on_trouble
            && !self.peers.closed()
        {
            // A handler that panics must end neither the producer nor the reader.
            let _ = catch_unwind(AssertUnwindSafe(|| handler(log, error)));
        }
    }

    /// What an error means to a user. A call that ends because the client was closed says so.
    pub fn failure(&self, error: Error) -> Error {
        if self.peers.closed() { Error::closed("client", error.outcome()) } else { error }
    }

    /// Waits for an answer, unless the client is closed before.
    pub async fn answer<T>(&self, doing: impl Future<Output = Result<T, Status>>) -> Result<T, Error> {
        tokio::select! {
            answer = doing => answer.map_err(|status| self.failure(Error::from_status(&status))),
            () = self.peers.until_closed() => Err(Error::closed("client", Outcome::MaybeDone)),
        }
    }

    async fn ready(&self, channel: Channel) -> Result<Grpc<Channel>, Error> {
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_ANSWER);
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(e) => Err(self.failure(Error::unreachable(Outcome::NotDone, e.to_string()))),
        }
    }

    /// For a stream that is opened again when it ends.
    pub fn shown(&self) -> Shown {
        Shown::new(self.token.clone())
    }

    /// Makes a call once, on one node.
    pub async fn on<Q: Message, A: Message + Default>(
        &self,
        channel: Channel,
        method: &Method<Q, A>,
        request: Q,
    ) -> Result<A, Error> {
        decoded(self.unary(channel, method.path, request.encode_to_vec().into()).await?)
    }

    /// A call whose token was refused is made once more if there is another one.
    async fn unary(&self, channel: Channel, path: &'static str, request: Bytes) -> Result<Bytes, Error> {
        let shown = self.token.as_ref().map(|token| token.header(false)).transpose()?;
        let refused = match self.once(channel.clone(), path, request.clone(), shown.clone()).await {
            Err(e) if *e.reason() == Reason::Unauthenticated && e.outcome() == Outcome::NotDone => e,
            done => return done,
        };
        let another = self.token.as_ref().zip(shown).and_then(|(token, shown)| token.another(&shown));
        match another {
            Some(header) => self.once(channel, path, request, Some(header)).await,
            None => Err(refused),
        }
    }

    async fn once(
        &self,
        channel: Channel,
        path: &'static str,
        request: Bytes,
        token: Option<Header>,
    ) -> Result<Bytes, Error> {
        let mut grpc = self.ready(channel).await?;
        let path = PathAndQuery::from_static(path);
        Ok(self.answer(grpc.unary(showing(request, token), path, BytesCodec)).await?.into_inner())
    }

    /// Makes a call with many answers once, on one node.
    pub async fn stream<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        channel: Channel,
        method: &Method<Q, A>,
        request: Q,
        token: Option<Header>,
    ) -> Result<Streaming<A>, Error> {
        let mut grpc = self.ready(channel).await?;
        let path = PathAndQuery::from_static(method.path);
        let codec = ProstCodec::<Q, A>::default();
        Ok(self.answer(grpc.server_streaming(showing(request, token), path, codec)).await?.into_inner())
    }

    /// Begins a stream of appends on one node. It returns with the first answer, so the requests
    /// are sent meanwhile.
    pub fn append<S>(
        &self,
        channel: Channel,
        requests: S,
        token: Option<Header>,
    ) -> impl Future<Output = Result<Streaming<wire::AppendResponse>, Status>> + Send + use<S>
    where
        S: futures_core::Stream<Item = Outgoing> + Send + 'static,
    {
        let request = showing(requests, token);
        async move {
            let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_ANSWER);
            grpc.ready().await.map_err(|e| Status::from_error(e.into()))?;
            let path = PathAndQuery::from_static("/strandline.v1.LogService/Append");
            Ok(grpc.streaming(request, path, AppendCodec).await?.into_inner())
        }
    }

    /// Asks a node what it knows of a log, without its asking others.
    pub async fn known(&self, channel: Channel, log: &str) -> Result<wire::LogInfo, Error> {
        let request = wire::GetInfoRequest { log: log.to_string(), allow_stale: true, ..Default::default() };
        Ok(self.on(channel, &GET_INFO, request).await?.info.unwrap_or_default())
    }

    /// Asks a node whether it is there. A node that does not know the question is.
    pub async fn health(&self, channel: Channel) -> Result<(), Error> {
        self.unary(channel, "/grpc.health.v1.Health/Check", Bytes::new()).await.map(drop)
    }

    /// The same as known, for as long as a connection may take.
    pub async fn known_info(&self, channel: Channel, log: &str) -> Result<wire::LogInfo, Error> {
        match timeout(CONNECT_PATIENCE, self.known(channel, log)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::unreachable(Outcome::NotDone, "a node does not answer for now")),
        }
    }

    /// Makes a call to the node that leads a log, as often as the retry time allows. The call
    /// does no harm when it is made twice, or the node recognises it.
    pub async fn to_leader<Q: Message, A: Message + Default>(
        self: &Arc<Self>,
        log: &str,
        method: &Method<Q, A>,
        request: Q,
        deadline: Deadline,
    ) -> Result<A, Error> {
        let mut route = Route::Leader(ToLeader::new(log, false));
        self.by(&mut route, method, request, deadline).await
    }

    /// The same for a call that waits in line for its turn: that time does not count.
    pub async fn in_line<Q: Message, A: Message + Default>(
        self: &Arc<Self>,
        log: &str,
        method: &Method<Q, A>,
        request: Q,
        deadline: Deadline,
    ) -> Result<A, Error> {
        let mut route = Route::Leader(ToLeader::new(log, false));
        self.waiting(&mut route, method, request, deadline, Waiting::Turn).await
    }

    /// The same to renew a lease, while that lasts, also where the leader stands still.
    pub async fn renew<Q: Message, A: Message + Default>(
        self: &Arc<Self>,
        log: &str,
        method: &Method<Q, A>,
        request: Q,
        lease: Duration,
    ) -> Result<A, Error> {
        let mut route = Route::Leader(ToLeader::new(log, false));
        let deadline = Deadline(Instant::now().checked_add(lease));
        self.waiting(&mut route, method, request, deadline, Waiting::Renewal(lease)).await
    }

    /// Makes a call on the nodes of a route, one after the other.
    pub async fn by<Q: Message, A: Message + Default>(
        self: &Arc<Self>,
        route: &mut Route,
        method: &Method<Q, A>,
        request: Q,
        deadline: Deadline,
    ) -> Result<A, Error> {
        self.waiting(route, method, request, deadline, Waiting::Answer).await
    }

    async fn waiting<Q: Message, A: Message + Default>(
        self: &Arc<Self>,
        route: &mut Route,
        method: &Method<Q, A>,
        request: Q,
        deadline: Deadline,
        waiting: Waiting,
    ) -> Result<A, Error> {
        let (path, request) = (method.path, Bytes::from(request.encode_to_vec()));
        let call = |channel| -> BoxFuture<'_, _> { Box::pin(self.unary(channel, path, request.clone())) };
        decoded(self.tries(route, deadline, waiting, call).await?)
    }

    /// Does something on the nodes of a route, one after the other, as often as the retry time
    /// allows.
    pub async fn tries<'a, T>(
        self: &Arc<Self>,
        route: &mut Route,
        deadline: Deadline,
        waiting: Waiting,
        act: impl Fn(Channel) -> BoxFuture<'a, Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut began = Instant::now();
        let mut pauses = Pauses::new();
        let mut tries = Tries { outcome: Outcome::NotDone, answered: None };
        for count in 1.. {
            let failure = match deadline.bound(Outcome::NotDone, route.connect(self)).await {
                Err(failure) => failure,
                Ok(channel) => {
                    let called = Instant::now();
                    let acting = silence::attend(self, route.asked(self), waiting, act(channel));
                    match deadline.bound(Outcome::MaybeDone, acting).await {
                        Ok(answer) => return Ok(answer),
                        Err(failure) => {
                            if waiting == Waiting::Turn {
                                began += called.elapsed();
                            }
                            failure
                        }
                    }
                }
            };
            let failure = tries.failed(failure);
            if !failure.again() {
                return Err(tries.verdict(failure));
            }
            let mut width = 1;
            if failure.elsewhere() {
                route.elsewhere(self, &failure);
                width = route.width(self, &failure);
            }
            if count >= width && began.elapsed() + pauses.delay > failure.within(self.retry_time) {
                return Err(tries.verdict(failure));
            }
            if let Err(late) = pauses.within(width, deadline).await {
                return Err(tries.failed(late));
            }
        }
        unreachable!("tries are counted without end")
    }
}

fn showing<Q>(message: Q, token: Option<Header>) -> Request<Q> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token);
    }
    request
}

fn decoded<A: Message + Default>(answer: Bytes) -> Result<A, Error> {
    let wrong = |e| Error::new(Reason::Unreachable, format!("malformed answer: {e}"));
    A::decode(answer).map_err(|e| wrong(e).with_outcome(Outcome::MaybeDone))
}
