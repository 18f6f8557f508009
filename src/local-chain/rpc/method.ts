import { invalid, type Read } from '../encode/params.ts';
import { invalidParams, RPC, rpcError } from '../encode/rpc-error.ts';
import type { LocalNode, Method } from './node.ts';

export type Values<R extends readonly Read<unknown>[]> = {
  -readonly [K in keyof R]: R[K] extends Read<infer T> ? T : never;
};
export type Maybe<R extends readonly Read<unknown>[]> = {
  -readonly [K in keyof R]?: R[K] extends Read<infer T> ? T | undefined : never;
};

/** A method with `required` parameters, then `optional` ones: counted and refused like in Agave. */
export function method<const R extends readonly Read<unknown>[], const O extends readonly Read<unknown>[]>(
  required: R,
  optional: O,
  run: (node: LocalNode, ...values: [...Values<R>, ...Maybe<O>]) => unknown,
): Method {
  return (node, params) => run(node, ...(readParams(required, optional, params) as [...Values<R>, ...Maybe<O>]));
}

/** Reads the parameters of one call: `undefined` = not sent. Throws -32602. */
export function readParams(
  required: readonly Read<unknown>[],
  optional: readonly Read<unknown>[],
  params: unknown,
): unknown[] {
  if (required.length + optional.length === 0) return noParams(params);
  if (optional.length === 0) return tuple(required, params);
  if (params !== undefined && !Array.isArray(params)) throw invalidParams('`params` should be an array');
  const values: readonly unknown[] = params ?? [];
  const least = required.length;
  const most = least + optional.length;
  if (values.length < least) throw invalidParams(`\`params\` should have at least ${least} argument(s)`);
  if (values.length > most) {
    throw unexpectedParams(`Expected from ${least} to ${most} parameters.`, `"Got: ${values.length}"`);
  }
  return values.map((value, index) => {
    const read = required[index];
    if (read !== undefined) return read(value);
    return value === null ? undefined : optional[index - least]!(value);
  });
}

function noParams(params: unknown): [] {
  if (params === undefined || (Array.isArray(params) && params.length === 0)) return [];
  const debug = Array.isArray(params) ? `Array([${params.map(debugText).join(', ')}])` : `Map(${debugMap(params)})`;
  throw unexpectedParams('No parameters were expected', debug);
}

function tuple(reads: readonly Read<unknown>[], params: unknown): unknown[] {
  const expected = `a tuple of size ${reads.length}`;
  if (!Array.isArray(params)) {
    throw invalid(`invalid type: ${params === undefined ? 'null' : 'map'}, expected ${expected}`);
  }
  const values = reads.map((read, index) => {
    if (index >= params.length) throw invalid(`invalid length ${params.length}, expected ${expected}`);
    return read(params[index]);
  });
  if (params.length > reads.length) {
    throw invalid(`invalid length ${params.length}, expected fewer elements in array`);
  }
  return values;
}

function unexpectedParams(message: string, data: string): Error {
  return rpcError(RPC.invalidParams, `Invalid parameters: ${message}`, data);
}

/** A value as Agave prints it in the data of such an error. */
function debugText(value: unknown): string {
  if (value === null) return 'Null';
  if (typeof value === 'string') return `String(${JSON.stringify(value)})`;
  if (typeof value === 'boolean') return `Bool(${value})`;
  if (Array.isArray(value)) return `Array [${value.map(debugText).join(', ')}]`;
  return typeof value === 'object' ? `Object ${debugMap(value)}` : `Number(${String(value)})`;
}

function debugMap(value: unknown): string {
  const members = Object.entries(value as object).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}: ${debugText(member)}`).join(', ')}}`;
}
