import { keccak_256 } from '@noble/hashes/sha3.js';
import { createByteReader, equalBytes, LayoutError } from '../../lib/bytes.ts';
import { createLru } from '../../lib/lru.ts';
import type { Poseidon } from '../merkle/poseidon.ts';
import type { CompressedAccount } from './events.ts';

/** Owners and trees recur, and a keccak costs as much as a Poseidon here. */
const KNOWN_KEYS = 50_000;

/** The parameters of `AccountHasher.hash`. */
interface HashedAccount {
  readonly account: CompressedAccount;
  readonly tree: Uint8Array;
  readonly leafIndex: number;
  readonly version: 1 | 2;
}

export interface AccountHasher {
  /**
   * The leaf of a compressed account. `tree` is the Merkle tree, also while the account is queued; V1 encodes leaf index and
   * lamports little-endian, V2 big-endian. Errors: POSEIDON_INPUT_TOO_LARGE for an address or data hash that is not a field element.
   */
  hash(account: CompressedAccount, tree: Uint8Array, leafIndex: number, version: 1 | 2): Uint8Array;
  /** Hashes many accounts, two at a time; null where a field is not a field element. */
  hashAll(accounts: readonly HashedAccount[]): (Uint8Array | null)[];
  /** Replaces the leaf of a spent account of a V2 tree. */
  nullifier(hash: Uint8Array, leafIndex: number, txHash: Uint8Array): Uint8Array;
}

export function createAccountHasher(poseidon: Poseidon): AccountHasher {
  const known = createLru<string, Uint8Array>({ max: KNOWN_KEYS });
  const field = (key: Uint8Array): Uint8Array => {
    const name = Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1');
    const found = known.get(name);
    if (found !== undefined) return found;
    const made = hashToField(key);
    known.set(name, made);
    return made;
  };
  const digest = (elements: readonly Uint8Array[]): Uint8Array => {
    const result = new Uint8Array(32);
    poseidon.hash(elements.length, Buffer.concat(elements), 0, result, 0, 1);
    return result;
  };
  const elementsOf = ({ account, tree, leafIndex, version }: HashedAccount): Uint8Array[] => {
    const { owner, lamports, address, data } = account;
    const elements = [field(owner), number32(leafIndex, version), field(tree)];
    if (lamports !== 0n) elements.push(number64(lamports, 1, version));
    if (address !== null) elements.push(address);
    if (data !== null) elements.push(tagged(data.discriminator, 2), data.hash);
    return elements;
  };
  const digestOrNull = (elements: readonly Uint8Array[]): Uint8Array | null => {
    try {
      return digest(elements);
    } catch {
      return null;
    }
  };
  /** Lists of the same length. */
  const digestAll = (lists: readonly (readonly Uint8Array[])[]): (Uint8Array | null)[] => {
    const inputs = lists[0]?.length ?? 0;
    const results = new Uint8Array(32 * lists.length);
    try {
      poseidon.hash(inputs, Buffer.concat(lists.flat()), 0, results, 0, lists.length);
    } catch {
      // A single invalid list fails the batch.
      return lists.map(digestOrNull);
    }
    return lists.map((_, i) => results.subarray(32 * i, 32 * (i + 1)));
  };
  return {
    hash: (account, tree, leafIndex, version) => digest(elementsOf({ account, tree, leafIndex, version })),
    hashAll(accounts) {
      const lists = accounts.map(elementsOf);
      const hashes: (Uint8Array | null)[] = lists.map(() => null);
      for (const inputs of new Set(lists.map(({ length }) => length))) {
        const places = [...lists.keys()].filter((place) => lists[place]?.length === inputs);
        const made = digestAll(places.map((place) => lists[place] ?? []));
        for (const [i, place] of places.entries()) hashes[place] = made[i] ?? null;
      }
      return hashes;
    },
    nullifier: (hash, leafIndex, txHash) => digest([hash, number64(BigInt(leafIndex), 0, 2), txHash]),
  };
}

/** A u32 in the last four bytes of a number. */
function number32(value: number, version: 1 | 2): Uint8Array {
  const bytes = Buffer.alloc(32);
  if (version === 1) bytes.writeUInt32LE(value, 28);
  else bytes.writeUInt32BE(value, 28);
  return bytes;
}

/** A u64 in the last eight bytes, preceded by a tag that identifies the optional part. */
function number64(value: bigint, tag: number, version: 1 | 2): Uint8Array {
  const bytes = Buffer.alloc(8);
  if (version === 1) bytes.writeBigUInt64LE(value);
  else bytes.writeBigUInt64BE(value);
  return tagged(bytes, tag);
}

function tagged(eight: Uint8Array, tag: number): Uint8Array {
  const bytes = new Uint8Array(32);
  bytes[23] = tag;
  bytes.set(eight, 24);
  return bytes;
}

const END = Uint8Array.of(0xff);

/** keccak-256 of the parts and a closing byte, as a number below the prime: the first byte is zeroed. */
export function hashToField(...parts: readonly Uint8Array[]): Uint8Array {
  const hash = keccak_256.create();
  for (const part of parts) hash.update(part);
  const digest = hash.update(END).digest();
  digest[0] = 0;
  return digest;
}

/** The data of a compressed token account. */
export interface TokenAccountData {
  readonly mint: Uint8Array;
  readonly owner: Uint8Array;
  readonly amount: bigint;
  readonly delegate: Uint8Array | null;
  readonly state: 'initialized' | 'frozen';
  /** Extensions, unparsed; null without any. */
  readonly tlv: Uint8Array | null;
}

/** Discriminators of token accounts in hex. */
const TOKEN_ACCOUNTS = new Set(['0200000000000000', '0000000000000003', '0000000000000004']);

/** Whether an account of the compressed-token program holds tokens. `tokenProgram` is its 32 bytes. */
export function isCompressedTokenAccount(account: CompressedAccount, tokenProgram: Uint8Array): boolean {
  const { owner, data } = account;
  return (
    data !== null &&
    equalBytes(owner, tokenProgram) &&
    TOKEN_ACCOUNTS.has(Buffer.from(data.discriminator).toString('hex'))
  );
}

/**
 * Reads the data. Bytes after the known fields are kept as `tlv`: new extensions must not stop an indexer. Null when the
 * fixed part is incomplete.
 */
export function readTokenAccount(data: Uint8Array): TokenAccountData | null {
  const reader = createByteReader(data);
  try {
    const fixed = {
      mint: reader.key(),
      owner: reader.key(),
      amount: reader.u64(),
      delegate: reader.option(reader.key),
    };
    const state = reader.u8();
    if (state > 1) return null;
    return { ...fixed, state: state === 1 ? 'frozen' : 'initialized', tlv: restOf(data, reader.offset) };
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

/** Empty or zero: null. A one precedes the rest; anything else belongs to an unknown extension. */
function restOf(data: Uint8Array, from: number): Uint8Array | null {
  const rest = data.subarray(from);
  if (rest.length === 0 || (rest.length === 1 && rest[0] === 0)) return null;
  const tlv = rest[0] === 1 ? rest.subarray(1) : rest;
  return tlv.length === 0 ? null : tlv;
}
