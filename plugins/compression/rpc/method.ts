import { type TSchema, Type } from '@sinclair/typebox';
import { isPlainObject, stringify } from '../../../src/lib/json.ts';
import {
  type ChainReader,
  type Clock,
  JsonText,
  type Log,
  messageOf,
  type RpcCall,
  type RpcMethod,
  type Store,
} from '../../../src/plugin/plugin.ts';
import { type CompressionDb, readAtOneSlot, type ValueAtSlot } from '../store/tables.ts';
import type { Completeness } from './completeness.ts';
import {
  type Fields,
  integer,
  invalid,
  optional,
  type ParamValues,
  readFields,
  schemaOf,
  unavailable,
} from './fields.ts';

/** Dependencies of all methods. */
export interface MethodParts {
  readonly store: Store;
  readonly slots: SlotWatch;
  readonly clock: Clock;
  readonly completeness: Completeness;
}

/** Creates a method from its dependencies. */
export type MethodFactory = (parts: MethodParts) => RpcMethod;

export interface MethodTexts extends Pick<RpcMethod, 'aliases' | 'errors'> {
  readonly name: string;
  /** One line for the documents. */
  readonly summary: string;
  /** Default 10. */
  readonly credits?: number;
  /** Rate groups in addition to `photon`. */
  readonly groups?: readonly string[];
  /** Deadline, when it differs from the daemon's. */
  readonly timeoutMs?: number;
}

export interface PlainMethod<F extends Fields> extends MethodTexts, ParamsForm<F> {
  /** Schema of the whole result. */
  readonly result: TSchema;
  /** Called when `minContextSlot` is reached. Returns the whole result. */
  run(params: ParsedParams<F>, call: RpcCall): unknown | Promise<unknown>;
}

/** The store at one slot. */
interface At {
  readonly db: CompressionDb;
  readonly slot: number;
}

interface EnvelopedMethod<F extends Fields> extends MethodTexts, ParamsForm<F> {
  /** Schema of `value`. */
  readonly result: TSchema;
  /** Returns `value`, or its text. All its queries see the store at `at.slot`. */
  run(params: ParsedParams<F>, at: At, call: RpcCall): Promise<unknown>;
}

const CREDITS = 10;

/** A method with a special form of result, or with its own reads. */
export function plainMethod<F extends Fields>(slots: SlotWatch, method: PlainMethod<F>): RpcMethod {
  const read = createParamsReader(method);
  return {
    name: method.name,
    ...(method.aliases === undefined ? {} : { aliases: method.aliases }),
    ...(method.errors === undefined ? {} : { errors: method.errors }),
    summary: method.summary,
    tag: { name: 'Compression', description: 'Compressed accounts and tokens, with proofs' },
    auth: 'key',
    price: { product: 'photon', credits: method.credits ?? CREDITS, groups: ['photon', ...(method.groups ?? [])] },
    ...(method.timeoutMs === undefined ? {} : { timeoutMs: method.timeoutMs }),
    params: paramsSchema(method),
    checksParams: true,
    errorStatus: 200,
    result: method.result,
    handler: (call: RpcCall) => {
      const params = read(call.params);
      const minContextSlot: number | null = params.minContextSlot;
      if (minContextSlot === null) return method.run(params, call);
      return slots.until(minContextSlot, call.signal).then(() => method.run(params, call));
    },
  };
}

interface SeenMethod<F extends Fields> extends MethodTexts, ParamsForm<F> {
  /** Schema of `value`. */
  readonly result: TSchema;
  /** Returns `value`, or its text, with the slot: of one statement, or of one transaction. */
  run(params: ParsedParams<F>, call: RpcCall): Promise<ValueAtSlot>;
  /** Says what an answer may lack because it is not indexed. */
  readonly completeness?: Completeness;
}

/** A method that returns `{context: {slot}, value}`. Additional errors: -32002 while nothing is indexed. */
export function seenMethod<F extends Fields>(slots: SlotWatch, method: SeenMethod<F>): RpcMethod {
  return plainMethod(slots, {
    ...method,
    result: enveloped(method.result),
    run: async (params, call) => {
      const before = await method.completeness?.before();
      const { slot, value } = await method.run(params, call);
      requireIndexed(slot);
      requireSlot(slot, params.minContextSlot);
      slots.saw(slot);
      const headers = { ...before, ...(await method.completeness?.after(slot)) };
      const text = value instanceof JsonText ? value.text : stringify(value);
      return new JsonText(`{"context":{"slot":${slot}},"value":${text}}`, undefined, headers);
    },
  });
}

/** The same, with several queries on one snapshot of the store. */
export function compressionMethod<F extends Fields>(method: EnvelopedMethod<F>): MethodFactory {
  return ({ store, slots, completeness }) =>
    seenMethod(slots, {
      ...method,
      completeness,
      run: (params, call) =>
        readAtOneSlot(store, async (db, slot) => {
          requireIndexed(slot);
          requireSlot(slot, params.minContextSlot);
          return await method.run(params, { db, slot }, call);
        }),
    });
}

/** An empty index is an error, not an empty result. Errors: -32002. */
export function requireIndexed(slot: number): void {
  if (slot === 0) throw unavailable('nothing has been indexed yet');
}

/** A rollback may have removed the slot again. Errors: -32002. */
export function requireSlot(slot: number, minContextSlot: number | null): void {
  if (minContextSlot !== null && slot < minContextSlot)
    throw unavailable(`slot ${minContextSlot} has not been indexed yet (at ${slot})`);
}

/** The schema of `{context, value}`. */
export function enveloped(value: TSchema): TSchema {
  const slot = Type.Integer({ description: 'newest indexed slot', examples: [381_204_511] });
  return Type.Object(
    {
      context: Type.Object({ slot }, { title: 'IndexContext', description: 'state of the index that was read' }),
      value: { ...value, description: value.description ?? 'the answer' },
    },
    { description: 'the answer, and the state of the index that was read' },
  );
}

/** How a method accepts params. */
export interface ParamsForm<F extends Fields> {
  readonly fields: F;
  /** Unknown members are allowed: clients send additional ones. */
  readonly tolerant?: boolean;
  /** The one list that may also be given directly as `params`. */
  readonly bare?: keyof F & string;
  /** A call for the documents, where the required members alone make none. */
  readonly example?: Readonly<Record<string, unknown>>;
}

/** Accepted by every method. */
const common = { minContextSlot: optional(integer({ description: 'waits up to 2 s until this slot is indexed' })) };

export type ParsedParams<F extends Fields> = ParamValues<F> & ParamValues<typeof common>;

/** Reads `params`: an object, an array with exactly one object, or a bare list. Errors: -32602. */
export function createParamsReader<F extends Fields>(form: ParamsForm<F>): (params: unknown) => ParsedParams<F> {
  const fields = { ...form.fields, ...common };
  const options = { tolerant: form.tolerant ?? false };
  return (params) => {
    const { bare } = form;
    if (!Array.isArray(params)) return readFields(fields, params ?? {}, options) as ParsedParams<F>;
    const only: unknown = params.length === 1 ? params[0] : undefined;
    if (bare !== undefined && !(isPlainObject(only) && Object.hasOwn(only, bare)))
      return readFields(fields, { [bare]: params }, options) as ParsedParams<F>;
    if (params.length > 1 || (params.length === 1 && !isPlainObject(only)))
      throw invalid('params must be an object, or an array that holds one object');
    return readFields(fields, only ?? {}, options) as ParsedParams<F>;
  };
}

/** The schema of `params`: the object, an array that holds it, or the bare list. */
export function paramsSchema({ fields, tolerant = false, bare, example }: ParamsForm<Fields>): TSchema {
  const object = schemaOf({ ...fields, ...common }, { tolerant });
  const isRequired = (object.required ?? []).length > 0;
  const list = bare === undefined ? undefined : bareList(fields[bare]?.schema);
  return Type.Union(
    [
      object,
      Type.Array(object, { minItems: isRequired ? 1 : 0, maxItems: 1, description: 'The object in an array' }),
      ...(list === undefined ? [] : [list]),
    ],
    example === undefined ? {} : { examples: [example] },
  );
}

/** The list itself; a field that may be null is one too. */
function bareList(schema: TSchema | undefined): TSchema | undefined {
  const forms = (schema?.['anyOf'] ?? [schema]) as readonly (TSchema | undefined)[];
  return forms.find((form) => form?.['type'] === 'array');
}

/** How long a call waits for the requested slot. */
const WAIT_MS = 2_000;
/** A block may also be indexed without a hint: by another process, or by a processor that is behind the chain. */
const LOOK_MS = 200;

/** The newest indexed slot, in memory. */
export interface SlotWatch {
  /**
   * The newest slot ever seen indexed; 0 before the first. Reads the store only when the last read is too old.
   * Errors: of the store.
   */
  newest(): Promise<number>;
  /** Reports a slot seen by another read of the store. */
  saw(slot: number): void;
  /** Waits until the slot is indexed. Errors: -32002 after 2 s; the signal's reason. */
  until(slot: number, signal: AbortSignal): Promise<void>;
  start(): void;
  stop(): void;
}

export interface SlotWatchOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly chain: ChainReader | null;
  readonly log: Log;
}

export function createSlotWatch({ store, clock, chain, log }: SlotWatchOptions): SlotWatch {
  /** Slot of the store at the last read; a rollback lowers it. */
  let slot = 0;
  let highest = 0;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | null = null;
  let isHinted = false;
  let off = (): void => undefined;
  const waiting = new Set<() => void>();

  function set(seen: number): void {
    slot = seen;
    highest = Math.max(highest, seen);
    for (const wake of [...waiting]) wake();
  }

  /** At most one read is in flight. */
  function look(): Promise<void> {
    looking ??= ask().finally(() => {
      looking = null;
      if (isHinted) lookAhead();
    });
    return looking;
  }

  async function ask(): Promise<void> {
    isHinted = false;
    const db = store.read as CompressionDb;
    const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
    lookedAtMs = clock.monotonic();
    set(head?.slot ?? 0);
  }

  function lookAhead(): void {
    look().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the newest indexed slot is unknown'));
  }

  /** Ends sooner when the slot has changed. */
  async function pause(ms: number, signal: AbortSignal): Promise<void> {
    const early = new AbortController();
    const wake = () => early.abort();
    waiting.add(wake);
    try {
      await clock.sleep(ms, AbortSignal.any([signal, early.signal]));
    } catch (error) {
      if (signal.aborted || !early.signal.aborted) throw error;
    } finally {
      waiting.delete(wake);
    }
  }

  return {
    saw(seen) {
      if (seen > slot) set(seen);
    },
    async newest() {
      if (clock.monotonic() - lookedAtMs >= LOOK_MS) await look();
      return highest;
    },
    async until(wanted, signal) {
      const endMs = clock.monotonic() + WAIT_MS;
      while (slot < wanted) {
        await look();
        const leftMs = endMs - clock.monotonic();
        if (slot >= wanted) return;
        if (leftMs <= 0) throw unavailable(`slot ${wanted} has not been indexed yet (at ${slot})`);
        await pause(Math.min(LOOK_MS, leftMs), signal);
      }
    },
    start() {
      off =
        chain?.onReleased(() => {
          isHinted = true;
          if (looking === null) lookAhead();
        }) ?? off;
    },
    stop: () => off(),
  };
}
