import { Ajv, type ErrorObject } from 'ajv';
import { isPlainObject } from '../lib/json.ts';
import { maskKeys } from '../lib/mask-keys.ts';
import { nearest } from '../lib/nearest.ts';
import { isPlainSchema } from '../lib/plain-schema.ts';
import { acceptsPlain, TEXT_FORMATS } from './formats.ts';
import { type ConfigPath, isSecret, type SchemaNode } from './node.ts';

/** The whole message if no similar key exists. */
export const UNKNOWN_KEY = 'unknown key';

export interface ConfigProblem {
  readonly path: ConfigPath;
  /** Names what is expected and what is written; the value of a secret key is masked. */
  readonly message: string;
}

/** A check that runs once needs no optimized code. A new instance each time, because an instance keeps all schemas that it has compiled. */
const ONCE = { code: { optimize: false }, meta: false, validateSchema: false } as const;

/** All problems of a value, ordered by path. */
export function validateConfig(schema: SchemaNode, value: unknown): ConfigProblem[] {
  if (isPlainSchema(schema) && acceptsPlain(schema, value)) return [];
  // Other formats are documentation; without a logger Ajv does not warn about them.
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
 * A union fails with the errors of all branches. If one branch has the type of the value, only its errors are useful; otherwise the error
 * of the union suffices.
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

/** The value as it is written; masked if the key, or one in it, is secret. */
function valueText(schema: SchemaNode, value: unknown): string {
  const choices = (schema.anyOf ?? []).flatMap((branch) => (typeof branch.const === 'string' ? [branch.const] : []));
  const meant = typeof value === 'string' ? nearest(value, choices) : null;
  return describeValue(value, holdsSecret(schema)) + (meant === null ? '' : `, did you mean "${meant}"?`);
}

/** Describes a schema: `an integer between 0 and 65535`. */
export function describeSchema(schema: SchemaNode): string {
  if (schema.anyOf !== undefined) return orList(schema.anyOf.map(describeSchema));
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return orList(schema.enum.map((value) => JSON.stringify(value)));
  switch (schema.type) {
    case 'integer':
      return 'an integer' + range(schema);
    case 'number':
      return 'a number' + range(schema);
    case 'string':
      return formatWords(schema) ?? `text${lengthWords(schema)}${patternWords(schema)}`;
    case 'boolean':
      return 'true or false';
    case 'null':
      return 'null';
    case 'array':
      return `a list${range({ minimum: schema.minItems, maximum: schema.maxItems })}`;
    case 'object':
      return 'a section';
    default:
      return 'another value';
  }
}

const MAX_SHOWN = 80;

/** Describes a wrong value. A secret text is shown only by its length and the scheme of an address: any part of it may be secret. */
function describeValue(value: unknown, isHidden: boolean): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isPlainObject(value)) return 'a section';
  if (typeof value === 'string') {
    if (isHidden) return `"${/^[a-z][a-z0-9+.-]*:\/\//i.exec(value)?.[0] ?? ''}***" (${value.length} characters)`;
    return JSON.stringify(maskKeys(value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value));
  }
  if (typeof value === 'number' && isHidden) return Number.isInteger(value) ? 'an integer' : 'a number';
  return String(value);
}

const holdsSecret = (schema: SchemaNode): boolean =>
  isSecret(schema) ||
  [schema.items, ...(schema.anyOf ?? []), ...Object.values(schema.properties ?? {})].some(
    (inner) => inner !== undefined && holdsSecret(inner),
  );

function lengthWords({ minLength = 0, maxLength }: SchemaNode): string {
  if (maxLength !== undefined) return ` of ${minLength} to ${maxLength} characters`;
  return minLength > 1 ? ` of at least ${minLength} characters` : minLength === 1 ? ' that is not empty' : '';
}

const patternWords = ({ pattern }: SchemaNode) => (pattern === undefined ? '' : ` that matches ${pattern}`);

const formatWords = (schema: SchemaNode) => TEXT_FORMATS.get(schema.format ?? '')?.words;

function range({
  minimum,
  maximum,
}: {
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
}): string {
  if (minimum !== undefined && maximum !== undefined) return ` between ${minimum} and ${maximum}`;
  if (minimum !== undefined) return ` of at least ${minimum}`;
  return maximum === undefined ? '' : ` of at most ${maximum}`;
}

function orList(words: readonly string[]): string {
  if (words.length < 2) return words[0] ?? '';
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}
