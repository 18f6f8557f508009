import { parseCidr } from '../../lib/cidr.ts';

interface TextFormat {
  /** In words, for messages: `expected <words>, got text`. */
  readonly words: string;
  holds(text: string): boolean;
}

/**
 * What a text in the configuration may have to be, beside text: a field asks for one with `format`. Addresses are looked at for
 * their form only; nothing is resolved or opened.
 */
export const TEXT_FORMATS: ReadonlyMap<string, TextFormat> = new Map([
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

function isUrl(text: string, scheme: RegExp, isHostOptional = false): boolean {
  // Not `new URL` alone: its error quotes the text.
  if (!URL.canParse(text)) return false;
  const { protocol, host } = new URL(text);
  return scheme.test(protocol) && (isHostOptional ? /^[a-z]+:\/\//i.test(text) : host !== '');
}
