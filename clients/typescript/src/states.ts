import { type Calls, type Method, ToLeader } from "./calls.js";
import { StrandlineError } from "./errors.js";
import { Pauses, type Peer } from "./peers.js";
import { Shown } from "./token.js";

/** How long, in milliseconds, a stream that is to last may be without a state before its node is suspected. */
const quietAfter = 2000;

/**
 * How long, in milliseconds, a stream lasts that is opened again after a pause: a node that ends each after its first
 * state would be called as fast as it answers.
 */
const brief = 1000;

/**
 * Yields what a node shows of a log as it changes; the first answer is a part of finding one. A lasting stream is
 * opened again when it breaks, or its node is silent or leads the log no longer. Otherwise that ends it with an error.
 */
export async function* watchStates<Q, A>(
  calls: Calls,
  log: string,
  { path, write, read }: Method<Q, A>,
  request: Q,
  { lasting = false, signal }: { lasting?: boolean; signal?: AbortSignal | undefined } = {},
): AsyncGenerator<A> {
  const shown = new Shown(calls.token);
  let cancel = () => {};
  const abort = () => cancel();
  signal?.addEventListener("abort", abort);
  const attend = (peer: Peer, next: Promise<IteratorResult<A>>) =>
    lasting ? calls.attend(peer, log, next, true, undefined, quietAfter) : calls.attend(peer, log, next);
  try {
    const open = async (peer: Peer) => {
      const call = calls.track(peer.client.makeServerStreamRequest(path, write, read, request, shown.metadata));
      call.on("error", () => {}); // the iterator has it, unless nobody asks any more
      cancel = () => call.cancel();
      const answers: AsyncIterator<A> = call[Symbol.asyncIterator]();
      try {
        return { peer, answers, first: await attend(peer, answers.next()) };
      } catch (error) {
        cancel();
        throw shown.failure(calls.failure(error));
      }
    };
    for (let pauses = new Pauses(); ; ) {
      const opened = performance.now();
      const { peer, answers, first } = await calls.by(new ToLeader(calls, log), open, signal);
      if (first.done) return;
      const next = () => attend(peer, answers.next()).catch((error) => shown.failure(calls.failure(error)));
      let answer: IteratorResult<A> | StrandlineError = first;
      while (!(answer instanceof StrandlineError)) {
        if (answer.done) break;
        shown.progressed();
        yield answer.value;
        answer = await next();
      }
      if (!(answer instanceof StrandlineError)) {
        if (!lasting) return;
      } else {
        if (!answer.renewed && !(lasting && answer.again && !signal?.aborted)) throw answer;
        if (answer.elsewhere) calls.peers.lookElsewhere(log, peer.address, answer.leader);
      }
      cancel();
      if (performance.now() - opened < brief) await pauses.wait(peer, signal);
      else pauses = new Pauses();
    }
  } catch (error) {
    throw calls.failure(error);
  } finally {
    signal?.removeEventListener("abort", abort);
    cancel();
  }
}
