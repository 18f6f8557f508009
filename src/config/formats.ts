import { decode32 } from '../lib/base58.ts';
import { ipFamily } from '../lib/ip-family.ts';
import { matches, type PlainSchema } from '../lib/plain-schema.ts';
import { parseCidr } from '../runtime/network-address.ts';
import type { SchemaNode } from './node.ts';

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
  ['host', { words: 'an IP address or a host name', holds: (text) => HOST_NAME.test(text) || ipFamily(text) !== 0 }],
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

/** Whether a value is valid. The schema must be one that `isPlainSchema` accepts. */
export const acceptsPlain = (schema: SchemaNode, value: unknown): boolean =>
  matches(schema as PlainSchema, value, HOLDS);

function isUrl(text: string, scheme: RegExp, isHostOptional = false): boolean {
  // Not only `new URL`: its error quotes the text.
  if (!URL.canParse(text)) return false;
  const { protocol, host } = new URL(text);
  return scheme.test(protocol) && (isHostOptional ? /^[a-z]+:\/\//i.test(text) : host !== '');
}
