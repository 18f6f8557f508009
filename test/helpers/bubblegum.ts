/** Recorded transactions of compressed NFTs, and written ones of trees that a plain model keeps. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { encode, encode32, encode64 } from '../../src/lib/base58.ts';
import { hashLeaf, type LeafSchema } from '../../src/solana/concurrent/decode-concurrent.ts';
import { type LeafMetadata, writeLeafMetadata } from '../../src/solana/concurrent/leaf-metadata.ts';
import { assetId, treeAuthority } from '../../src/solana/concurrent/tree.ts';
import { readJsonFixture } from './fixtures.ts';

interface Instruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  readonly data: string;
}

interface Recorded {
  readonly signature: string;
  readonly slot: number;
  readonly accountKeys: readonly string[];
  readonly instructions: readonly Instruction[];
  readonly innerInstructions: readonly { readonly index: number; readonly instructions: readonly Instruction[] }[];
}

export interface Scenario {
  readonly name: string;
  /** By slot, as results of `getTransaction` in encoding json. */
  readonly transactions: readonly object[];
}

export function bubblegumScenarios(): Scenario[] {
  const recorded = readJsonFixture<Record<string, readonly Recorded[]>>('chain/cnft/bubblegum-open.json');
  return Object.entries(recorded).map(([name, list]) => ({
    name,
    transactions: list.toSorted((one, other) => one.slot - other.slot).map(resultOf),
  }));
}

/** What a node would answer; balances are made up. */
function resultOf({ signature, slot, accountKeys, instructions, innerInstructions }: Recorded): object {
  const balances = accountKeys.map(() => 1);
  return {
    slot,
    blockTime: null,
    version: 'legacy',
    transaction: {
      signatures: [signature],
      message: {
        header: { numRequiredSignatures: 1, numReadonlySignedAccounts: 0, numReadonlyUnsignedAccounts: 1 },
        accountKeys,
        recentBlockhash: encode32(new Uint8Array(32).fill(3)),
        instructions,
      },
    },
    meta: { err: null, fee: 5000, preBalances: balances, postBalances: balances, innerInstructions, logMessages: [] },
  };
}

const PROGRAM = 'cmtDvXumGCrqC1Age74AVPhSRVXJMd8PJS91L8KbNCK';
const NOOP = 'noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV';
const BUBBLEGUM = 'BGUMAp9Gq7iTEuizy4pqaxsTyUCBK68MDfK752saRPUY';
export const CALLS = {
  start: 'bf0b7707b46bdc6e',
  prepared: 'daf8c0375bcd7a0a',
  append: '957812deece158cb',
  replace: 'cca54c6449930080',
  close: '320edb6b4e671067',
  verifyLeaf: '7cdc16df680afae0',
} as const;

/** A call of the compression program as Bubblegum makes it: application data, the call, what the call tells. */
export interface TreeCall {
  readonly call: keyof typeof CALLS;
  readonly tree: Uint8Array;
  /** Data of the noop that the call makes; null when it makes none. */
  readonly told: Uint8Array | null;
  readonly schema?: LeafSchema | null;
  /** Data of the instruction of Bubblegum. */
  readonly data?: Uint8Array;
  /** Authority that signs for the tree; default: that of Bubblegum. */
  readonly authority?: Uint8Array;
}

/** A transaction with one outer instruction per call. `number` makes its signature. */
export function treeTransaction(slot: number, number: number, calls: readonly TreeCall[]): object {
  const trees = [...new Set(calls.map(({ tree }) => encode32(tree)))];
  const payer = encode32(new Uint8Array(32).fill(5));
  const authorityOf = ({ tree, authority }: TreeCall): string => encode32(authority ?? treeAuthority(tree));
  const accountKeys = [...new Set([payer, ...trees, ...calls.map(authorityOf), PROGRAM, NOOP, BUBBLEGUM])];
  const at = (key: string): number => accountKeys.indexOf(key);
  const noop = (data: Uint8Array): Instruction => ({ programIdIndex: at(NOOP), accounts: [], data: encode(data) });
  const signature = Buffer.alloc(64, 1);
  signature.writeUInt32BE(number);
  return resultOf({
    signature: encode64(signature),
    slot,
    accountKeys,
    instructions: calls.map(({ tree, data = Uint8Array.of(1) }) => ({
      programIdIndex: at(BUBBLEGUM),
      accounts: [0, at(encode32(tree))],
      data: encode(data),
    })),
    innerInstructions: calls.map(({ call, tree, told, schema, authority }, index) => ({
      index,
      instructions: [
        ...(schema == null ? [] : [noop(leafEvent(schema))]),
        {
          programIdIndex: at(PROGRAM),
          accounts: [
            at(encode32(tree)),
            at(authorityOf({ call, tree, told, ...(authority === undefined ? {} : { authority }) })),
            at(NOOP),
          ],
          data: encode(Buffer.concat([Buffer.from(CALLS[call], 'hex'), Buffer.alloc(32)])),
        },
        ...(told === null ? [] : [noop(told)]),
      ],
    })),
  });
}

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
};

function leafEvent(schema: LeafSchema): Buffer {
  const { id, owner, delegate, nonce, dataHash, creatorHash, more } = schema;
  const event = Buffer.concat([
    Buffer.of(1, schema.version - 1, schema.version - 1),
    id,
    owner,
    delegate,
    u64(nonce),
    dataHash,
    creatorHash,
    ...(more === null ? [] : [more.collectionHash, more.assetDataHash, Buffer.of(more.flags)]),
    hashLeaf(schema),
  ]);
  return Buffer.concat([Buffer.of(1, 0), u32(event.length), event]);
}

/** A tree that hashes itself anew at every change, leaf by leaf: slow, and right by looking at it. */
export interface ModelTree {
  readonly key: Uint8Array;
  readonly height: number;
  seq(): number;
  root(): Uint8Array;
  leaf(index: number): Uint8Array;
  /** Siblings from the leaf up. */
  proof(index: number): Uint8Array[];
  /** Sets a leaf and answers what the program tells of it. */
  set(index: number, leaf: Uint8Array): Uint8Array;
  /** What the program tells when it makes the tree. */
  started(): Uint8Array;
}

const keccak = (left: Uint8Array, right: Uint8Array): Uint8Array => keccak_256(Buffer.concat([left, right]));

export function createModelTree(key: Uint8Array, height: number): ModelTree {
  const leaves: Uint8Array[] = Array.from({ length: 2 ** height }, () => new Uint8Array(32));
  let seq = 0;
  const levels = (): Uint8Array[][] => {
    const all = [leaves];
    while (all.length <= height) {
      const below = all.at(-1)!;
      all.push(Array.from({ length: below.length / 2 }, (_, i) => keccak(below[2 * i]!, below[2 * i + 1]!)));
    }
    return all;
  };
  const told = (index: number): Buffer => {
    const nodes = levels().map((level, depth) => [level[index >> depth]!, u32((2 ** height + index) >> depth)]);
    return Buffer.concat([Buffer.of(0, 0), key, u32(nodes.length), ...nodes.flat(), u64(BigInt(seq)), u32(index)]);
  };
  return {
    key,
    height,
    seq: () => seq,
    root: () => levels()[height]![0]!,
    leaf: (index) => leaves[index]!,
    proof: (index) =>
      levels()
        .slice(0, height)
        .map((level, depth) => level[(index >> depth) ^ 1]!),
    set(index, leaf) {
      leaves[index] = leaf;
      seq += 1;
      return told(index);
    },
    started: () => told(0),
  };
}

/** Some asset of a tree. */
export function schemaOf(id: Uint8Array, nonce: bigint, owner: number, version: 1 | 2 = 1): LeafSchema {
  const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
  return {
    version,
    id,
    nonce,
    owner: key(owner),
    delegate: key(owner),
    dataHash: key(7),
    creatorHash: key(8),
    more: version === 1 ? null : { collectionHash: key(9), assetDataHash: key(10), flags: 0 },
  };
}

/** An asset with metadata, and the data of the instruction that mints it. */
export function mintOf(
  tree: Uint8Array,
  leaf: number,
  owner: number,
  name: string,
  { collection = null, creators = [], uri = '' }: Partial<Pick<LeafMetadata, 'collection' | 'creators' | 'uri'>> = {},
): { readonly schema: LeafSchema; readonly data: Uint8Array } {
  const bytes = writeLeafMetadata({
    version: 2,
    name,
    symbol: 'C',
    uri,
    sellerFeeBasisPoints: 250,
    primarySaleHappened: true,
    isMutable: true,
    editionNonce: null,
    tokenStandard: 0,
    collection,
    uses: null,
    tokenProgram: 0,
    creators,
  });
  const hashes = {
    dataHash: keccak(keccak_256(bytes), Buffer.of(250, 0)),
    creatorHash: keccak_256(
      Buffer.concat(creators.flatMap((one) => [one.address, Buffer.of(Number(one.verified), one.share)])),
    ),
    more: {
      collectionHash: keccak_256(collection?.key ?? new Uint8Array(32)),
      assetDataHash: keccak_256(new Uint8Array(0)),
      flags: 0,
    },
  };
  const schema = { ...schemaOf(assetId(tree, BigInt(leaf)), BigInt(leaf), owner, 2), ...hashes };
  // Without asset data and without its schema.
  return { schema, data: Buffer.concat([Buffer.from('78791792ad6ec7cd', 'hex'), bytes, Buffer.of(0, 0)]) };
}

/** What the account of a tree begins with when it remembers only its newest root. */
export function treeAccount(tree: ModelTree): Buffer {
  const change = Buffer.concat([tree.root(), Buffer.alloc(32 * tree.height + 8)]);
  const header = [Buffer.of(1, 0), u32(1), u32(tree.height), Buffer.alloc(32, 6), u64(5n), Buffer.alloc(6)];
  return Buffer.concat([...header, u64(BigInt(tree.seq())), u64(0n), u64(1n), change]);
}
