import { isPlainObject } from '../lib/json.ts';
import { isSecret, mapTexts, maskText, type SchemaNode } from './node.ts';

/** A copy that hides the values of secret keys. User info is removed from all other addresses. */
export function maskSecrets(schema: SchemaNode, value: unknown): unknown {
  return mapTexts(schema, value, (text, node) => (isSecret(node) ? maskText(text) : withoutUserInfo(text)));
}

/** A masked view of a section: each read shows the current values, also after a reload. */
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
