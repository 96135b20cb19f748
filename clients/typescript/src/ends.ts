interface Answer {
  end: Promise<number>;
  resolve(end: number): void;
  reject(error: unknown): void;
}

function unanswered(): Answer {
  const answer = {} as Answer;
  answer.end = new Promise((resolve, reject) => {
    answer.resolve = resolve;
    answer.reject = reject;
  });
  answer.end.catch(() => {}); // who asked may not wait any more
  return answer;
}

/**
 * The ends of logs that are being asked for. Who comes while a call is under way is answered by the next one,
 * with all others who came: what was acknowledged before lies below.
 */
export class Ends {
  readonly #next = new Map<string, Answer | undefined>(); // by log: who came while a call is under way

  constructor(private readonly ask: (log: string) => Promise<number>) {}

  /** The answer to a call that begins from now on. */
  end(log: string): Promise<number> {
    let answer = this.#next.get(log);
    if (answer) return answer.end;
    answer = unanswered();
    if (this.#next.has(log)) {
      this.#next.set(log, answer);
    } else {
      this.#next.set(log, undefined);
      void this.#run(log, answer);
    }
    return answer.end;
  }

  /** Asks, and then for those who have come meanwhile, until nobody has. */
  async #run(log: string, first: Answer): Promise<void> {
    for (let answer: Answer | undefined = first; answer; ) {
      await this.ask(log).then(answer.resolve, answer.reject);
      answer = this.#next.get(log);
      if (answer) this.#next.set(log, undefined);
      else this.#next.delete(log);
    }
  }
}
