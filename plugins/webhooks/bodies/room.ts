import { MAX_MESSAGE_CHARACTERS, messageCharacters } from './discord.ts';
import type { BodyForm } from './form.ts';

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
