import { X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { Admin } from "./admin.js";
import type { ProducerOptions } from "./backlog.js";
import { type Bound, Calls } from "./calls.js";
import { header } from "./check.js";
import { type Digest, type DigestOptions, digest, prove } from "./digests.js";
import { Ends } from "./ends.js";
import { fromEnvironment } from "./environment.js";
import { cancelled, invalid, StrandlineError } from "./errors.js";
import { KeptHold } from "./keptHold.js";
import { Peers, wrongAddress } from "./peers.js";
import { Producer } from "./producer.js";
import { Reader, type ReaderOptions } from "./reader.js";
import type { Hold, Record } from "./records.js";
import { Token } from "./token.js";
import { abortable } from "./wait.js";
import { WriterLease } from "./writerLease.js";
import type { WriterClaim } from "./writers.js";

/** Encrypts every connection. The values are what PEM files hold, as in node:tls. */
export interface TLS {
  /** The authorities by whose certificates nodes are believed; the default: those of the system. */
  ca?: Buffer | undefined;
  /** With key: shows who the client is. */
  cert?: Buffer | undefined;
  key?: Buffer | undefined;
}

/**
 * Encrypts every connection. The values are paths of PEM files. When they change they are read again for the next
 * connections, and passed over while they cannot be used.
 */
export interface TLSFiles {
  /** The authorities by whose certificates nodes are believed; the default: those of the system. */
  ca?: string | undefined;
  /** With key: shows who the client is. */
  cert?: string | undefined;
  key?: string | undefined;
}

/** How to connect. */
export interface ClientOptions {
  tls?: TLS | undefined;
  /** The same with files, which are read again when they have changed, for the next connections. */
  tlsFiles?: TLSFiles | undefined;
  /** Allows addresses other than loopback without tls. */
  insecure?: boolean | undefined;
  /**
   * Is sent with every call, as `authorization: Bearer`. A function is called for it with every call and
   * stream, and again when a node refuses a token; it must return at once: see {@link tokenFile}.
   */
  token?: string | (() => string) | undefined;
  /**
   * How long calls of admin, and the opening of a producer or reader, keep looking for a node that can
   * answer (5 s); 0 tries every address once.
   */
  retryTimeMs?: number | undefined;
  /**
   * Is called with a log and an error whenever a producer or reader of it cannot continue and tries again, and
   * without an error when it continues. It must return soon.
   */
  onTrouble?: ((log: string, error: StrandlineError | undefined) => void) | undefined;
}

function encrypted({ ca, cert, key }: TLS): ChannelCredentials {
  if (!cert !== !key) throw invalid("a certificate needs its key, and a key its certificate");
  try {
    if (ca) new X509Certificate(ca); // garbage would be taken, and nobody believed
    return credentials.createSsl(ca ?? null, key ?? null, cert ?? null);
  } catch (error) {
    const { message } = error as Error;
    throw invalid(`the certificates cannot be used: they are not PEM, or the key does not match (${message})`);
  }
}

function read(path: string | undefined): Buffer | undefined {
  try {
    return path === undefined ? undefined : readFileSync(path);
  } catch (error) {
    throw invalid(`a file of certificates cannot be read: ${(error as Error).message}`);
  }
}

/** What the files hold, read again when they have changed. */
function reloaded(files: TLSFiles): () => ChannelCredentials {
  const all = [files.ca, files.cert, files.key];
  /** Differs when a file has been replaced. */
  const stamp = () =>
    all
      .map((path) => path && statSync(path, { throwIfNoEntry: false }))
      .map((found) => found && `${found.mtimeMs} ${found.size} ${found.ino}`)
      .join();
  const open = () => encrypted({ ca: read(files.ca), cert: read(files.cert), key: read(files.key) });
  let newest = open();
  let seen = stamp();
  return () => {
    const now = stamp();
    if (now === seen) return newest;
    try {
      newest = open();
      seen = now;
    } catch {
      // They may be under way: the next connection looks again.
    }
    return newest;
  };
}

const constant =
  <T>(value: T) =>
  () =>
    value;

/**
 * Holds the connections to a cluster, one to each node that it needs.
 *
 * The addresses (HOST:PORT, one or several) are those of nodes, of which one that is up is enough; the
 * leader of each log is found. Nothing is connected before something is asked for.
 */
export class Client {
  /** The verbs beside append and read. */
  readonly admin: Admin;
  readonly #calls: Calls;
  readonly #ends: Ends;

  constructor(
    addresses: string | readonly string[],
    { tls, tlsFiles, insecure, token, retryTimeMs, onTrouble }: ClientOptions = {},
  ) {
    const all = typeof addresses === "string" ? [addresses] : [...addresses];
    if (all.length === 0) throw invalid("a client needs an address");
    if (tls && tlsFiles) throw invalid("tls and tlsFiles are both given: give one of them");
    const anywhere = insecure || tls !== undefined || tlsFiles !== undefined;
    for (const address of all) {
      const wrong = wrongAddress(address, anywhere);
      if (wrong) throw wrong;
    }
    if (typeof token !== "function") header(token);
    const shown = tlsFiles ? reloaded(tlsFiles) : constant(tls ? encrypted(tls) : credentials.createInsecure());
    const peers = new Peers(all, shown, anywhere);
    this.#calls = new Calls(peers, retryTimeMs ?? 5000, new Token(token), onTrouble);
    this.admin = new Admin(this.#calls);
    this.#ends = new Ends(async (log) => (await this.admin.info(log)).end);
  }

  /**
   * A client of STRANDLINE_SERVER (addresses with commas between them; 127.0.0.1:7171), with STRANDLINE_TLS_CA,
   * STRANDLINE_TLS_CERT, STRANDLINE_TLS_KEY, STRANDLINE_TOKEN_FILE or else STRANDLINE_TOKEN, and
   * STRANDLINE_INSECURE, which the command line takes too. The options given count more.
   */
  static fromEnvironment(
    options: ClientOptions = {},
    environ: { [name: string]: string | undefined } = process.env,
  ): Client {
    const [addresses, found] = fromEnvironment(environ);
    return new Client(addresses, { ...found, ...options });
  }

  /**
   * Where a log ends, by its leader and a majority of its replicas: every record that was acknowledged before
   * lies below. Callers share calls: those who come while one is under way are answered together by the next.
   */
  async end(log: string, { signal }: Bound = {}): Promise<number> {
    try {
      return await abortable(this.#ends.end(log), signal, () => cancelled("not_done"));
    } catch (error) {
      throw error instanceof StrandlineError ? error.but({}) : error; // each caller gets one of its own
    }
  }

  /**
   * The digest of a log as of an offset from its start to its end, or of its end. PRECONDITION: there was none yet.
   */
  digest(log: string, { at, ...options }: DigestOptions & { at?: number | undefined } = {}): Promise<Digest> {
    return digest(this.#calls, log, at, options);
  }

  /**
   * Returns a record once it is proved to be in the log that has a trusted hash as of an offset: a digest that was kept,
   * or comes from elsewhere. UNPROVEN: what the server sent does not prove it. UNSUPPORTED: it is proved, but compressed.
   */
  prove(
    log: string,
    offset: number,
    trusted: Pick<Digest, "hash" | "at">,
    options: DigestOptions = {},
  ): Promise<Record> {
    return prove(this.#calls, log, offset, trusted, options);
  }

  /**
   * Sets a hold as {@link Admin.setHold} does and, if it has a lease, renews that until it is released or closed, or
   * the client is closed: a program that dies keeps nothing for longer than the lease.
   */
  hold(
    log: string,
    hold: Partial<Hold> & { name: string },
    { at, signal }: Bound & { at?: "start" | "end" | undefined } = {},
  ): Promise<KeptHold> {
    return new KeptHold(this.#calls, log, hold).open(at, signal);
  }

  /**
   * Waits in line until this program has the writer lease of a log, and renews it until it is released, handed over or
   * closed, or the client is closed. Append with its term as {@link ProducerOptions.writerTerm}.
   *
   * If the client has had the lease under the name before and has not released it, this pauses for up to a second
   * first: another program of the name may have taken it.
   */
  leaseWriter(log: string, claim: WriterClaim, { signal }: Bound = {}): Promise<WriterLease> {
    return new WriterLease(this.#calls, log, claim).open(signal);
  }

  /** Begins to append to a log that exists. Of an error nothing is in the log. */
  producer(log: string, { signal, ...options }: ProducerOptions & Bound = {}): Promise<Producer> {
    return new Producer(this.#calls, log, options).open(signal);
  }

  /** Reads a log: `for await (const record of client.read(...))`. It asks nobody yet. */
  read(log: string, options: ReaderOptions = {}): Reader {
    return new Reader(this.#calls, log, options);
  }

  /** Ends every connection. Close producers first: what they have in flight is in doubt otherwise. */
  close(): void {
    this.#calls.close();
  }

  /** Closes the client at the end of a `using`. */
  [Symbol.dispose](): void {
    this.close();
  }
}
