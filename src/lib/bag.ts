/** An item that can be in one bag at a time. */
export interface InBag {
  /** Index in its bag; -1: in no bag. Only the bag writes it. */
  place: number;
}

/**
 * An unordered collection with constant-time add and remove. Not a Set, because V8 allocates a new table every few changes and the old one
 * points to it: items that pass through a busy Set stay alive until the next major collection, which took a fifth of the time of a cached
 * answer.
 */
export class Bag<T extends InBag> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** No effect if the item is already present. */
  add(item: T): void {
    if (item.place >= 0) return;
    item.place = this.#items.length;
    this.#items.push(item);
  }

  /** Returns false if the item was absent. */
  remove(item: T): boolean {
    const { place } = item;
    if (place < 0) return false;
    const last = this.#items.pop() as T;
    if (last !== item) {
      this.#items[place] = last;
      last.place = place;
    }
    item.place = -1;
    return true;
  }

  /** The items at the time of the call. */
  all(): readonly T[] {
    return [...this.#items];
  }
}
