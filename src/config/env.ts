import { messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import { nearest } from '../lib/nearest.ts';
import { isPlainSchema } from '../lib/plain-schema.ts';
import { acceptsPlain } from './formats.ts';
import type { ConfigPath, SchemaNode } from './node.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Override {
  readonly path: ConfigPath;
  readonly value: unknown;
  /** Name of the variable or flag, for messages. */
  readonly origin: string;
}

export interface EnvironmentReading {
  readonly overrides: readonly Override[];
  readonly problems: readonly string[];
  /** Sentences about variables that are ignored. */
  readonly warnings?: readonly string[];
}

const PREFIX = 'PARHELION_';
const FILE_SUFFIX = '_FILE';
/** Variables of the tests and of the first start, which are not configuration keys. */
const RESERVED = new Set(['PARHELION_BOOTSTRAP_KEY', 'PARHELION_CONFIG', 'PARHELION_ROLE', 'PARHELION_STARTED_AS']);

/**
 * `PARHELION_HTTP__PORT=9000` sets `http.port`: `__` separates levels, case and single underscores are ignored. With the suffix `_FILE`
 * the value is read from the named file. Values are YAML scalars or flow collections unless the key is plain text; a list may also be
 * written with blanks or commas between its items.
 * `SOLANA_RPC_URL` (one address, or several separated by blanks or commas) sets `upstream.urls`.
 */
export async function readEnvironment(
  schema: SchemaNode,
  env: Environment,
  readFile: (path: string) => string,
): Promise<EnvironmentReading> {
  const overrides: Override[] = [];
  const problems: string[] = [];
  const urls = (env['SOLANA_RPC_URL'] ?? '').split(/[\s,]+/).filter((url) => url !== '');
  if (urls.length > 0) overrides.push({ path: ['upstream', 'urls'], value: urls, origin: 'SOLANA_RPC_URL' });

  for (const [name, raw] of Object.entries(env).sort()) {
    if (!name.startsWith(PREFIX) || raw === undefined || RESERVED.has(name)) continue;
    const found = locate(schema, name.slice(PREFIX.length));
    if ('problem' in found) {
      // Without a section it may belong to another tool with the same prefix.
      if (name.includes('__')) problems.push(`${name}: ${found.problem}`);
      continue;
    }
    try {
      const text = found.fromFile ? readFile(raw).replace(/\r?\n$/, '') : raw;
      overrides.push({ path: found.path, value: await toValue(found.schema, text), origin: name });
    } catch (error) {
      problems.push(`${name}: cannot read the file (${messageOf(error)})`);
    }
  }
  return { overrides, problems: [...problems, ...givenTwice(overrides)] };
}

type Located =
  | { readonly path: string[]; readonly schema: SchemaNode; readonly fromFile: boolean }
  | { readonly problem: string };

function locate(schema: SchemaNode, name: string): Located {
  const direct = descend(schema, name.split('__'));
  if (!('problem' in direct)) return { ...direct, fromFile: false };
  if (!name.endsWith(FILE_SUFFIX)) return direct;
  const named = descend(schema, name.slice(0, -FILE_SUFFIX.length).split('__'));
  return 'problem' in named ? direct : { ...named, fromFile: true };
}

function descend(
  root: SchemaNode,
  parts: readonly string[],
): { path: string[]; schema: SchemaNode } | { problem: string } {
  const path: string[] = [];
  let schema = root;
  for (const part of parts) {
    const keys = Object.keys(schema.properties ?? {});
    const key = keys.find((candidate) => plain(candidate) === plain(part));
    if (key === undefined) {
      const meant = nearest(plain(part), keys.map(plain));
      const hint = keys.find((candidate) => plain(candidate) === meant);
      return { problem: 'unknown key' + (hint === undefined ? '' : `, did you mean ${[...path, hint].join('.')}?`) };
    }
    path.push(key);
    schema = schema.properties![key]!;
  }
  if (schema.properties !== undefined) return { problem: 'names a section, not a key' };
  return { path, schema };
}

const plain = (name: string) => name.replaceAll(/[-_]/g, '').toLowerCase();

/** The first interpretation that the key accepts: YAML before plain text, unless the key is plain text. */
async function toValue(schema: SchemaNode, text: string): Promise<unknown> {
  if (schema.type === 'string') return text;
  const { parse } = await import('../lib/yaml.ts');
  const accepts = await accepterOf(schema);
  let parsed: unknown = text;
  try {
    parsed = parse(text, { maxAliasCount: 0 });
  } catch {
    return text;
  }
  if (accepts(parsed)) return parsed;
  if (accepts(text)) return text;
  const items = text.split(/[\s,]+/).filter((item) => item !== '');
  return takesList(schema) && !Array.isArray(parsed) && accepts(items) ? items : parsed;
}

async function accepterOf(schema: SchemaNode): Promise<(value: unknown) => boolean> {
  if (isPlainSchema(schema)) return (value) => acceptsPlain(schema, value);
  const { validateConfig } = await import('./validate.ts');
  return (value) => validateConfig(schema, value).length === 0;
}

const takesList = (schema: SchemaNode): boolean => schema.type === 'array' || (schema.anyOf ?? []).some(takesList);

function givenTwice(overrides: readonly Override[]): string[] {
  const byPath = new Map<string, Override>();
  const problems: string[] = [];
  for (const override of overrides) {
    const path = override.path.join('.');
    const other = byPath.get(path);
    if (other === undefined) byPath.set(path, override);
    else problems.push(`${other.origin} and ${override.origin} both set ${path}`);
  }
  return problems;
}

/** A copy of `values` with the overrides applied; later ones win. */
export function applyOverrides(
  values: Readonly<Record<string, unknown>>,
  overrides: readonly Override[],
): Record<string, unknown> {
  const result = structuredClone(values) as Record<string, unknown>;
  for (const { path, value } of overrides) {
    let place = result;
    for (const part of path.slice(0, -1)) {
      const next = place[part];
      const section: Record<string, unknown> = isPlainObject(next) ? next : {};
      place[part] = section;
      place = section;
    }
    place[String(path.at(-1))] = value;
  }
  return result;
}
