/** Resolves after so many milliseconds, or when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
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
