import { type TSchema, Type } from '@sinclair/typebox';
import { isPlainObject } from '../../../src/lib/json.ts';
import { type Clock, JsonText, type RpcCall, type RpcMethod, type Store } from '../../../src/plugin/plugin.ts';
import { type Db, readAtOneSlot } from '../store/tables.ts';
import { type Fields, integer, invalid, optional, readFields, schemaOf, unavailable, type Values } from './fields.ts';
import type { SlotWatch } from './slot-watch.ts';

/** What all methods work with. */
export interface MethodParts {
  readonly store: Store;
  readonly slots: SlotWatch;
  readonly clock: Clock;
}

/** A method that waits for what it works with. */
export type MethodFactory = (parts: MethodParts) => RpcMethod;

export interface MethodTexts {
  readonly name: string;
  /** One line for the documents. */
  readonly summary: string;
  /** Default 10. */
  readonly credits?: number;
  /** Rate groups beside `photon`. */
  readonly groups?: readonly string[];
  /** Deadline, when it is not the daemon's. */
  readonly timeoutMs?: number;
}

export interface PlainMethod<F extends Fields> extends MethodTexts, ParamsForm<F> {
  /** Of the whole result. */
  readonly result: TSchema;
  /** Called when `minContextSlot` is reached. Returns the whole result. */
  run(params: Read<F>, call: RpcCall): unknown | Promise<unknown>;
}

/** The store as it was at one slot. */
interface At {
  readonly db: Db;
  readonly slot: number;
}

interface EnvelopedMethod<F extends Fields> extends MethodTexts, ParamsForm<F> {
  /** Of `value`. */
  readonly result: TSchema;
  /** Returns `value`, or its text. All its queries see the store at `at.slot`. */
  run(params: Read<F>, at: At, call: RpcCall): Promise<unknown>;
}

const CREDITS = 10;

/** A method with a result of its own form, or with reads of its own. */
export function plainMethod<F extends Fields>(slots: SlotWatch, method: PlainMethod<F>): RpcMethod {
  const read = createParamsReader(method);
  return {
    name: method.name,
    summary: method.summary,
    tag: 'Compression',
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

/** A method that answers `{context: {slot}, value}` from one snapshot of the store. Errors besides its own: -32002 while nothing is indexed. */
export function compressionMethod<F extends Fields>(method: EnvelopedMethod<F>): MethodFactory {
  return ({ store, slots }) =>
    plainMethod(slots, {
      ...method,
      result: enveloped(method.result),
      run: async (params, call) => {
        const { slot, value } = await readAtOneSlot(store, async (db, slot) => {
          requireIndexed(slot);
          requireSlot(slot, params.minContextSlot);
          return await method.run(params, { db, slot }, call);
        });
        slots.saw(slot);
        if (value instanceof JsonText) return new JsonText(`{"context":{"slot":${slot}},"value":${value.text}}`);
        return { context: { slot }, value };
      },
    });
}

/** An empty index knows nothing, which is another answer than "there is none". Errors: -32002. */
export function requireIndexed(slot: number): void {
  if (slot === 0) throw unavailable('nothing has been indexed yet');
}

/** A roll-back may have taken the slot away again since it was waited for. Errors: -32002. */
export function requireSlot(slot: number, minContextSlot: number | null): void {
  if (minContextSlot !== null && slot < minContextSlot)
    throw unavailable(`slot ${minContextSlot} has not been indexed yet (at ${slot})`);
}

/** The schema of `{context, value}`. */
export function enveloped(value: TSchema): TSchema {
  return Type.Object({ context: Type.Object({ slot: Type.Integer({ description: 'newest indexed slot' }) }), value });
}

/** How a method takes its params. */
export interface ParamsForm<F extends Fields> {
  readonly fields: F;
  /** Unknown members are fine: clients send more than the method knows. */
  readonly tolerant?: boolean;
  /** The one list that may also be given bare, as `params` itself. */
  readonly bare?: keyof F & string;
}

/** Every method takes it. */
const common = { minContextSlot: optional(integer({ description: 'waits up to 2 s until this slot is indexed' })) };

export type Read<F extends Fields> = Values<F> & Values<typeof common>;

/** Reads `params`: an object, an array that holds just one, or a bare list. Errors: -32602. */
export function createParamsReader<F extends Fields>(form: ParamsForm<F>): (params: unknown) => Read<F> {
  const fields = { ...form.fields, ...common };
  const options = { tolerant: form.tolerant ?? false };
  return (params) => {
    const { bare } = form;
    if (!Array.isArray(params)) return readFields(fields, params ?? {}, options) as Read<F>;
    const only: unknown = params.length === 1 ? params[0] : undefined;
    if (bare !== undefined && !(isPlainObject(only) && Object.hasOwn(only, bare)))
      return readFields(fields, { [bare]: params }, options) as Read<F>;
    if (params.length > 1 || (params.length === 1 && !isPlainObject(only)))
      throw invalid('params must be an object, or an array that holds one object');
    return readFields(fields, only ?? {}, options) as Read<F>;
  };
}

/** The schema of `params`, for the documents. */
export function paramsSchema({ fields, tolerant = false, bare }: ParamsForm<Fields>): TSchema {
  const object = schemaOf({ ...fields, ...common }, { tolerant });
  const list = bare === undefined ? undefined : fields[bare]?.schema;
  return list === undefined ? object : Type.Union([list, object]);
}
