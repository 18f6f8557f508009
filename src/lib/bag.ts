/** Something that can be in one bag at a time. */
export interface InBag {
  /** Where in its bag; -1 in none. Only the bag writes it. */
  place: number;
}

/**
 * Things that come and go, in no order. Adding and removing takes the same time however many there are. Not a Set, because that of V8
 * makes a new table every few changes and the old one points to it: what passes through a busy one stays alive until the next major
 * collection, which was a fifth of the time of a cached answer.
 */
export class Bag<T extends InBag> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** Does nothing when it is there already. */
  add(item: T): void {
    if (item.place >= 0) return;
    item.place = this.#items.length;
    this.#items.push(item);
  }

  /** False when it was not there. */
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

  /** What was there when it was called. */
  all(): readonly T[] {
    return [...this.#items];
  }
}
