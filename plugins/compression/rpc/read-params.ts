import { type TSchema, Type } from '@sinclair/typebox';
import { isPlainObject } from '../../../src/lib/plain-object.ts';
import { invalid } from './errors.ts';
import { type Fields, readFields, schemaOf, type Values } from './field.ts';
import { integer, optional } from './fields.ts';

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
