import { Ajv, type ErrorObject } from 'ajv';
import { nearest } from '../../lib/edit-distance.ts';
import { isPlainObject } from '../../lib/plain-object.ts';
import { describeSchema, describeValue } from './describe.ts';
import type { ConfigPath } from './file.ts';
import { TEXT_FORMATS } from './formats.ts';
import type { SchemaNode } from './node.ts';

/** The whole message when no key is near enough to be suggested. */
export const UNKNOWN_KEY = 'unknown key';

export interface ConfigProblem {
  readonly path: ConfigPath;
  /** Names the class of the value, never the value. */
  readonly message: string;
}

/**
 * A check that runs once: optimising it, and checking its schema by a schema, took half of a start. An instance of its own each time,
 * because one keeps all that it has ever compiled.
 */
const ONCE = { code: { optimize: false }, meta: false, validateSchema: false } as const;

/** Everything that is wrong with a value, in the order of its paths. */
export function validateConfig(schema: SchemaNode, value: unknown): ConfigProblem[] {
  // Formats that are not ours are documentation: without a logger nothing is said about them.
  const ajv = new Ajv({ allErrors: true, verbose: true, strict: false, logger: false, ...ONCE });
  for (const [name, { holds }] of TEXT_FORMATS) ajv.addFormat(name, holds);
  const check = ajv.compile(schema as object);
  if (check(value)) return [];
  const problems = relevant(check.errors ?? []).map(toProblem);
  const seen = new Set<string>();
  return problems.filter(({ path, message }) => {
    const key = `${path.join('/')} ${message}`;
    return seen.has(key) ? false : seen.add(key);
  });
}

/**
 * A union fails with the errors of all its branches. When one branch is of the kind that was written, only its errors help; otherwise
 * the union's own error says everything.
 */
function relevant(errors: readonly ErrorObject[]): ErrorObject[] {
  let kept = [...errors];
  for (const union of errors.filter((error) => error.keyword === 'anyOf')) {
    const branches = (union.parentSchema as SchemaNode | undefined)?.anyOf ?? [];
    const fitting = branches.findIndex((branch) => branch.type === 'object' && isPlainObject(union.data));
    const inside = (error: ErrorObject) => error.schemaPath.startsWith(`${union.schemaPath}/`);
    const helps = (error: ErrorObject) =>
      fitting >= 0 && error.schemaPath.startsWith(`${union.schemaPath}/${fitting}/`);
    kept = kept.filter((error) => {
      if (error.instancePath !== union.instancePath && !error.instancePath.startsWith(`${union.instancePath}/`))
        return true;
      if (error === union) return fitting < 0;
      return !inside(error) || helps(error);
    });
  }
  return kept;
}

function toProblem(error: ErrorObject): ConfigProblem {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  const schema = (error.parentSchema ?? {}) as SchemaNode;
  if (error.keyword === 'additionalProperties') {
    const key = String(error.params['additionalProperty']);
    const meant = nearest(key, Object.keys(schema.properties ?? {}));
    return { path: [...path, key], message: UNKNOWN_KEY + (meant === null ? '' : `, did you mean "${meant}"?`) };
  }
  if (error.keyword === 'required') {
    return { path: [...path, String(error.params['missingProperty'])], message: 'missing' };
  }
  return { path, message: `expected ${describeSchema(schema)}, got ${valueText(schema, error.data)}` };
}

/** A number where a number belongs may be shown: it cannot be a secret. */
function valueText(schema: SchemaNode, value: unknown): string {
  const numeric = schema.type === 'integer' || schema.type === 'number';
  if (typeof value === 'number' && numeric) return String(value);
  const choices = (schema.anyOf ?? []).flatMap((branch) => (typeof branch.const === 'string' ? [branch.const] : []));
  const meant = typeof value === 'string' ? nearest(value, choices) : null;
  return describeValue(value) + (meant === null ? '' : `, did you mean "${meant}"?`);
}
