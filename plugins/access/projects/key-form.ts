import { hash } from 'node:crypto';

/** The hosted form, which some tools check, is a UUID; any of these strings is accepted. */
const FORM = /^[A-Za-z0-9_.-]{1,256}$/;
const PREFIX_LENGTH = 8;

export function isKeyForm(text: string): boolean {
  return FORM.test(text);
}

export function hashKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

/** What a key is called in memory: its hash as text, which a look-up needs and a Buffer is not. */
export function keyName(key: string): string {
  return hash('sha256', key, 'base64');
}

/** Enough to recognise a key in a list, and never more than a quarter of it. */
export function keyPrefix(key: string): string {
  return key.slice(0, Math.min(PREFIX_LENGTH, Math.floor(key.length / 4)));
}
