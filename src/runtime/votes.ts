/** What one upstream says: `key` is equal for equal answers, and short enough for a log. */
export interface Vote<T> {
  readonly voter: string;
  readonly key: string;
  readonly value: T;
}

export interface Agreement<T> {
  readonly key: string;
  readonly value: T;
  /** Names of the upstreams with this answer. */
  readonly voters: readonly string[];
}

/** Why nothing is agreed. `tie`: answers contradict each other; `short`: too few answered. */
export interface Disagreement {
  readonly kind: 'tie' | 'short';
  /** For people; names who said what. */
  readonly text: string;
}

/** Answers of several upstreams to one question, until enough of them are the same. A voter has one vote: its last one counts. */
export class Votes<T> {
  readonly #needed: number;
  readonly #votes = new Map<string, Vote<T>>();

  /** `needed`: more than half of all that may vote, so that at most one answer is agreed. */
  constructor(needed: number) {
    this.#needed = needed;
  }

  cast(vote: Vote<T>): void {
    this.#votes.set(vote.voter, vote);
  }

  has(voter: string): boolean {
    return this.#votes.has(voter);
  }

  get count(): number {
    return this.#votes.size;
  }

  agreed(): Agreement<T> | null {
    const [first] = this.#groups();
    if (first === undefined || first.length < this.#needed) return null;
    return { key: first[0]!.key, value: first[0]!.value, voters: first.map(({ voter }) => voter) };
  }

  /** Votes for something else. */
  against(key: string): readonly Vote<T>[] {
    return [...this.#votes.values()].filter((vote) => vote.key !== key);
  }

  /** `total`: how many may vote. */
  disagreement(total: number): Disagreement {
    const groups = this.#groups();
    const silent = total - this.#votes.size;
    const said = groups.map((group) => `${group.map(({ voter }) => voter).join(', ')}: ${group[0]!.key}`);
    const all = [...said, ...(silent > 0 ? [`${silent} without an answer`] : [])];
    const kind = groups.length > 1 ? 'tie' : 'short';
    const what = kind === 'tie' ? 'upstreams disagree' : 'too few upstreams answered';
    return { kind, text: `${what}, ${this.#needed} of ${total} must agree; ${all.join('; ')}` };
  }

  /** Equal votes, the most frequent first. */
  #groups(): Vote<T>[][] {
    const groups = new Map<string, Vote<T>[]>();
    for (const vote of this.#votes.values()) groups.set(vote.key, [...(groups.get(vote.key) ?? []), vote]);
    return [...groups.values()].sort((a, b) => b.length - a.length);
  }
}
