import { keccak_256 } from '@noble/hashes/sha3.js';
import { decode32 } from '../../lib/base58.ts';
import { createByteReader, LayoutError } from '../../lib/bytes.ts';
import type { KeyTable } from '../../ports/block.ts';
import { knownKey, programAddress } from '../addresses.ts';
import { HASH_BYTES } from '../merkle/path.ts';
import type { Poseidon } from '../merkle/poseidon.ts';
import {
  ACCOUNT_COMPRESSION_PROGRAM,
  BUBBLEGUM_PROGRAM,
  MPL_COMPRESSION_PROGRAM,
  MPL_NOOP_PROGRAM,
  NOOP_PROGRAM,
} from '../programs.ts';

const COMPRESSION = [
  { program: ACCOUNT_COMPRESSION_PROGRAM, noop: NOOP_PROGRAM },
  { program: MPL_COMPRESSION_PROGRAM, noop: MPL_NOOP_PROGRAM },
];

/** Base58 ids of the programs with concurrent trees. */
export const CONCURRENT_PROGRAMS: readonly string[] = [ACCOUNT_COMPRESSION_PROGRAM, MPL_COMPRESSION_PROGRAM];

/**
 * Ids of these programs in the key table of one block, each with the noop through which it emits changes, and with Bubblegum, which may call
 * it; -1 when absent.
 */
export type ConcurrentIds = readonly {
  readonly program: number;
  readonly noop: number;
  readonly bubblegum: number;
}[];

/** Finds the programs in a block; omits those that do not occur. */
export function createConcurrentFinder(): (keys: KeyTable) => ConcurrentIds {
  const known = COMPRESSION.map(({ program, noop }) => ({ program: decodeKey(program), noop: decodeKey(noop) }));
  const bubblegum = decodeKey(BUBBLEGUM_PROGRAM);
  return (keys) =>
    known
      .map(({ program, noop }) => ({
        program: keys.find(program),
        noop: keys.find(noop),
        bubblegum: keys.find(bubblegum),
      }))
      .filter(({ program }) => program >= 0);
}

function decodeKey(text: string): Uint8Array {
  const key = decode32(text);
  if (key === null) throw new TypeError(`${text} is no key`);
  return key;
}

/** Content of the account of a concurrent tree. */
interface ConcurrentTreeAccount {
  readonly height: number;
  /** Number of changes that the account keeps: `changeOffset` finds them. */
  readonly bufferSize: number;
  readonly authority: Uint8Array;
  readonly creationSlot: bigint;
  /** Sequence number of the newest change. */
  readonly seq: bigint;
  /** Number of kept changes that are set. */
  readonly changes: number;
  /** Offset of the root at a sequence number; null when the account no longer has it. */
  rootOffset(seq: bigint): number | null;
}

/** Bytes from the start of an account that suffice to read it. */
export const CONCURRENT_HEADER_BYTES = 80;

const TREE_ACCOUNT = 1;
const CHANGES_AT = 80;

/** Reads the start of an account. Errors: LayoutError when it is not a tree. */
export function readConcurrentTree(data: Uint8Array): ConcurrentTreeAccount {
  const reader = createByteReader(data);
  if (reader.u8() !== TREE_ACCOUNT || reader.u8() !== 0) throw new LayoutError('no concurrent tree', 0);
  const [bufferSize, height] = [reader.u32(), reader.u32()];
  const authority = reader.key();
  const creationSlot = reader.u64();
  reader.bytes(1 + 5);
  const seq = reader.u64();
  const [active, changes] = [reader.count(), reader.count()];
  if (height < 1 || height > 30 || bufferSize < 1 || active >= bufferSize || changes > bufferSize)
    throw new LayoutError('no concurrent tree');
  // Root, path, index and padding.
  const changeBytes = 32 + 32 * height + 8;
  return {
    height,
    bufferSize,
    authority,
    creationSlot,
    seq,
    changes,
    rootOffset(wanted) {
      const back = seq - wanted;
      if (back < 0n || back >= BigInt(changes)) return null;
      const place = (active - Number(back) + bufferSize) % bufferSize;
      return CHANGES_AT + place * changeBytes;
    },
  };
}

const authorities = new Map<string, Uint8Array>();
const MAX_AUTHORITIES = 10_000;

/** The account that signs for Bubblegum in the tree, which the asset API calls the authority of its assets. */
export function treeAuthority(tree: Uint8Array): Uint8Array {
  const name = Buffer.from(tree).toString('latin1');
  const known = authorities.get(name);
  if (known !== undefined) return known;
  const address = programAddress([tree], knownKey(BUBBLEGUM_PROGRAM));
  // Derived anew at any time, so forgetting all of them is cheap enough.
  if (authorities.size >= MAX_AUTHORITIES) authorities.clear();
  authorities.set(name, address);
  return address;
}

/** The id of the asset with this number in a tree: an address derived by Bubblegum, without a private key. */
export function assetId(tree: Uint8Array, nonce: bigint): Uint8Array {
  const number = Buffer.alloc(8);
  number.writeBigUInt64LE(nonce);
  return programAddress([Buffer.from('asset'), tree, number], knownKey(BUBBLEGUM_PROGRAM));
}

/** keccak-256 of two children in the interface of tree code; accepts any bytes. */
export function createKeccakPairs(): Pick<Poseidon, 'hashPairs'> {
  return {
    hashPairs(src, srcAt, dst, dstAt, count) {
      for (let pair = 0; pair < count; pair += 1) {
        const from = srcAt + pair * 2 * HASH_BYTES;
        dst.set(keccak_256(src.subarray(from, from + 2 * HASH_BYTES)), dstAt + pair * HASH_BYTES);
      }
    },
  };
}
