import type { WebhookType } from '../model/webhook.ts';
import { MAX_MESSAGE_CHARACTERS, messageCharacters } from './discord.ts';

/** What the elements of a body look like. */
export const BODY_FORMS = ['raw', 'enhanced', 'discord'] as const;
export type BodyForm = (typeof BODY_FORMS)[number];

/** The form of a type, which is the same on all chains. */
export function formOf(type: WebhookType): BodyForm {
  if (type.startsWith('enhanced')) return 'enhanced';
  return type.startsWith('discord') ? 'discord' : 'raw';
}

interface Frame {
  readonly before: Buffer;
  readonly after: Buffer;
}

const ARRAY: Frame = { before: Buffer.from('['), after: Buffer.from(']') };
/** One message of many embeds; nobody is pinged, whatever a description says. */
const MESSAGE: Frame = {
  before: Buffer.from('{"embeds":['),
  after: Buffer.from('],"allowed_mentions":{"parse":[]}}'),
};
const COMMA = Buffer.from(',');

const frameOf = (form: BodyForm): Frame => (form === 'discord' ? MESSAGE : ARRAY);

/** The request body of one element, which is ready JSON text. */
export function wrapElement(form: BodyForm, element: string): Buffer {
  const { before, after } = frameOf(form);
  return Buffer.concat([before, Buffer.from(element), after]);
}

/** The request body of the elements of several ready bodies, in their order. */
export function mergeBodies(form: BodyForm, bodies: readonly Buffer[]): Buffer {
  const { before, after } = frameOf(form);
  const parts: Buffer[] = [before];
  for (const [at, body] of bodies.entries()) {
    if (at > 0) parts.push(COMMA);
    parts.push(body.subarray(before.length, body.length - after.length));
  }
  return Buffer.concat([...parts, after]);
}

const MAX_BYTES = 1_048_576;

/** Tells, one after the other, whether a further body fits into the request that begins with `first`. */
export function createBodyRoom(form: BodyForm, first: Uint8Array): (body: Uint8Array) => boolean {
  const charactersOf = (body: Uint8Array) => (form === 'discord' ? messageCharacters(body) : 0);
  let bytes = first.length;
  let characters = charactersOf(first);
  return (body) => {
    bytes += body.length;
    characters += charactersOf(body);
    return bytes <= MAX_BYTES && characters <= MAX_MESSAGE_CHARACTERS;
  };
}
