import { type ByteReader, LayoutError } from '../../byte-reader.ts';
import { keyText } from '../fields.ts';

/** What was added to metadata accounts over the years: missing in old ones, damaged in some. */
export interface MetadataTail {
  readonly tokenStandard: TokenStandard | null;
  readonly collection: { readonly key: string; readonly verified: boolean } | null;
  readonly uses: { readonly method: UseMethod; readonly remaining: bigint; readonly total: bigint } | null;
  /** Size of a sized collection; 0 where the program no longer counts. */
  readonly collectionDetails: { readonly version: 1 | 2; readonly size: bigint } | null;
  readonly programmableConfig: { readonly ruleSet: string | null } | null;
}

const TOKEN_STANDARDS = [
  'NonFungible',
  'FungibleAsset',
  'Fungible',
  'NonFungibleEdition',
  'ProgrammableNonFungible',
  'ProgrammableNonFungibleEdition',
] as const;
const USE_METHODS = ['Burn', 'Multiple', 'Single'] as const;

export type TokenStandard = (typeof TOKEN_STANDARDS)[number];
export type UseMethod = (typeof USE_METHODS)[number];

const NO_TAIL: MetadataTail = {
  tokenStandard: null,
  collection: null,
  uses: null,
  collectionDetails: null,
  programmableConfig: null,
};
const UNUSED_BYTES = 8;

/**
 * Reads the tail as the program does: the first three parts stand or fall together, and behind the first part that cannot be read
 * nothing counts. Never throws.
 */
export function readMetadataTail(reader: ByteReader): MetadataTail {
  let tail = NO_TAIL;
  try {
    const tokenStandard = reader.option(() => oneOf(TOKEN_STANDARDS, reader));
    const collection = reader.option(() => ({ verified: reader.bool(), key: keyText(reader) }));
    const uses = reader.option(() => ({
      method: oneOf(USE_METHODS, reader),
      remaining: reader.u64(),
      total: reader.u64(),
    }));
    tail = { ...tail, tokenStandard, collection, uses };
    tail = { ...tail, collectionDetails: reader.option(() => collectionDetails(reader)) };
    return { ...tail, programmableConfig: reader.option(() => programmableConfig(reader)) };
  } catch (error) {
    if (error instanceof LayoutError) return tail;
    throw error;
  }
}

function collectionDetails(reader: ByteReader): MetadataTail['collectionDetails'] {
  if (oneOf(['sized', 'unsized'], reader) === 'sized') return { version: 1, size: reader.u64() };
  reader.bytes(UNUSED_BYTES);
  return { version: 2, size: 0n };
}

function programmableConfig(reader: ByteReader): MetadataTail['programmableConfig'] {
  oneOf(['ruleSet'], reader);
  return { ruleSet: reader.option(() => keyText(reader)) };
}

function oneOf<const T>(names: readonly T[], reader: ByteReader): T {
  const number = reader.u8();
  const name = names[number];
  if (name === undefined) throw new LayoutError(`${number} is none of ${names.length} variants`, reader.offset - 1);
  return name;
}
