import { stringify } from 'yaml';
import { isPlainObject } from '../lib/json.ts';
import type { LoadedConfig } from './load.ts';
import { isSecret, mapTexts, maskText, type SchemaNode } from './node.ts';

/** The effective configuration as YAML or JSON, with secrets masked. */
export function dumpConfig(config: LoadedConfig, format: 'yaml' | 'json'): string {
  const masked = maskSecrets(config.schema, config.values);
  return format === 'json' ? `${JSON.stringify(masked, null, 2)}\n` : stringify(masked, { lineWidth: 0 });
}

/** A copy that hides the values of secret keys. User info is removed from all other addresses. */
export function maskSecrets(schema: SchemaNode, value: unknown): unknown {
  return mapTexts(schema, value, (text, node) => (isSecret(node) ? maskText(text) : withoutUserInfo(text)));
}

/** The same for sections, as a view: what is read later shows what a reload has changed since. */
export function maskedView(schema: SchemaNode, section: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const view = {};
  for (const [key, node] of Object.entries(schema.properties ?? {})) {
    const inner = node.type === 'object' && node.properties !== undefined ? section[key] : undefined;
    const fixed = isPlainObject(inner) ? maskedView(node, inner) : null;
    Object.defineProperty(view, key, { enumerable: true, get: () => fixed ?? maskSecrets(node, section[key]) });
  }
  return view;
}

function withoutUserInfo(text: string): string {
  return text.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@\s]*@/i, '$1***@');
}
