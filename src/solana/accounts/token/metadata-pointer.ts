import { createByteReader } from '../../byte-reader.ts';
import { attempt } from '../decoded.ts';
import { nullableKey } from '../fields.ts';
import { type Extension, findExtension } from './extensions.ts';

/** Where a Token-2022 mint says that its metadata is. Keys are base58. */
export interface MetadataPointer {
  readonly authority: string | null;
  readonly metadataAddress: string | null;
}

/** The pointer of a mint; null when it has none. */
export function readMetadataPointer(extensions: readonly Extension[]): MetadataPointer | null {
  const value = findExtension(extensions, 'MetadataPointer');
  if (value === null) return null;
  return attempt(() => {
    const reader = createByteReader(value);
    return { authority: nullableKey(reader), metadataAddress: nullableKey(reader) };
  }).value;
}
