import type { Calls } from "./calls.js";
import { connectPatience } from "./peers.js";
import { within } from "./wait.js";

/** How long, in milliseconds, a measured round trip is believed: where nodes are changes rarely. */
const tripLasts = 60_000;

/** Knows how far nodes are, and for those who want the same labels a node that is near. */
export class Near {
  readonly #nodes = new Map<string, string>(); // addresses
  readonly #trips = new Map<string, { took: number; at: number }>();
  readonly #asking = new Map<string, Promise<boolean>>();

  constructor(private readonly calls: Calls) {}

  at(key: string | undefined): string | undefined {
    return key === undefined ? undefined : this.#nodes.get(key);
  }

  remember(key: string, address: string): void {
    this.#nodes.set(key, address);
  }

  /** Notes that a node did not serve. */
  forget(key: string | undefined, address: string): void {
    if (key !== undefined && this.#nodes.get(key) === address) this.#nodes.delete(key);
  }

  #trip(address: string): number | undefined {
    const trip = this.#trips.get(address);
    return trip && performance.now() - trip.at < tripLasts ? trip.took : undefined;
  }

  /**
   * Sorts nodes by how long they take to answer. Those of which that is not known are all asked at once. It
   * waits for the first, and then as long again: who takes longer is far away. Where one is known already, the
   * others are asked for the next reader.
   */
  async sort(addresses: string[], log: string, signal?: AbortSignal): Promise<string[]> {
    const unknown = addresses.filter((address) => this.#trip(address) === undefined);
    const asked = unknown.map((address) => this.#ask(address, log));
    if (asked.length === addresses.length) {
      const began = performance.now();
      const first = Promise.any(asked.map(async (answered) => (await answered) || Promise.reject()));
      await within(first, connectPatience, signal);
      await within(Promise.all(asked), performance.now() - began, signal);
    }
    const trips = new Map(addresses.map((address) => [address, this.#trip(address) ?? Number.POSITIVE_INFINITY]));
    const trip = (address: string) => trips.get(address) as number;
    return addresses.sort((a, b) => (trip(a) === trip(b) ? 0 : trip(a) - trip(b)));
  }

  #ask(address: string, log: string): Promise<boolean> {
    let asking = this.#asking.get(address);
    if (!asking) {
      asking = this.#measure(address, log).finally(() => this.#asking.delete(address));
      this.#asking.set(address, asking);
    }
    return asking;
  }

  /** Asks a node something that it knows, once there is a connection. false: it does not answer. */
  async #measure(address: string, log: string): Promise<boolean> {
    let took = Number.POSITIVE_INFINITY;
    try {
      const peer = this.calls.peers.at(address);
      await peer.connect(2 * connectPatience);
      const began = performance.now();
      await this.calls.knownInfo(peer, log);
      took = performance.now() - began;
    } catch {
      // It is as far away as a node can be.
    }
    this.#trips.set(address, { took, at: performance.now() });
    return took < Number.POSITIVE_INFINITY;
  }
}
