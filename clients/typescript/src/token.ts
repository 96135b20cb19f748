import { readFileSync } from "node:fs";
import { Metadata } from "@grpc/grpc-js";
import { header } from "./check.js";
import { invalid, StrandlineError, unreachable } from "./errors.js";

/** A file is read again for a call this long, in milliseconds, after it was read. */
const readAgain = 1000;

/** A function that gives a token. */
interface Give {
  (): string;
  /** Gives it past what is kept of it. */
  anew?: () => string;
}

/**
 * A token that is kept in a file, without the space around it: `new Client(addresses, { token: tokenFile(path) })`.
 * The file is read again while calls are made, at most once a second, and when a node refuses the token, so that it
 * can be replaced. Where it cannot be read any more, or is empty as it is being written, the one read last is shown.
 */
export function tokenFile(path: string): () => string {
  let shown = "";
  let read = Number.NEGATIVE_INFINITY;
  const anew = () => {
    read = performance.now();
    try {
      shown = readFileSync(path, "utf8").trim() || shown;
    } catch (error) {
      if (!shown) throw invalid(`the token cannot be read: ${(error as Error).message}`);
    }
    return shown;
  };
  return Object.assign(() => (performance.now() - read < readAgain ? shown : anew()), { anew });
}

/** The token that a client shows. */
export class Token {
  constructor(private readonly source?: string | Give) {}

  /** The token; undefined: none is shown. anew: past what is kept of it. */
  give(anew = false): string | undefined {
    if (typeof this.source !== "function") return this.source;
    try {
      const token = (anew && this.source.anew ? this.source.anew : this.source)();
      header(token);
      return token;
    } catch (error) {
      if (error instanceof StrandlineError) throw error;
      throw unreachable("not_done", `the function that gives the token failed: ${(error as Error)?.name}`);
    }
  }

  /** The token to show after the one that was shown has been refused; undefined: there is no other. */
  another(shown: string | undefined): string | undefined {
    try {
      const token = this.give(true);
      return token === shown ? undefined : token;
    } catch {
      return undefined;
    }
  }
}

/** What shows a token. */
export function showing(token: string | undefined): Metadata {
  const metadata = new Metadata();
  if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
  return metadata;
}

/** The token with which a stream was opened that is opened again when it ends. */
export class Shown {
  #shown: string | undefined;
  // The stream was opened again for another token, and no node has said since that it knows that one.
  #renewed = false;

  constructor(private readonly token: Token) {}

  /** What goes with the stream that is opened now. */
  get metadata(): Metadata {
    this.#shown = this.token.give();
    return showing(this.#shown);
  }

  /** Notes that the token is good. */
  progressed(): void {
    this.#renewed = false;
  }

  /**
   * What the failure of the stream means: a token that was refused is one to try again after if there is another,
   * but not twice in a row. What is final reaches the application, and what it does next may be tried with
   * another token again.
   */
  failure(failure: StrandlineError): StrandlineError {
    if (failure.reason === "UNREACHABLE") return failure;
    const renewed = this.#renewed;
    this.#renewed = false;
    if (failure.reason !== "UNAUTHENTICATED" || renewed || !this.token.another(this.#shown)) return failure;
    this.#renewed = true;
    return failure.but({ retryable: true });
  }
}
