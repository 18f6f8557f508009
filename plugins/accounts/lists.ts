import { type CallContext, type Clock, type Random, RpcError } from '../../src/plugin/plugin.ts';
import type { AccountsConfig } from './config.ts';
import { sortKeys } from './key-list.ts';
import { LIST_ID_BYTES, type Question } from './question.ts';
import type { AskOptions, Nodes } from './upstream.ts';

/** The keys that answer a question, as of one moment. */
export interface KeyList {
  readonly id: Buffer;
  /** 32 bytes each, sorted. */
  readonly keys: Buffer;
  /** Pages are read at this slot or later; null when the node did not return it. */
  readonly slot: number | null;
}

export interface Lists {
  /** The list of the cursor; where it is gone, or there is no cursor, one that is made now. Throws RpcError. */
  find(project: string, question: Question, asker: Pick<CallContext, 'signal' | 'tenant'>): Promise<KeyList>;
  readonly bytes: number;
  readonly size: number;
}

interface Kept extends KeyList {
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
export function createLists(nodes: Nodes, clock: Clock, random: Random, config: AccountsConfig): Lists {
  const kept = new Map<string, Kept>();
  /** Bytes of lists that are being made, by project. */
  const building = new Map<string, number>();
  const making = new Map<string, Promise<KeyList>>();

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

  async function make(project: string, question: Question, options: AskOptions): Promise<KeyList> {
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
        ...{ encoding: 'base64', dataSlice: { offset: 0, length: 0 }, withContext: true },
      };
      const { scan, slot } = await nodes.keys(question.method, [...question.params, listOptions], {
        ...options,
        maxBytes: config.maxListAnswerBytes,
        count: (keys) => reserve(keys, BYTES_WHILE_MADE),
      });
      const keys = await sortKeys(scan.finish());
      const list: Kept = {
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
        return old;
      }
      // Concurrent identical requests share the list; it continues when one of them leaves.
      const name = `${project} ${question.digest.toString('hex')} ${question.context['minContextSlot'] ?? ''}`;
      let shared = making.get(name);
      if (shared === undefined) {
        const options = { timeoutMs: config.listTimeoutMs, signal: new AbortController().signal, tenant };
        shared = make(project, question, options).finally(() => making.delete(name));
        shared.catch(() => undefined);
        making.set(name, shared);
      }
      return await orGone(shared, signal);
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
