const GIVE_UP_MS = 200;
/** Enough for answers on different sockets to arrive in this order. */
const APART_MS = 10;

/** Holds callers until `window` of them wait, then lets them go one after the other, the last one first. */
export function createReverseGate() {
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | null = null;
  function open(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const released = waiting.toReversed();
    waiting = [];
    released.forEach((release, index) => {
      setTimeout(release, index * APART_MS);
    });
  }
  return (window: number): Promise<void> =>
    new Promise((resolve) => {
      waiting.push(resolve);
      // A client that sends fewer calls at once than the window must not wait for ever.
      if (waiting.length >= window) open();
      else timer ??= setTimeout(open, GIVE_UP_MS);
    });
}
