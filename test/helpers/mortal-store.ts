import type { Store } from '../../src/ports/store.ts';

const NEVER = new Promise<never>(() => {});

/** A process that may be killed: after its death, no call that it began returns. */
export interface Life {
  isDead: boolean;
}

/** A store of a process that can die: before a commit, or after it and before it hears of it. `below` draws a number. */
export function mortalStore(store: Store, random: { below(n: number): number }): { life: Life; store: Store } {
  const life: Life = { isDead: false };
  const write: Store['write'] = async (work) => {
    if (life.isDead) return await NEVER;
    const diesBefore = random.below(2) === 0;
    const result = await store
      .write(async (tx) => {
        const inner = await work(tx);
        if (life.isDead && diesBefore) throw new Error('died before the commit');
        return inner;
      })
      .catch((error: unknown) => {
        if (life.isDead) return NEVER;
        throw error;
      });
    return life.isDead ? await NEVER : result;
  };
  return { life, store: { ...store, write } };
}
