import { stringify } from 'yaml';
import { isPlainObject } from '../lib/json.ts';
import type { LoadedConfig } from './load.ts';
import type { SchemaNode } from './node.ts';

/** The effective configuration as YAML or JSON, with secrets masked. */
export function dumpConfig(config: LoadedConfig, format: 'yaml' | 'json'): string {
  const masked = maskSecrets(config.schema, config.values);
  return format === 'json' ? `${JSON.stringify(masked, null, 2)}\n` : stringify(masked, { lineWidth: 0 });
}

const HIDDEN = '***';

/**
 * A copy that hides the values of keys marked `secret`, and all upstream addresses, because providers put keys into paths and queries.
 * User info is removed from all other addresses.
 */
export function maskSecrets(schema: SchemaNode, value: unknown): unknown {
  if (typeof value === 'string') return isSecret(schema) ? maskText(value) : withoutUserInfo(value);
  if (Array.isArray(value)) return value.map((item) => maskSecrets(branchFor(schema, value).items ?? {}, item));
  if (!isPlainObject(value)) return value;
  const branch = branchFor(schema, value);
  const rest = Object.values(branch.patternProperties ?? {})[0] ?? {};
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, maskSecrets(branch.properties?.[key] ?? rest, item)]),
  );
}

/** Scheme and host of an address, with `***` for parts that may contain a key; `***` for text that is not an address. */
export function maskText(text: string): string {
  if (text === '' || text.startsWith('sqlite:')) return text;
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return HIDDEN;
  }
  if (url.host === '') return HIDDEN;
  const bare = url.pathname === '/' || url.pathname === '';
  const open = bare && url.search === '' && url.hash === '' && url.username === '' && url.password === '';
  return `${url.protocol}//${url.host}` + (open ? '' : `/${HIDDEN}`);
}

function withoutUserInfo(text: string): string {
  return text.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@\s]*@/i, `$1${HIDDEN}@`);
}

function isSecret(schema: SchemaNode): boolean {
  return schema.secret === true || schema.format === 'http-url' || (schema.anyOf ?? []).some(isSecret);
}

/** The branch of a union that describes lists or sections. */
function branchFor(schema: SchemaNode, value: object): SchemaNode {
  const wanted = Array.isArray(value) ? 'array' : 'object';
  return schema.anyOf?.find((branch) => branch.type === wanted) ?? schema;
}
