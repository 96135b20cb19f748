import { BlockList, isIPv6, SocketAddress } from "node:net";
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  connectivityState,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { cancelled, closed, invalid, StrandlineError, unreachable } from "./errors.js";
import { sleep } from "./wait.js";

const channelOptions: ChannelOptions = {
  "grpc.max_receive_message_length": 64 << 20,
  "grpc.max_send_message_length": -1,
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 250,
  "grpc.enable_retries": 0,
  "grpc.enable_http_proxy": 0,
  "grpc.use_local_subchannel_pool": 1,
  "grpc-node.flow_control_window": 4 << 20,
};

const check = "/strandline.v1.LogService/GetInfo";

/** How long, in milliseconds, a node may take to take a connection while there are others to try. */
export const connectPatience = 1000;

/** For so long, in milliseconds, hints to a node that did not answer are not followed. */
const silenceRemembered = 1000;

const causePatience = 500;

/**
 * What Node says where trying again cannot help: a node's certificate is not believed, does not name the node,
 * the node does not encrypt, or it refuses the client's certificate or the lack of one.
 */
const lastingCauses = new RegExp(
  "self-signed certificate|unable to (get|verify)|certificate (has expired|is not yet valid)|ALTNAME|wrong version" +
    "|alert (bad certificate|unsupported certificate|certificate (revoked|expired|unknown|required)|unknown ca)",
);

/** One node. */
export class Peer {
  client: Client;
  /** Whether it is there, while it is asked: see {@link Calls.alive}. */
  asked: Promise<boolean> | undefined;
  #silentUntil = 0;
  #shown: ChannelCredentials;

  constructor(
    readonly address: string,
    private readonly credentials: () => ChannelCredentials,
  ) {
    this.#shown = credentials();
    this.client = new Client(address, this.#shown, channelOptions);
  }

  /** Replaces a client without a connection when its certificates have been. */
  #renew(): void {
    const channel = this.client.getChannel();
    if (channel.getConnectivityState(false) === connectivityState.READY) return;
    const newest = this.credentials();
    if (newest === this.#shown) return;
    this.#shown = newest;
    this.client.close();
    this.client = new Client(this.address, newest, channelOptions);
  }

  get failing(): boolean {
    return this.client.getChannel().getConnectivityState(false) === connectivityState.TRANSIENT_FAILURE;
  }

  /** Waits until the connection is up. With an error nothing has been sent. */
  async connect(patience: number, signal?: AbortSignal): Promise<void> {
    const until = performance.now() + patience;
    this.#renew();
    for (;;) {
      const { client } = this;
      if (signal?.aborted) throw cancelled("maybe_done");
      const state = client.getChannel().getConnectivityState(true);
      if (state === connectivityState.READY) return;
      if (state === connectivityState.SHUTDOWN) throw closed("client");
      if (state === connectivityState.TRANSIENT_FAILURE) {
        const cause = await this.#cause();
        if (cause && client === this.client) throw cause; // or else it was replaced
        continue;
      }
      const left = until - performance.now();
      if (left <= 0) throw unreachable("not_done", `${this.address} accepts no connections now`);
      await this.change(state, left, signal);
    }
  }

  /**
   * Why there is no connection. Only a call says so; it fails at once, and if the connection is up by then,
   * the node refuses it, as it names no log: undefined.
   */
  #cause(): Promise<StrandlineError | undefined> {
    return new Promise((resolve) => {
      const same = (bytes: Buffer) => bytes;
      const ended = (error: ServiceError | null) => {
        if (error?.code !== status.UNAVAILABLE && error?.code !== status.DEADLINE_EXCEEDED) return resolve(undefined);
        const words = error.code === status.UNAVAILABLE ? error.details : "";
        const [, why = words] = /Last error: (?:Error: )?(.*?)(?:\. Resolution note: .*)?$/s.exec(words) ?? [];
        const message = `no connection to ${this.address}${why && `: ${why.trim()}`}`;
        const lasting = lastingCauses.test(words);
        resolve(new StrandlineError("UNREACHABLE", message, { retryable: !lasting, lasting }));
      };
      const deadline = Date.now() + causePatience;
      this.client.makeUnaryRequest(check, same, same, Buffer.alloc(0), { deadline }, ended);
    });
  }

  noteSilence(): void {
    this.#silentUntil = performance.now() + silenceRemembered;
  }

  get silent(): boolean {
    return performance.now() < this.#silentUntil;
  }

  /** Waits, so long and a second at most, for the state of the connection to change. */
  change(from: connectivityState, ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const patience = Math.min(ms, 1000);
      // It also keeps the process alive, which a channel without calls does not.
      const timer = setTimeout(end, patience);
      signal?.addEventListener("abort", end);
      this.client.getChannel().watchConnectivityState(from, Date.now() + patience, end);
    });
  }
}

/** Who is believed to lead a log. */
interface Lead {
  address: string;
  named: boolean; // by a node; else it is only the next to be asked
  turn: number; // of the dialled addresses
  hops: number; // hints followed in a row
  moved: number;
}

const maxHops = 2; // nodes that know too little can point at each other
const hopsForgotten = 1000;

/** All nodes that a client knows. */
export class Peers {
  closed = false;
  readonly #known = new Map<string, Peer>();
  readonly #leads = new Map<string, Lead>();

  constructor(
    readonly addresses: readonly string[],
    /** Gives what holds for a connection that is made now: the same object while nothing has changed. */
    private readonly credentials: () => ChannelCredentials,
    /** Addresses other than loopback are allowed. */
    readonly anywhere: boolean,
  ) {}

  close(): void {
    this.closed = true;
    for (const peer of this.#known.values()) peer.client.close();
  }

  #lead(log: string): Lead {
    let lead = this.#leads.get(log);
    if (!lead) {
      lead = { address: this.addresses[0] as string, named: false, turn: 0, hops: 0, moved: 0 };
      this.#leads.set(log, lead);
    }
    return lead;
  }

  leader(log: string): string {
    return this.#lead(log).address;
  }

  /** Whether a node has said who leads the log, and nothing has spoken against it since. */
  named(log: string): boolean {
    return this.#lead(log).named;
  }

  /** The node at an address, with a connection that is up. */
  async connect(address: string, signal?: AbortSignal): Promise<Peer> {
    const peer = this.at(address);
    await peer.connect(this.addresses.length > 1 ? connectPatience : Number.POSITIVE_INFINITY, signal);
    return peer;
  }

  at(address: string): Peer {
    if (this.closed) throw closed("client");
    let peer = this.#known.get(address);
    if (!peer) {
      peer = new Peer(address, this.credentials);
      this.#known.set(address, peer);
    }
    return peer;
  }

  /** Remembers who is said to lead a log. */
  prefer(log: string, address: string): void {
    if (this.usable(address)) Object.assign(this.#lead(log), { address, named: true });
  }

  /** Whether a hint is worth following. */
  usable(hint: string): boolean {
    if (wrongAddress(hint, this.anywhere)) return false;
    const host = split(hint)[0];
    if (host === "" || host === "0.0.0.0" || host === "::") return false;
    const known = this.#known.get(hint);
    return !this.closed && !known?.failing && !known?.silent;
  }

  /** All nodes that are known, but for one. */
  others(address: string): string[] {
    return [...new Set([...this.addresses, ...this.#known.keys()])].filter((other) => other !== address);
  }

  /**
   * Notes that the node tried last does not serve the log: the next one is whom it named, or the next
   * dialled address. Of callers that tried the same node in vain only the first moves on.
   */
  lookElsewhere(log: string, tried: string | undefined, hint: string): void {
    const lead = this.#lead(log);
    if (lead.address !== tried) return;
    const now = performance.now();
    if (now - lead.moved > hopsForgotten) lead.hops = 0;
    lead.moved = now;
    if (hint !== tried && lead.hops < maxHops && this.usable(hint)) {
      Object.assign(lead, { address: hint, named: true, hops: lead.hops + 1 });
      return;
    }
    Object.assign(lead, { named: false, hops: 0 });
    for (let n = 0; n < this.addresses.length && lead.address === tried; n++) {
      lead.turn = (lead.turn + 1) % this.addresses.length;
      lead.address = this.addresses[lead.turn] as string;
    }
  }
}

function split(address: string): [host: string, port: string] {
  const colon = address.lastIndexOf(":");
  return [address.slice(0, Math.max(colon, 0)).replace(/^\[(.*)\]$/, "$1"), address.slice(colon + 1)];
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

/** What is wrong with an address, if anything. */
export function wrongAddress(address: string, anywhere: boolean): StrandlineError | undefined {
  const [host, port] = split(address);
  if (!address.includes(":") || !/^\d+$/.test(port)) return invalid(`address "${address}" is not HOST:PORT`);
  if (anywhere || host === "localhost") return undefined;
  try {
    if (loopback.check(new SocketAddress({ address: host, family: isIPv6(host) ? "ipv6" : "ipv4" }))) return undefined;
  } catch {
    // It is a name.
  }
  return invalid(`address ${address} is not loopback: it needs tls, or insecure: true`);
}

// A client that has lost its leader soon finds the next one. The queries of a thousand that have waited for
// long would take the processors that nodes need to find each other.
const firstDelay = 10;
const lastDelay = 100;
const slowestDelay = 1000;

/**
 * Lie between tries. The longest that one can be doubles, and later is a tenth of the time since the first;
 * each is between half and all of that, so that clients which lost the same node do not come back together.
 */
export class Pauses {
  delay = firstDelay;
  #began: number | undefined; // the first pause
  #tries = 0; // since the last pause, each at another node

  /** Pauses only when so many nodes have been tried since the last pause. */
  async between(tried: Peer | undefined, width: number, signal?: AbortSignal): Promise<void> {
    this.#tries++;
    if (this.#tries >= width) await this.wait(tried, signal);
  }

  /** Pauses, or less if the connection to a node that could not be reached changes before. */
  async wait(tried?: Peer, signal?: AbortSignal): Promise<void> {
    const delay = this.draw(performance.now());
    if (tried?.failing) await tried.change(connectivityState.TRANSIENT_FAILURE, delay, signal);
    else await sleep(delay, signal);
    this.#tries = 0;
  }

  /** How long a pause that begins now is. */
  draw(now: number): number {
    this.#began ??= now;
    const delay = this.delay * (0.5 + 0.5 * Math.random());
    this.delay = Math.min(2 * this.delay, Math.max(lastDelay, (now - this.#began) / 10), slowestDelay);
    return delay;
  }
}
