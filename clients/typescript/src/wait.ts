/** A time for a timer: Node takes one that is longer for 1 ms, or refuses it. */
export function timed(ms: number): number {
  return Math.min(Math.ceil(ms), 2 ** 31 - 1);
}

/** Resolves after so many milliseconds, or when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return within(new Promise(() => {}), ms, signal);
}

/** Waits for a promise to end in whatever way, so many milliseconds at most, or until the signal is aborted. */
export function within(doing: Promise<unknown>, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    doing.then(end, end); // also if nobody waits: a rejection that nobody handles ends the process
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end);
  });
}

/** Waits for a promise; when the signal is aborted before, it rejects and leaves the promise be. */
export function abortable<T>(doing: Promise<T>, signal: AbortSignal | undefined, error: () => Error): Promise<T> {
  if (!signal) return doing;
  return new Promise((resolve, reject) => {
    const abort = () => reject(error());
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort);
    doing.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** Resolves when a signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
