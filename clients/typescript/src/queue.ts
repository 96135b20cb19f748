/** First in, first out, each in constant time: the shift of a long array moves all that is left. */
export class Queue<T> implements Iterable<T> {
  #items: (T | undefined)[] = [];
  #first = 0;

  get length(): number {
    return this.#items.length - this.#first;
  }

  get first(): T | undefined {
    return this.#items[this.#first];
  }

  get last(): T | undefined {
    return this.length > 0 ? this.#items.at(-1) : undefined;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#first];
    this.#items[this.#first++] = undefined;
    if (this.#first > 1024 && 2 * this.#first > this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#first = 0;
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let i = this.#first; i < this.#items.length; i++) yield this.#items[i] as T;
  }
}
