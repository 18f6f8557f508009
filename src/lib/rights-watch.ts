/**
 * Looks again at the rights of whoever stays: open websockets, sessions of people. What a request is asked at its start is asked of them
 * at every look: one question for all of them, every `everyMs` and at once after a hint. So a right that ends is noticed within
 * `everyMs`, also when it was ended by another process whose hint was lost.
 */
export interface RightsWatch<State> {
  /** `look` gets the present state of `name` with every look, null when there is none. The returned function ends it. */
  add(name: string, look: (state: State | null) => void): () => void;
  /** Something has changed: looks at once. */
  lookNow(): void;
  stop(): void;
}

export interface RightsWatchParts<State> {
  readonly clock: { timeout(ms: number, fn: () => void): () => void };
  readonly everyMs: number;
  /** The present states; a name without an entry has lost its rights. */
  read(names: readonly string[]): Promise<ReadonlyMap<string, State>>;
  /** Called for the first of several looks that fail in a row. Rights stay as they are until one works again. */
  failed(error: unknown): void;
}

export function createRightsWatch<State>(parts: RightsWatchParts<State>): RightsWatch<State> {
  const { clock, everyMs, read, failed } = parts;
  type Look = (state: State | null) => void;
  const watched = new Map<string, Set<Look>>();
  let cancel = (): void => {};
  let isLooking = false;
  let isChanged = false;
  let hasFailed = false;
  let isStopped = false;

  function plan(): void {
    cancel();
    if (!isStopped && watched.size > 0) cancel = clock.timeout(everyMs, lookNow);
  }

  async function look(): Promise<void> {
    // Whoever comes while the question runs may know more than its answer.
    const asked = [...watched].map(([name, looks]) => ({ name, looks: [...looks] }));
    try {
      const states = await read(asked.map(({ name }) => name));
      hasFailed = false;
      for (const { name, looks } of asked)
        for (const one of looks) if (watched.get(name)?.has(one)) one(states.get(name) ?? null);
    } catch (error) {
      if (!hasFailed) failed(error);
      hasFailed = true;
    }
  }

  async function lookUntilUnchanged(): Promise<void> {
    isLooking = true;
    do {
      isChanged = false;
      await look();
    } while (isChanged && !isStopped && watched.size > 0);
    isLooking = false;
    plan();
  }

  function lookNow(): void {
    isChanged = true;
    if (isLooking || isStopped || watched.size === 0) return;
    cancel();
    void lookUntilUnchanged();
  }

  return {
    add(name, look) {
      const looks = watched.get(name) ?? new Set();
      watched.set(name, looks.add(look));
      if (watched.size === 1 && looks.size === 1 && !isLooking) plan();
      return () => {
        if (looks.delete(look) && looks.size === 0 && watched.get(name) === looks) watched.delete(name);
      };
    },
    lookNow,
    stop() {
      isStopped = true;
      cancel();
      watched.clear();
    },
  };
}
