/** Runs one piece of work at a time, in the order of arrival. */
export type Turn = <T>(work: () => Promise<T>) => Promise<T>;

export function createTurn(): Turn {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const run = last.then(work);
    last = run.catch(() => undefined);
    return run;
  };
}
