import { setImmediate as nextTurn } from 'node:timers/promises';
import { type CallContext, type Clock, type Random, RpcError } from '../../src/plugin/plugin.ts';
import { createSingleFlight } from '../../src/runtime/single-flight.ts';
import { type AccountPageQuestion, LIST_ID_BYTES } from './question.ts';
import { CHUNK_KEYS, type KeyChunks, type Nodes, type UpstreamCallOptions } from './upstream.ts';

/** The keys that answer a question, as of one moment. */
export interface KeyList {
  readonly id: Buffer;
  /** 32 bytes each, sorted, so that a page can also go on in a list that was made again. */
  readonly keys: Buffer;
  /** Pages are read at this slot or later; null when the node did not return it. */
  readonly slot: number | null;
}

/** `isKept`: an earlier call has made it. */
export interface FoundList extends KeyList {
  readonly isKept: boolean;
}

export interface AccountLists {
  /** The list of the cursor; where it is gone, or there is no cursor, one that is made now. Throws RpcError. */
  find(
    project: string,
    question: AccountPageQuestion,
    asker: Pick<CallContext, 'signal' | 'tenant'>,
  ): Promise<FoundList>;
  readonly bytes: number;
  readonly size: number;
}

interface ListLimits {
  readonly keepMs: number;
  readonly maxKeys: number;
  readonly projectListBytes: number;
  readonly totalListBytes: number;
  readonly maxListAnswerBytes: number;
  readonly listTimeoutMs: number;
}

interface CachedKeyList extends KeyList {
  readonly project: string;
  usedAt: number;
}

const KEY_BYTES = 32;
/** While a list is made its keys are there twice, and their order. */
const BYTES_WHILE_MADE = 2 * KEY_BYTES + 8;

/**
 * Lists that are being paged through. All of them together, and those of each project, stay within a size: the one that was used longest ago
 * makes room. That costs another list and nothing else, because cursors name a key, and lists are sorted.
 */
export function createAccountLists(nodes: Nodes, clock: Clock, random: Random, config: ListLimits): AccountLists {
  const kept = new Map<string, CachedKeyList>();
  /** Bytes of lists that are being made, by project. */
  const building = new Map<string, number>();
  const making = createSingleFlight<string, KeyList>();

  const bytesOf = (project?: string): number => {
    let sum = 0;
    for (const one of kept.values()) if (project === undefined || one.project === project) sum += one.keys.length;
    for (const [name, bytes] of building) if (project === undefined || name === project) sum += bytes;
    return sum;
  };

  function dropOld(): void {
    const now = clock.monotonic();
    for (const [id, { usedAt }] of kept) if (now - usedAt >= config.keepMs) kept.delete(id);
  }

  function makeRoom(project: string): void {
    for (const [most, whose] of [
      [config.projectListBytes, project],
      [config.totalListBytes, undefined],
    ] as const) {
      while (bytesOf(whose) > most) {
        const oldest = [...kept]
          .filter(([, one]) => whose === undefined || one.project === whose)
          .sort(([, a], [, b]) => a.usedAt - b.usedAt)[0];
        if (oldest === undefined) {
          throw new RpcError('unavailable', { details: 'too many accounts are listed at this moment', retryAfterS: 5 });
        }
        kept.delete(oldest[0]);
      }
    }
  }

  async function make(project: string, question: AccountPageQuestion, options: UpstreamCallOptions): Promise<KeyList> {
    let counted = 0;
    const reserve = (keys: number, bytesPerKey: number) => {
      if (keys > config.maxKeys) {
        throw new RpcError('invalidParams', { details: `more than ${config.maxKeys} accounts: ask with filters` });
      }
      const bytes = keys * bytesPerKey;
      building.set(project, (building.get(project) ?? 0) + bytes - counted);
      counted = bytes;
      makeRoom(project);
    };
    try {
      const listOptions = {
        ...question.context,
        ...question.listOptions,
        encoding: 'base64',
        dataSlice: { offset: 0, length: 0 },
        withContext: true,
      };
      const { scan, slot } = await nodes.keys(question.method, [...question.params, listOptions], {
        ...options,
        maxBytes: config.maxListAnswerBytes,
        count: (keys) => reserve(keys, BYTES_WHILE_MADE),
      });
      const keys = await sortKeys(scan.finish());
      const list: CachedKeyList = {
        id: Buffer.from(random.bytes(LIST_ID_BYTES)),
        keys,
        slot,
        project,
        usedAt: clock.monotonic(),
      };
      reserve(0, KEY_BYTES);
      kept.set(list.id.toString('hex'), list);
      makeRoom(project);
      return list;
    } finally {
      const left = (building.get(project) ?? 0) - counted;
      if (left <= 0) building.delete(project);
      else building.set(project, left);
    }
  }

  return {
    get bytes() {
      return bytesOf();
    },
    get size() {
      return kept.size;
    },
    async find(project, question, { signal, tenant }) {
      dropOld();
      const old = question.cursor === null ? undefined : kept.get(question.cursor.list.toString('hex'));
      // The name of a list is no secret: only its own project may use it.
      if (old !== undefined && old.project === project) {
        old.usedAt = clock.monotonic();
        return { ...old, isKept: true };
      }
      // Concurrent identical requests share the list; it continues when one of them leaves.
      const name = `${project} ${question.digest.toString('hex')} ${question.context['minContextSlot'] ?? ''}`;
      const shared = making.run(name, () => {
        const options = { timeoutMs: config.listTimeoutMs, signal: new AbortController().signal, tenant };
        return make(project, question, options);
      });
      return { ...(await orGone(shared, signal)), isKept: false };
    },
  };
}

function orGone<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new RpcError('unavailable', { details: 'the caller has gone' }));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** Up to here a range is sorted by comparing. */
const SMALL = 32;
/** How long sorting may hold the event loop. */
const SLICE_MS = 5;

/** Sorted, each key once. Gives way to other work every few milliseconds. */
async function sortKeys({ chunks, count }: KeyChunks): Promise<Buffer> {
  const byteOf = (index: number, depth: number) =>
    chunks[Math.floor(index / CHUNK_KEYS)]![(index % CHUNK_KEYS) * KEY_BYTES + depth]!;
  const order = new Uint32Array(count).map((_, index) => index);
  const spare = new Uint32Array(count);
  const ranges: [from: number, to: number, depth: number][] = [[0, count, 0]];
  let started = performance.now();
  for (let range = ranges.pop(); range !== undefined; range = ranges.pop()) {
    const [from, to, depth] = range;
    if (to - from <= SMALL) sortSmall(order, from, to, depth, byteOf);
    else if (depth < KEY_BYTES) {
      const ends = distribute(order, spare, from, to, (index) => byteOf(index, depth));
      for (let byte = 0, start = from; byte < 256; start = ends[byte]!, byte++) {
        if (ends[byte]! - start > 1) ranges.push([start, ends[byte]!, depth + 1]);
      }
    }
    if (performance.now() - started < SLICE_MS) continue;
    await nextTurn();
    started = performance.now();
  }
  return gatherKeys(chunks, order);
}

/** Puts the range in the order of one byte and answers where each value ends. */
function distribute(
  order: Uint32Array,
  spare: Uint32Array,
  from: number,
  to: number,
  byteOf: (index: number) => number,
) {
  const ends = new Uint32Array(256);
  for (let at = from; at < to; at++) {
    const byte = byteOf(order[at]!);
    ends[byte] = ends[byte]! + 1;
  }
  const next = new Uint32Array(256);
  for (let byte = 0, sum = from; byte < 256; byte++) {
    next[byte] = sum;
    sum += ends[byte]!;
    ends[byte] = sum;
  }
  for (let at = from; at < to; at++) {
    const byte = byteOf(order[at]!);
    spare[next[byte]!] = order[at]!;
    next[byte] = next[byte]! + 1;
  }
  order.set(spare.subarray(from, to), from);
  return ends;
}

function sortSmall(
  order: Uint32Array,
  from: number,
  to: number,
  depth: number,
  byteOf: (index: number, depth: number) => number,
) {
  const compare = (a: number, b: number) => {
    for (let at = depth; at < KEY_BYTES; at++) {
      const difference = byteOf(a, at) - byteOf(b, at);
      if (difference !== 0) return difference;
    }
    return 0;
  };
  order.subarray(from, to).sort(compare);
}

function gatherKeys(chunks: readonly Uint8Array[], order: Uint32Array): Buffer {
  const keys = Buffer.allocUnsafeSlow(order.length * KEY_BYTES);
  let end = 0;
  for (const index of order) {
    const at = (index % CHUNK_KEYS) * KEY_BYTES;
    const key = chunks[Math.floor(index / CHUNK_KEYS)]!.subarray(at, at + KEY_BYTES);
    if (end > 0 && keys.compare(key, 0, KEY_BYTES, end - KEY_BYTES, end) === 0) continue;
    keys.set(key, end);
    end += KEY_BYTES;
  }
  return keys.subarray(0, end);
}

/** How many keys of a sorted list are not greater than the key. */
export function countUpTo(keys: Buffer, key: Uint8Array): number {
  let from = 0;
  let to = keys.length / KEY_BYTES;
  while (from < to) {
    const middle = (from + to) >> 1;
    const isGreater = keys.compare(key, 0, KEY_BYTES, middle * KEY_BYTES, (middle + 1) * KEY_BYTES) > 0;
    if (isGreater) to = middle;
    else from = middle + 1;
  }
  return from;
}
