import type { CallOptions, ClientUnaryCall, ServiceError } from "@grpc/grpc-js";
import {
  cancelled,
  closed,
  fromRpc,
  type Outcome,
  type StrandlineError,
  silent,
  unreachable,
  worst,
} from "./errors.js";
import * as catalog from "./generated/strandline/v1/catalog.js";
import * as log from "./generated/strandline/v1/log.js";
import * as session from "./generated/strandline/v1/session.js";
import { Near } from "./near.js";
import { connectPatience, Pauses, type Peer, type Peers, wrongAddress } from "./peers.js";
import type { Renewed } from "./renewed.js";
import { showing, Token } from "./token.js";
import { timed, within } from "./wait.js";

/** Stands for the log of logs where a call names none. */
export const catalogLog = "";

/** How long, in milliseconds, a node may be without any answer before it is suspected to stand still. */
export const suspectAfter = 1000;

/** Bounds a call: `{ signal: AbortSignal.timeout(1000) }`. */
export interface Bound {
  /** Ends the call when it is aborted. The error says what is known of the effect. */
  signal?: AbortSignal | undefined;
}

interface Codec<M> {
  encode(message: M): { finish(): Uint8Array };
  decode(bytes: Uint8Array): M;
  fromPartial(some: never): M;
}

/** One verb of the servers. */
export interface Method<Q, A> {
  path: string;
  write: (message: Q) => Buffer;
  read: (bytes: Buffer) => A;
}

function method<Q, A>(path: string, request: Codec<Q>, answer: Codec<A>): Method<Q, A> {
  return {
    path: `/strandline.v1.${path}`,
    write: (message) => {
      const bytes = request.encode(message).finish();
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    },
    read: (bytes) => answer.decode(bytes),
  };
}

export const methods = {
  createLog: method("CatalogService/CreateLog", catalog.CreateLogRequest, catalog.CreateLogResponse),
  listLogs: method("CatalogService/ListLogs", catalog.ListLogsRequest, catalog.ListLogsResponse),
  configureLog: method("CatalogService/ConfigureLog", catalog.ConfigureLogRequest, catalog.ConfigureLogResponse),
  deleteLog: method("CatalogService/DeleteLog", catalog.DeleteLogRequest, catalog.DeleteLogResponse),
  openSession: method("SessionService/OpenSession", session.OpenSessionRequest, session.OpenSessionResponse),
  keepSession: method("SessionService/KeepSession", session.KeepSessionRequest, session.KeepSessionResponse),
  closeSession: method("SessionService/CloseSession", session.CloseSessionRequest, session.CloseSessionResponse),
  resolve: method("SessionService/Resolve", session.ResolveRequest, session.ResolveResponse),
  append: method("LogService/Append", log.AppendRequest, log.AppendResponse),
  read: method("LogService/Read", log.ReadRequest, log.ReadResponse),
  trim: method("LogService/Trim", log.TrimRequest, log.TrimResponse),
  getInfo: method("LogService/GetInfo", log.GetInfoRequest, log.GetInfoResponse),
  watchInfo: method("LogService/WatchInfo", log.WatchInfoRequest, log.WatchInfoResponse),
  setHold: method("LogService/SetHold", log.SetHoldRequest, log.SetHoldResponse),
  keepHold: method("LogService/KeepHold", log.KeepHoldRequest, log.KeepHoldResponse),
  releaseHold: method("LogService/ReleaseHold", log.ReleaseHoldRequest, log.ReleaseHoldResponse),
  digest: method("LogService/Digest", log.DigestRequest, log.DigestResponse),
  prove: method("LogService/Prove", log.ProveRequest, log.ProveResponse),
  acquireWriter: method("LogService/AcquireWriter", log.AcquireWriterRequest, log.AcquireWriterResponse),
  leaseWriter: method("LogService/LeaseWriter", log.LeaseWriterRequest, log.LeaseWriterResponse),
  keepWriter: method("LogService/KeepWriter", log.KeepWriterRequest, log.KeepWriterResponse),
  releaseWriter: method("LogService/ReleaseWriter", log.ReleaseWriterRequest, log.ReleaseWriterResponse),
  watchWriter: method("LogService/WatchWriter", log.WatchWriterRequest, log.WatchWriterResponse),
};

/** Finds the node to ask. */
export interface Route {
  /** The node that connect tried last. */
  readonly tried: Peer | undefined;
  /** The node whose turn it is, with a connection that is up. With an error nothing has been sent. */
  connect(signal?: AbortSignal): Promise<Peer>;
  /** Notes that the node tried does not serve, and moves on. */
  elsewhere(failure: StrandlineError): void;
  /** How many nodes may be tried, after a failure, before it is time to pause. */
  width(failure: StrandlineError): number;
}

/**
 * The way to the node that leads a log. All who use it share what is known. A read has to ask first: it
 * is not turned away by a node that does not lead.
 */
export class ToLeader implements Route {
  tried: Peer | undefined;

  constructor(
    private readonly calls: Calls,
    private readonly log: string,
    private readonly ask = false,
  ) {}

  async connect(signal?: AbortSignal): Promise<Peer> {
    const { peers } = this.calls;
    const peer = await this.#toLeader(signal);
    if (!this.ask || peers.named(this.log)) return peer;
    try {
      peers.prefer(this.log, (await this.calls.knownInfo(peer, this.log, signal)).leader);
    } catch {
      return peer; // which answers the read, or says why it does not
    }
    return this.#toLeader(signal);
  }

  #toLeader(signal?: AbortSignal): Promise<Peer> {
    const { peers } = this.calls;
    const address = peers.leader(this.log);
    this.tried = peers.at(address);
    return peers.connect(address, signal);
  }

  elsewhere(failure: StrandlineError): void {
    this.calls.peers.lookElsewhere(this.log, this.tried?.address, failure.leader);
  }

  width(failure: StrandlineError): number {
    return this.calls.peers.addresses.length + (failure.leader ? 1 : 0);
  }
}

/** Stays with one of the dialled addresses as long as it serves, and follows no hint. */
export class ToDialled implements Route {
  tried: Peer | undefined;
  #turn = 0;

  constructor(private readonly peers: Peers) {}

  get address(): string {
    return this.peers.addresses[this.#turn] as string;
  }

  connect(signal?: AbortSignal): Promise<Peer> {
    this.tried = this.peers.at(this.address);
    return this.peers.connect(this.address, signal);
  }

  elsewhere(): void {
    this.#turn = (this.#turn + 1) % this.peers.addresses.length;
  }

  width(): number {
    return this.peers.addresses.length;
  }
}

/**
 * The way to the replicas of a log, the best first. Who they are is asked again when all have been tried.
 *
 * With labels those are best whose nodes have the first of them, then the second, and so on, and of equal
 * ones the nearest by measured round trip. Without, voters that do not lead are tried at random, then read
 * replicas, which may be far away, and the leader last.
 */
export class ToReplica implements Route {
  readonly #ask: ToDialled;
  readonly #key: string | undefined;
  #holders: string[] = [];
  #found = 0;
  #tried: Peer | undefined;

  constructor(
    private readonly calls: Calls,
    private readonly log: string,
    private readonly labels: readonly string[] | undefined,
  ) {
    this.#ask = new ToDialled(calls.peers);
    this.#key = labels?.join(",");
  }

  get tried(): Peer | undefined {
    return this.#tried ?? this.#ask.tried;
  }

  async connect(signal?: AbortSignal): Promise<Peer> {
    const { peers } = this.calls;
    if (this.#holders.length === 0) {
      this.#tried = undefined;
      await this.#find(signal);
    }
    this.#tried = peers.at(this.#holders[0] as string);
    return peers.connect(this.#tried.address, signal);
  }

  async #find(signal?: AbortSignal): Promise<void> {
    const near = await this.#askNear(signal);
    const { replicas } = near ?? (await this.calls.knownInfo(await this.#ask.connect(signal), this.log, signal));
    const usable = replicas.filter((r) => !wrongAddress(r.address, this.calls.peers.anywhere));
    this.#holders = await this.#sort(usable, signal);
    if (this.#holders.length === 0) this.#holders = [this.#ask.address];
    this.#found = this.#holders.length;
  }

  /**
   * What the node knows that was the nearest for an earlier reader: a dialled one may be far away.
   * undefined: there is no such node, or it does not answer.
   */
  async #askNear(signal?: AbortSignal): Promise<log.LogInfo | undefined> {
    const { near, peers } = this.calls;
    const address = near.at(this.#key);
    if (address === undefined) return undefined;
    try {
      const peer = peers.at(address);
      await peer.connect(connectPatience, signal);
      return await this.calls.knownInfo(peer, this.log, signal);
    } catch {
      near.forget(this.#key, address);
      return undefined;
    }
  }

  #rank({ leader, readReplica, labels }: log.ReplicaAddress): number {
    if (!this.labels) return leader ? 2 : readReplica ? 1 : 0;
    const rank = this.labels.findIndex((label) => labels.includes(label));
    return rank < 0 ? this.labels.length : rank;
  }

  async #sort(replicas: log.ReplicaAddress[], signal?: AbortSignal): Promise<string[]> {
    const ranked = replicas.map((r) => ({ address: r.address, rank: this.#rank(r), chance: Math.random() }));
    ranked.sort((a, b) => a.rank - b.rank || a.chance - b.chance);
    const addresses = ranked.map((r) => r.address);
    if (this.#key === undefined || addresses.length === 0) return addresses;
    const best = ranked.filter((r) => r.rank === ranked[0]?.rank).length;
    const { near } = this.calls;
    if (best > 1) addresses.splice(0, best, ...(await near.sort(addresses.slice(0, best), this.log, signal)));
    near.remember(this.#key, addresses[0] as string);
    return addresses;
  }

  elsewhere(): void {
    if (this.#tried) {
      this.calls.near.forget(this.#key, this.#tried.address);
      if (this.#tried.address === this.#holders[0]) this.#holders.shift();
    }
    if (this.#holders.length === 0) this.#ask.elsewhere();
  }

  width(): number {
    return Math.max(this.#found, this.calls.peers.addresses.length);
  }
}

/** What is known of one call over all tries of it, on whatever nodes. */
export class Tries {
  #outcome: Outcome = "not_done";
  #answered: StrandlineError | undefined;

  /** Adds a try that failed, and returns its error with the outcome of all tries. */
  failed(newest: StrandlineError): StrandlineError {
    this.#outcome = worst(this.#outcome, newest.outcome);
    const failure = newest.but({ outcome: this.#outcome });
    if (failure.reason !== "UNREACHABLE") this.#answered = failure;
    return failure;
  }

  /**
   * The error of the call when the newest try was the last: what a node has answered says more than
   * that another one cannot be reached.
   */
  verdict(failure: StrandlineError): StrandlineError {
    const last = failure.reason === "UNREACHABLE" ? (this.#answered ?? failure) : failure;
    return last.but({ outcome: this.#outcome });
  }
}

/** What a node answers to a question that costs nothing. */
interface Sign {
  alive: boolean;
  /** Of the log, as far as the node knows. */
  leader: string;
  term: number;
}

const none: Sign = { alive: false, leader: "", term: 0 };

/** The sign that names the leader of the newest term; none where none names any. */
function newest(signs: Sign[]): Sign {
  return signs.reduce((best, sign) => (sign.leader && (!best.leader || sign.term > best.term) ? sign : best), none);
}

/** Makes the calls of a client. */
export class Calls {
  readonly near = new Near(this);
  /** What has to end with the client: a channel that is closed lets its calls go on. */
  readonly open = new Set<{ cancel(): void }>();

  readonly kept = new Set<Renewed>();
  /** Writer leases that this client was granted and has not released. */
  readonly unreleased = new Set<string>();

  constructor(
    readonly peers: Peers,
    /** How long, in milliseconds, calls keep looking for a node that can answer. */
    readonly retryTime: number,
    readonly token = new Token(),
    private readonly onTrouble?: (log: string, error: StrandlineError | undefined) => void,
  ) {}

  close(): void {
    for (const one of [...this.kept]) one.end(closed("client"));
    this.peers.close();
    for (const one of [...this.open]) one.cancel();
  }

  /** Has a call end with the client, if it lasts so long. */
  track<C extends ClientUnaryCall>(call: C): C {
    this.open.add(call);
    return call.once("status", () => this.open.delete(call));
  }

  /** Tells the application that a producer or reader of a log tries again, or continues. */
  trouble(log: string, error?: StrandlineError): void {
    if (!this.onTrouble || this.peers.closed) return;
    try {
      this.onTrouble(log, error);
    } catch (thrown) {
      // A handler that fails must end neither the producer nor the reader.
      process.emitWarning(thrown instanceof Error ? thrown : String(thrown));
    }
  }

  /** What an error means to a user. A call that ends because the client was closed says so. */
  failure(error: unknown): StrandlineError {
    const failure = fromRpc(error);
    return this.peers.closed ? closed("client", failure.outcome) : failure;
  }

  /** Makes a call once, on one node, or once more where its token was refused and there is another. */
  async on<Q, A>(peer: Peer, m: Method<Q, A>, request: Q, signal?: AbortSignal, options: CallOptions = {}): Promise<A> {
    const shown = this.token.give();
    try {
      return await this.#once(peer, m, request, shown, signal, options);
    } catch (error) {
      const { reason, outcome } = fromRpc(error);
      if (reason !== "UNAUTHENTICATED" || outcome !== "not_done") throw error;
      const another = this.token.another(shown);
      if (another === undefined) throw error;
      return this.#once(peer, m, request, another, signal, options);
    }
  }

  #once<Q, A>(
    peer: Peer,
    m: Method<Q, A>,
    request: Q,
    token: string | undefined,
    signal: AbortSignal | undefined,
    options: CallOptions,
  ): Promise<A> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(cancelled("maybe_done"));
      const cancel = () => call.cancel();
      const answered = (error: ServiceError | null, answer?: A) => {
        signal?.removeEventListener("abort", cancel);
        if (error) reject(error);
        else resolve(answer as A);
      };
      const { client } = peer;
      const call = this.track(
        client.makeUnaryRequest(m.path, m.write, m.read, request, showing(token), options, answered),
      );
      signal?.addEventListener("abort", cancel);
    });
  }

  /** Asks a node what it knows of a log, without its asking others. */
  async knownInfo(
    peer: Peer,
    name: string,
    signal?: AbortSignal,
    patience: number = connectPatience,
  ): Promise<log.LogInfo> {
    const request = log.GetInfoRequest.fromPartial({ log: name, allowStale: true });
    const deadline = Date.now() + patience;
    try {
      const { info } = await this.on(peer, methods.getInfo, request, signal, { deadline });
      return log.LogInfo.fromPartial(info ?? {});
    } catch (error) {
      const failure = fromRpc(error);
      if (failure.reason !== "CANCELLED" || signal?.aborted) throw failure;
      throw unreachable("not_done", `${peer.address} does not answer for now`);
    }
  }

  /**
   * Makes a call to the node that leads a log, as often as retryTime allows. The call does no harm when
   * it is made twice, or the node recognises it. A call that waits in line for its turn may do so for longer.
   */
  toLeader<Q, A>(name: string, m: Method<Q, A>, request: Q, signal?: AbortSignal, inLine = false): Promise<A> {
    const leads = name !== catalogLog;
    const once = (peer: Peer) => this.answered(peer, name, m, request, leads, signal);
    return this.by(new ToLeader(this, name), once, signal, inLine);
  }

  /** Makes a call that renews a lease, while that lasts, also where the leader stands still. */
  renew<Q, A>(name: string, m: Method<Q, A>, request: Q, leaseMs: number, signal: AbortSignal): Promise<A> {
    const bound = AbortSignal.any([signal, AbortSignal.timeout(timed(leaseMs))]);
    const once = (peer: Peer) => this.answered(peer, name, m, request, true, bound, leaseMs);
    return this.by(new ToLeader(this, name), once, bound);
  }

  /** Makes a call once, and leaves a node that stands still: see {@link attend}. */
  async answered<Q, A>(
    peer: Peer,
    name: string,
    m: Method<Q, A>,
    request: Q,
    leads: boolean,
    signal?: AbortSignal,
    leaseMs?: number,
  ): Promise<A> {
    const left = new AbortController();
    const both = signal ? AbortSignal.any([signal, left.signal]) : left.signal;
    try {
      return await this.attend(peer, name, this.on(peer, m, request, both), leads, leaseMs);
    } finally {
      left.abort();
    }
  }

  /**
   * Waits for an answer of a node, which may take its time: a leader that stands still, or is cut off, keeps
   * its connections. Whenever it has been silent for a second, or for quietMs, it is asked whether it is there, and
   * others are: see #suspect. What was sent may have been done.
   *
   * The answer to the renewal of a lease is waited for so that another node is asked while the lease lasts, which
   * the next leader gives anew: even the look that begins just before another node leads, and the next one, take
   * half of it together.
   */
  async attend<T>(
    peer: Peer,
    name: string,
    doing: Promise<T>,
    leads = false,
    leaseMs = Number.POSITIVE_INFINITY,
    quietMs = suspectAfter,
  ): Promise<T> {
    const patience = Math.min(connectPatience, leaseMs / 6);
    let done = false;
    let wake = () => {};
    const end = () => {
      done = true;
      wake();
    };
    doing.then(end, end);
    // A promise that is pending keeps all that ever waited for it: each turn has one of its own.
    const turn = () =>
      new Promise<undefined>((resolve) => {
        wake = () => resolve(undefined);
      });
    for (;;) {
      await within(turn(), Math.min(quietMs, leaseMs / 6));
      if (done) return doing;
      const failure = await Promise.race([turn(), this.#suspect(peer, name, leads, patience)]);
      if (done) return doing;
      if (failure) throw failure;
    }
  }

  /**
   * Why a call to a node that is silent is to be made elsewhere: the node does not even answer a question
   * that costs nothing, while another one does; or, if it is to be the leader, another node leads in a newer
   * term than it knows of. undefined: nothing speaks for that.
   */
  async #suspect(peer: Peer, name: string, leads: boolean, patience: number): Promise<StrandlineError | undefined> {
    if (this.peers.closed || this.peers.others(peer.address).length === 0) return undefined; // keep-alive finds out
    if (!leads && (await this.alive(peer, name))) return undefined;
    const asking = leads ? this.#sign(peer, name, patience) : none;
    const [own, beside] = await Promise.all([asking, this.#beside(peer.address, name, patience)]);
    const led = leads ? newest(beside) : none;
    const another = led.leader !== "" && led.leader !== peer.address;
    if (another && own.alive && own.leader && led.term > own.term) return silent(led.leader);
    // The next look may find more.
    if (own.alive || led.leader === peer.address || !beside.some((sign) => sign.alive)) return undefined;
    peer.noteSilence();
    if (another) return silent(led.leader);
    return unreachable("maybe_done", `${peer.address} does not answer for now`);
  }

  /** Whether a node answers at all. Those who wait for the same node ask it together. */
  alive(peer: Peer, name: string): Promise<boolean> {
    peer.asked ??= this.#sign(peer, name)
      .then(({ alive }) => alive)
      .finally(() => {
        peer.asked = undefined;
      });
    return peer.asked;
  }

  /** Asks a node who leads a log. Whatever it answers, it is there. */
  async #sign(peer: Peer, name: string, patience?: number): Promise<Sign> {
    try {
      const { leader, leaderTerm } = await this.knownInfo(peer, name, undefined, patience);
      return { alive: true, leader, term: leaderTerm };
    } catch (error) {
      return { ...none, alive: !["UNREACHABLE", "CANCELLED", "CLOSED"].includes(fromRpc(error).reason) };
    }
  }

  /** Asks all nodes but one who leads a log, and returns what those say that answer in time. */
  async #beside(address: string, name: string, patience: number = connectPatience): Promise<Sign[]> {
    const signs: Sign[] = [];
    const ask = async (other: string) => {
      const peer = this.peers.at(other);
      await peer.connect(patience);
      signs.push(await this.#sign(peer, name, patience));
    };
    await within(Promise.allSettled(this.peers.others(address).map(ask)), patience);
    return [...signs];
  }

  /** Asks the nodes beside one who leads a log. undefined: that one, or nobody knows. */
  async newerLeader(name: string, than: string): Promise<string | undefined> {
    const { leader } = newest(await this.#beside(than, name));
    return leader === "" || leader === than ? undefined : leader;
  }

  async by<T>(route: Route, act: (peer: Peer) => Promise<T>, signal?: AbortSignal, inLine = false): Promise<T> {
    let began = performance.now();
    const pauses = new Pauses();
    const tries = new Tries();
    for (let count = 1; ; count++) {
      let failure: StrandlineError;
      let called: number | undefined;
      try {
        const peer = await route.connect(signal);
        called = performance.now();
        return await act(peer);
      } catch (error) {
        failure = tries.failed(this.failure(error));
      }
      if (inLine && called !== undefined) began += performance.now() - called;
      if (!failure.again) throw tries.verdict(failure);
      let width = 1;
      if (failure.elsewhere) {
        route.elsewhere(failure);
        width = route.width(failure);
      }
      const late = performance.now() - began + pauses.delay > failure.within(this.retryTime);
      if (count >= width && late) throw tries.verdict(failure);
      await pauses.between(route.tried, width, signal);
      if (signal?.aborted) throw tries.failed(cancelled("maybe_done"));
    }
  }
}
