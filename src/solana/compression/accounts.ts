import { type ByteReader, LayoutError } from '../byte-reader.ts';

/** What a program keeps in a compressed account. */
export interface AccountData {
  /** 8 bytes. */
  readonly discriminator: Uint8Array;
  readonly bytes: Uint8Array;
  /** 32 bytes. */
  readonly hash: Uint8Array;
}

export interface CompressedAccount {
  readonly owner: Uint8Array;
  readonly lamports: bigint;
  readonly address: Uint8Array | null;
  readonly data: AccountData | null;
}

/** An account as instructions and events carry it: its tree, or its output queue, is an index into a list of keys. */
export interface PackedOutput {
  readonly account: CompressedAccount;
  readonly treeIndex: number;
}

/** Least bytes of a list item. */
export const OUTPUT_BYTES = 43;

export function readAccount(reader: ByteReader): CompressedAccount {
  return {
    owner: reader.key(),
    lamports: reader.u64(),
    address: reader.option(reader.key),
    data: reader.option(() => ({ discriminator: reader.bytes(8), bytes: reader.blob(), hash: reader.key() })),
  };
}

export function readOutput(reader: ByteReader): PackedOutput {
  return { account: readAccount(reader), treeIndex: reader.u8() };
}

/** The key that an index means. Errors: LayoutError. */
export function keyAt(keys: readonly Uint8Array[], index: number): Uint8Array {
  const key = keys[index];
  if (key === undefined) throw new LayoutError(`there is no account ${index} of ${keys.length}`);
  return key;
}
