const CHUNK_IDS = 8_192;

/** Short lists of ids in few large arrays: an array of its own for each transaction costs more than filling it. */
export class IdPool {
  private ids = new Uint32Array(CHUNK_IDS);
  private used = 0;
  private from = 0;

  /** Begins a list of up to `most` ids. */
  begin(most: number): void {
    if (this.used + most > this.ids.length) {
      this.ids = new Uint32Array(Math.max(CHUNK_IDS, most));
      this.used = 0;
    }
    this.from = this.used;
  }

  add(id: number): void {
    this.ids[this.used++] = id;
  }

  /** Adds an id that the list does not hold yet. */
  addNew(id: number): void {
    for (let at = this.from; at < this.used; at++) if (this.ids[at] === id) return;
    this.ids[this.used++] = id;
  }

  /** The list that was begun last. */
  end(): Uint32Array {
    const { ids, from, used } = this;
    return new Uint32Array(ids.buffer, from * ids.BYTES_PER_ELEMENT, used - from);
  }
}
