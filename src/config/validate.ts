import { isIP } from 'node:net';
import { Ajv, type ErrorObject } from 'ajv';
import { decode32 } from '../lib/base58.ts';
import { isPlainObject } from '../lib/json.ts';
import { maskKeys } from '../lib/mask-keys.ts';
import { isPlainSchema, matches } from '../lib/plain-schema.ts';
import { parseCidr } from '../runtime/network-address.ts';
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
  if (isPlainSchema(schema) && matches(schema, value, HOLDS)) return [];
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

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/i;

interface TextFormat {
  /** For messages: `expected <words>, got "…"`. */
  readonly words: string;
  holds(text: string): boolean;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The formats that a text field may require with `format`. Only the form is checked; nothing is resolved or opened. Relative paths of
 * `path` and `file` count from the folder of the configuration file; `check-config` and a start also look whether a `file` can be read.
 */
export const TEXT_FORMATS: ReadonlyMap<string, TextFormat> = new Map([
  ['path', { words: 'a path', holds: (text) => text !== '' }],
  ['file', { words: 'the path of a file', holds: (text) => text !== '' }],
  ['host', { words: 'an IP address or a host name', holds: (text) => isIP(text) !== 0 || HOST_NAME.test(text) }],
  ['address', { words: 'an address (base58 of 32 bytes)', holds: (text) => decode32(text) !== null }],
  ['uuid', { words: 'an id like 123e4567-e89b-12d3-a456-426614174000', holds: (text) => UUID.test(text) }],
  ['cidr', { words: 'a network like 10.0.0.0/8 or fd00::/8', holds: (text) => parseCidr(text) !== null }],
  ['http-url', { words: 'an http or https address', holds: (text) => isUrl(text, /^https?:$/) }],
  ['ws-url', { words: 'a ws or wss address', holds: (text) => isUrl(text, /^wss?:$/) }],
  [
    'store-url',
    {
      words: 'an address that begins with sqlite:, postgres:// or postgresql://',
      holds: (text) => text.startsWith('sqlite:') || isUrl(text, /^postgres(ql)?:$/, true),
    },
  ],
]);

const HOLDS = new Map([...TEXT_FORMATS].map(([name, { holds }]) => [name, holds]));

function isUrl(text: string, scheme: RegExp, isHostOptional = false): boolean {
  // Not only `new URL`: its error quotes the text.
  if (!URL.canParse(text)) return false;
  const { protocol, host } = new URL(text);
  return scheme.test(protocol) && (isHostOptional ? /^[a-z]+:\/\//i.test(text) : host !== '');
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

const MOST_SHOWN = 80;

/** Of a secret text only the scheme of an address and the length are shown: it is not what it should be, so any part may be secret. */
function describeValue(value: unknown, isHidden: boolean): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isPlainObject(value)) return 'a section';
  if (typeof value === 'string') {
    if (isHidden) return `"${/^[a-z][a-z0-9+.-]*:\/\//i.exec(value)?.[0] ?? ''}***" (${value.length} characters)`;
    return JSON.stringify(maskKeys(value.length > MOST_SHOWN ? `${value.slice(0, MOST_SHOWN)}…` : value));
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

/** Edits (insert, delete, replace, swap of neighbours) that turn one word into the other. */
export function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const replace = last[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      let best = Math.min(last[j]! + 1, row[j - 1]! + 1, replace);
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]) {
        best = Math.min(best, beforeLast[j - 2]! + 1);
      }
      row.push(best);
    }
    beforeLast = last;
    last = row;
  }
  return last[to.length]!;
}

/** The most similar candidate, or null if none is close enough (a third of the word, at least two edits). */
export function nearest(word: string, candidates: readonly string[]): string | null {
  const limit = Math.max(2, Math.floor(word.length / 3));
  let best: string | null = null;
  let bestDistance = limit + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}
