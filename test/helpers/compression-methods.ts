/** Methods of the compression plugin without a daemon around them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createCompleteness } from '../../plugins/compression/rpc/completeness.ts';
import { createSlotWatch, type MethodFactory } from '../../plugins/compression/rpc/method.ts';
import { compressedAccountMethods } from '../../plugins/compression/rpc/methods.ts';
import { knownTrees } from '../../plugins/compression/trees/tree-book.ts';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { stringify } from '../../src/lib/json.ts';
import { type ChainReader, JsonText, type RpcCall, RpcError } from '../../src/plugin/plugin.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Store } from '../../src/ports/store.ts';
import { createMemoryLog } from './memory-log.ts';

const PROGRAM = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';

export interface MethodBed {
  /** The result as a client parses it. Rejects with the RpcError of the method. */
  call<T = unknown>(name: string, params?: unknown): Promise<T>;
  /** The text of the result. */
  text(name: string, params?: unknown): Promise<string>;
  /** Headers of the answer to a single call. */
  headers(name: string, params?: unknown): Promise<Readonly<Record<string, string>>>;
  /** `data.details`, or the message where the error carries its detail there. */
  refusal(name: string, params?: unknown): Promise<string>;
  readonly names: readonly string[];
}

export interface MethodBedOptions {
  readonly chain?: ChainReader;
  readonly clock?: Clock;
  readonly programId?: string;
  /** Methods of other parts. */
  readonly more?: readonly MethodFactory[];
}

/** Without a listening daemon nothing else keeps the process alive while a method waits. */
const wakefulClock = (): Clock => ({
  ...createSystemClock(),
  sleep: async (ms, signal) => await sleep(ms, undefined, signal === undefined ? {} : { signal }),
});

export function createMethodBed(store: Store, options: MethodBedOptions = {}): MethodBed {
  const { clock = wakefulClock(), chain = null, programId = PROGRAM } = options;
  const log = createMemoryLog();
  const slots = createSlotWatch({ store, clock, chain, log });
  const completeness = createCompleteness({ store, chain, clock });
  const methods = new Map(
    [...compressedAccountMethods({ chain, programId, trees: knownTrees([]) }), ...(options.more ?? [])]
      .map((make) => make({ store, slots, clock, completeness }))
      .flatMap((method) => [method.name, ...(method.aliases ?? [])].map((name) => [name, method] as const)),
  );
  const answer = async (name: string, params: unknown = {}): Promise<unknown> => {
    const method = methods.get(name);
    if (method === undefined) throw new Error(`there is no ${name}`);
    return await method.handler({ params, signal: new AbortController().signal } as RpcCall);
  };
  const text = async (name: string, params?: unknown) => {
    const result = await answer(name, params);
    return result instanceof JsonText ? result.text : stringify(result);
  };
  return {
    names: [...methods.keys()],
    text,
    async headers(name, params) {
      const result = await answer(name, params);
      return result instanceof JsonText ? { ...result.headers } : {};
    },
    call: async <T>(name: string, params?: unknown) => JSON.parse(await text(name, params)) as T,
    async refusal(name, params) {
      try {
        return `no refusal: ${await text(name, params)}`;
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
        return `${error.rpcCode} ${error.details ?? error.message}`;
      }
    },
  };
}
