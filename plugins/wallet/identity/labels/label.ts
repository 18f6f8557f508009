import { decode32 } from '../../../../src/lib/base58.ts';
import { isPlainObject } from '../../../../src/lib/plain-object.ts';

/** What an operator, or the program itself, says of an address. */
export interface AddressLabel {
  /** Base58. */
  readonly address: string;
  readonly type: string;
  readonly name: string;
  readonly category: string;
  readonly tags: readonly string[];
  readonly website?: string;
  /** Where it comes from; never part of an answer. */
  readonly source: string;
}

const MAX_TEXT = 512;
const MAX_TAGS = 64;

/** A line of a label file. Null when it is malformed or says nothing of where it comes from. */
export function readLabel(line: string): AddressLabel | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  if (!isPlainObject(value)) return null;
  const { address, type, name, category, tags = [], website, source } = value;
  const texts = [type, name, category, source];
  if (typeof address !== 'string' || decode32(address) === null || !texts.every(isText)) return null;
  if (!Array.isArray(tags) || tags.length > MAX_TAGS || !tags.every(isText)) return null;
  if (website !== undefined && website !== null && !isText(website)) return null;
  return {
    address,
    type: type as string,
    name: name as string,
    category: category as string,
    tags: tags as string[],
    ...(isText(website) ? { website } : {}),
    source: source as string,
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TEXT;
}
