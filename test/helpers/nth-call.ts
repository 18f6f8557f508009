import type { KyselyPlugin } from 'kysely';
import type { DaemonParts } from '../../src/daemon/parts.ts';
import { CodedError } from '../../src/lib/coded-error.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';

/** Which calls of a port fail. */
export interface NthCall {
  /** Counted from 1. */
  readonly n: number;
  /** That one alone, or that one and all that follow. */
  readonly mode: 'once' | 'from';
}

/** Calls so far, and how many of them failed. */
export interface CallCount {
  calls: number;
  failed: number;
}

/** A switch that says for each call whether it fails. */
function failing({ n, mode }: NthCall, count: CallCount): () => boolean {
  return () => {
    count.calls += 1;
    const fails = mode === 'once' ? count.calls === n : count.calls >= n;
    if (fails) count.failed += 1;
    return fails;
  };
}

const gone = () => new CodedError('STORE_UNREACHABLE', 'made to fail by a test', { exitCode: 75, retryable: true });
const broken = () => new CodedError('STORE_IO', 'made to fail by a test', { exitCode: 75 });

/** What fails of the store: a write before anything happened, a write whose answer is lost, a query. */
export type StoreFault = 'write' | 'answer' | 'read';

/** Failures that pass are those of a lost connection; those that stay are those of a broken disk. */
export function failingStore(parts: DaemonParts, what: StoreFault, at: NthCall, count: CallCount): DaemonParts {
  const fails = failing(at, count);
  const error = at.mode === 'once' ? gone : broken;
  const wrap = (store: Store): Store => ({
    dialect: store.dialect,
    read: what === 'read' ? store.read.withPlugin(refusing(fails, error)) : store.read,
    async write<T>(work: (tx: StoreTx) => Promise<T>): Promise<T> {
      if (what === 'write' && fails()) throw error();
      const result = await store.write(work);
      if (what === 'answer' && fails()) throw error();
      return result;
    },
    version: () => store.version(),
    probe: () => store.probe(),
    close: () => store.close(),
  });
  return { ...parts, openStore: async (config, dataDir) => wrap(await parts.openStore(config, dataDir)) };
}

function refusing(fails: () => boolean, error: () => Error): KyselyPlugin {
  return {
    transformQuery({ node }) {
      if (fails()) throw error();
      return node;
    },
    transformResult: async ({ result }) => result,
  };
}

/** Requests to receivers that fail before they are sent, or whose answers are lost. */
export function failingOutbound(
  parts: DaemonParts,
  what: 'request' | 'answer',
  at: NthCall,
  count: CallCount,
): DaemonParts {
  const fails = failing(at, count);
  const reset = () => new CodedError('OUTBOUND_RESET', 'made to fail by a test', { retryable: true });
  return {
    ...parts,
    outbound: {
      open(policy) {
        const client = parts.outbound.open(policy);
        return {
          ...client,
          async request(request) {
            const isFailing = fails();
            if (isFailing && what === 'request') throw reset();
            const answer = await client.request(request);
            if (isFailing) throw reset();
            return answer;
          },
        };
      },
    },
  };
}

/** A wall clock that jumps at its nth reading, once for one reading or for good. */
export function jumpingClock(parts: DaemonParts, byMs: number, at: NthCall, count: CallCount): DaemonParts {
  const fails = failing(at, count);
  const { clock } = parts;
  return { ...parts, clock: { ...clock, now: () => clock.now() + (fails() ? byMs : 0) } };
}
