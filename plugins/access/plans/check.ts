import type { TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { Ajv } from 'ajv';

/** Everything that is wrong with a value, each with its place; empty when it fits. */
export function problemsOf(schema: TSchema, value: unknown): readonly string[] {
  // Compiling the schema takes longer than all else that the plans take of a start; it is needed to say what is wrong.
  if (Value.Check(schema, value)) return [];
  const ajv = new Ajv({ strict: false, allErrors: true, code: { optimize: false } });
  const check = ajv.compile(schema);
  if (check(value)) return [];
  const lines = (check.errors ?? [])
    // What each branch of a union says is one message too many.
    .filter(({ keyword }) => keyword !== 'anyOf')
    .map(({ instancePath, message, params }) => {
      const unknown: unknown = params['additionalProperty'];
      const place = instancePath === '' ? 'the file' : instancePath.slice(1).replaceAll('/', '.');
      return typeof unknown === 'string' ? `${place}: unknown key "${unknown}"` : `${place}: ${message}`;
    });
  return [...new Set(lines)];
}
