import { encode32 } from '../../../src/lib/base58.ts';
import type { ChainReader, Clock, Store } from '../../../src/plugin/plugin.ts';
import { createSingleFlight } from '../../../src/runtime/single-flight.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { readAtOneSlot } from '../store/tables.ts';

/** Trees that are named; the rest is counted. */
const MAX_NAMED = 8;
/** A tree can become whole without a new block. */
const MAX_AGE_MS = 1_000;

/** Headers: `x-incomplete-trees` and `x-missing-ranges`, each only where something is missing. */
type Missing = Readonly<Record<string, string>>;

/**
 * What answers may lack: accounts of state trees without their whole history, and of ranges of slots that are not indexed yet. It is read once
 * for each slot. An answer lacks what was missing before or after it was read.
 */
export interface Completeness {
  /** Errors: of the store. */
  before(): Promise<Missing>;
  /** `slot`: that of the answer. Errors: of the store. */
  after(slot: number): Promise<Missing>;
}

interface Parts {
  readonly store: Store;
  readonly chain: ChainReader | null;
  readonly clock: Clock;
}

interface Known {
  readonly slot: number;
  /** Monotonic ms. */
  readonly at: number;
  readonly missing: Missing;
}

export function createCompleteness({ store, chain, clock }: Parts): Completeness {
  const reads = createSingleFlight<'trees', Known>();
  let known: Known | null = null;

  async function read(): Promise<Known> {
    const at = clock.monotonic();
    const { slot, value: keys } = await readAtOneSlot(store, (db) =>
      db
        .selectFrom('compression_trees')
        .select('key')
        .where('status', 'in', ['gap', 'diverged'])
        .where('type', 'in', [TREE_TYPE.stateV1, TREE_TYPE.stateV2])
        .orderBy('id')
        .execute(),
    );
    const names = keys.slice(0, MAX_NAMED).map(({ key }) => encode32(key));
    const more = keys.length > MAX_NAMED ? [`and ${keys.length - MAX_NAMED} more`] : [];
    const ranges = chain?.status().openGaps ?? 0;
    const missing = {
      ...(keys.length === 0 ? {} : { 'x-incomplete-trees': [...names, ...more].join(', ') }),
      ...(ranges === 0 ? {} : { 'x-missing-ranges': String(ranges) }),
    };
    known = { slot, at, missing };
    return known;
  }

  /** The last state that is good enough, or a new one: the work of another caller may have begun too early. */
  async function stateOf(isGood: (state: Known) => boolean): Promise<Missing> {
    if (known !== null && isGood(known)) return known.missing;
    const shared = await reads.run('trees', read);
    return (isGood(shared) ? shared : await read()).missing;
  }

  const isRecent = ({ at }: Known) => clock.monotonic() - at < MAX_AGE_MS;
  return {
    before: () => stateOf(isRecent),
    after: (slot) => stateOf((state) => state.slot >= slot && isRecent(state)),
  };
}
