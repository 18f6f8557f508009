/**
 * Re-checks the rights of long-lived callers: open websockets and login sessions. One query for all of them runs every `everyMs`, and at
 * once after a hint. A revoked right is thus noticed within `everyMs`, even if another process revoked it and its hint was lost.
 */
export interface RightsWatch<State> {
  /** Calls `look` after every check with the state of `name`, or null if it has lost its rights. The returned function ends the watch. */
  add(name: string, look: (state: State | null) => void): () => void;
  /** Triggers a check at once, after a change. */
  lookNow(): void;
  stop(): void;
}

export interface RightsWatchParts<State> {
  readonly clock: { timeout(ms: number, fn: () => void): () => void };
  readonly everyMs: number;
  /** The current states; a name without an entry has lost its rights. */
  read(names: readonly string[]): Promise<ReadonlyMap<string, State>>;
  /** Called for the first of consecutive failed checks. Rights stay unchanged until a check succeeds. */
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
    // A watch that was added during the query may be newer than its result.
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
