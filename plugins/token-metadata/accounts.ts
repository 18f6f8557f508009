import { LRUCache } from 'lru-cache';
import { CodedError, messageOf } from '../../src/lib/coded-error.ts';
import { createLru } from '../../src/lib/lru.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { RawAccount } from '../../src/solana/accounts/decoded.ts';
import type { TokenMetadataConfig } from './config.ts';

/** An account as of a slot and of a time of the monotonic clock, null when missing, or the reason why it is unknown. */
export type Loaded =
  | { readonly ok: true; readonly account: ChainAccount | null; readonly slot: number; readonly readAtMs: number }
  | { readonly ok: false; readonly error: unknown };

export interface AccountSource {
  /**
   * An entry for each key. `fresh`: ignores the cache and calls in flight. Never rejects: what failed, or was
   * late, says so itself.
   */
  load(keys: readonly string[], options?: { readonly fresh?: boolean }): Promise<ReadonlyMap<string, Loaded>>;
  /** Forgets accounts that were written to at a slot. What a node answers that is not yet so far is not kept. */
  drop(keys: readonly string[], slot: number): void;
}

interface SourceParts {
  readonly read: (keys: readonly string[], timeoutMs: number) => Promise<ReadAccounts>;
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly config: Pick<TokenMetadataConfig, 'upstreamTimeoutMs'>;
  readonly concurrency: number;
  readonly maxWaiting: number;
  readonly cacheBytes: number;
  /** Called for each call, with the number of its keys. */
  readonly onCall?: (keys: number) => void;
}

interface Waiting {
  readonly promise: Promise<Loaded>;
  resolve(loaded: Loaded): void;
}

type Known = Loaded & { readonly ok: true };

const ENTRY_BYTES = 200;
const REMEMBERED_CHANGES = 50_000;

/** Reads accounts, many per call: concurrent requests for a key share one call, and waiting keys are batched. */
export function createAccountSource(parts: SourceParts): AccountSource {
  const { clock } = parts;
  const cache = new LRUCache<string, Known>({
    maxSize: parts.cacheBytes,
    sizeCalculation: ({ account }) => ENTRY_BYTES + (account?.data.length ?? 0),
    ttl: parts.ttlMs,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  const changed = createLru<string, number>({ max: REMEMBERED_CHANGES });
  const queued = new Map<string, Waiting>();
  const running = new Map<string, Waiting>();
  let calls = 0;
  let scheduled = false;

  function ask(key: string, fresh: boolean): Promise<Loaded> {
    const shared = queued.get(key) ?? (fresh ? undefined : running.get(key));
    if (shared !== undefined) return shared.promise;
    if (queued.size >= parts.maxWaiting) return Promise.resolve({ ok: false, error: tooMany() });
    const waiting = createWaiting();
    queued.set(key, waiting);
    if (!scheduled) {
      scheduled = true;
      // Keys requested in one turn of the event loop are batched.
      queueMicrotask(() => {
        scheduled = false;
        send();
      });
    }
    return waiting.promise;
  }

  function send(): void {
    while (queued.size > 0 && calls < parts.concurrency) {
      const batch = [...queued].slice(0, ACCOUNTS_PER_CALL);
      for (const [key, waiting] of batch) {
        queued.delete(key);
        running.set(key, waiting);
      }
      calls += 1;
      void run(batch).finally(() => {
        calls -= 1;
        send();
      });
    }
  }

  async function run(batch: readonly (readonly [string, Waiting])[]): Promise<void> {
    parts.onCall?.(batch.length);
    const keys = batch.map(([key]) => key);
    const readAtMs = clock.monotonic();
    const read = await parts.read(keys, parts.config.upstreamTimeoutMs).catch((error: unknown) => ({ error }));
    batch.forEach(([key, waiting], index) => {
      const loaded: Loaded =
        'error' in read
          ? { ok: false, error: read.error }
          : { ok: true, account: read.accounts[index] ?? null, slot: read.slot, readAtMs };
      if (loaded.ok && loaded.slot >= (changed.get(key) ?? 0)) cache.set(key, loaded);
      if (running.get(key) === waiting) running.delete(key);
      waiting.resolve(loaded);
    });
  }

  return {
    async load(keys, { fresh = false } = {}) {
      const found = new Map<string, Loaded | Promise<Loaded>>();
      for (const key of keys)
        if (!found.has(key)) found.set(key, (fresh ? undefined : cache.get(key)) ?? ask(key, fresh));
      const late: Loaded = { ok: false, error: chainIsLate() };
      const entries = [...found];
      const loaded = await within(
        clock,
        parts.config.upstreamTimeoutMs,
        late,
        entries.map(([, value]) => value),
      );
      return new Map(entries.map(([key], index) => [key, loaded[index] ?? late]));
    },
    drop(keys, slot) {
      for (const key of keys) {
        changed.set(key, Math.max(slot, changed.get(key) ?? 0));
        cache.delete(key);
      }
    },
  };
}

/** Waits for all, but only so long: those that are not there then are `late`. */
function within<T>(clock: Clock, ms: number, late: T, values: readonly (T | Promise<T>)[]): Promise<T[]> | T[] {
  if (!values.some((value) => value instanceof Promise)) return values as T[];
  return new Promise((resolve) => {
    const done: T[] = values.map(() => late);
    const cancel = clock.timeout(ms, () => resolve(done));
    const settled = values.map(async (value, index) => {
      done[index] = await value;
    });
    void Promise.all(settled).then(() => {
      cancel();
      resolve(done);
    });
  });
}

function createWaiting(): Waiting {
  let resolve: (loaded: Loaded) => void = () => {};
  const promise = new Promise<Loaded>((give) => {
    resolve = give;
  });
  return { promise, resolve };
}

const tooMany = () =>
  new CodedError('CHAIN_UNREACHABLE', 'too many accounts wait to be read already', { retryable: true });

/** The most that nodes answer in one call. */
const ACCOUNTS_PER_CALL = 100;

/** Both are commonly above 2^53. In an answer of encoded accounts no text can hold these members, so the digits may be quoted. */
const LARGE_NUMBERS = /"(rentEpoch|lamports)"\s*:\s*(\d+)/g;

interface AnsweredAccount {
  readonly owner: string;
  readonly lamports: string;
  readonly rentEpoch: string;
  readonly executable: boolean;
  readonly data: readonly [string, string];
}

/** Reads up to 100 accounts in one call. Errors: those of `ChainReader.callText`. */
export async function readAccounts(
  chain: ChainReader,
  keys: readonly string[],
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<ReadAccounts> {
  const options = { timeoutMs, ...(signal === undefined ? {} : { signal }) };
  const params = [keys, { encoding: 'base64', commitment: 'confirmed' }];
  const text = await chain.callText('getMultipleAccounts', params, options);
  try {
    return parse(text, keys.length);
  } catch (cause) {
    throw new CodedError('CHAIN_BAD_RESPONSE', `the answer is no list of accounts: ${messageOf(cause)}`, {
      cause,
      retryable: true,
    });
  }
}

function parse(text: string, count: number): ReadAccounts {
  const answer = JSON.parse(text.replace(LARGE_NUMBERS, '"$1":"$2"')) as {
    readonly context: { readonly slot: number };
    readonly value: readonly (AnsweredAccount | null)[];
  };
  if (!Number.isSafeInteger(answer.context.slot)) throw new TypeError('it names no slot');
  if (answer.value.length !== count) throw new TypeError(`${answer.value.length} accounts for ${count} keys`);
  return { slot: answer.context.slot, accounts: answer.value.map((account) => account && accountOf(account)) };
}

function accountOf({ owner, lamports, rentEpoch, executable, data }: AnsweredAccount): ChainAccount {
  if (typeof owner !== 'string' || data[1] !== 'base64') throw new TypeError('an account is not as it was asked for');
  return {
    owner,
    lamports: BigInt(lamports),
    data: Buffer.from(data[0], 'base64'),
    executable: executable === true,
    // Some nodes leave it out.
    rentEpoch: BigInt(rentEpoch ?? 0),
  };
}

/** An account with everything that a response contains. */
export interface ChainAccount extends RawAccount {
  readonly executable: boolean;
  readonly rentEpoch: bigint;
}

/** What one call found: the slot that it was answered at, and an entry for each key, null where there is no account. */
export interface ReadAccounts {
  readonly slot: number;
  readonly accounts: readonly (ChainAccount | null)[];
}

/** The upstreams took longer than the caller could wait. */
export const chainIsLate = (): CodedError =>
  new CodedError('CHAIN_TIMEOUT', 'the accounts were not read in time', { retryable: true });
