/**
 * Transactions of busy blocks of compressed accounts in one V1 state tree: token accounts and accounts of programs are created, accounts
 * of earlier blocks are spent, and a forester sets their leaves to zero. Every account hashes to its leaf.
 */
import { decode32, encode } from '../../../src/lib/base58.ts';
import { createAccountHasher } from '../../../src/solana/compression/accounts.ts';
import type { CompressedAccount } from '../../../src/solana/compression/events.ts';
import { createPoseidon } from '../../../src/solana/merkle/poseidon.ts';
import { entryOf } from '../../helpers/rpc-block.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';

/** Per block. */
export const COMPRESSION = { transactions: 25, outputs: 8, inputs: 2, nullified: 10 } as const;
/** Leaves that a block changes, once there is something to nullify. */
export const LEAVES_PER_BLOCK = COMPRESSION.transactions * COMPRESSION.outputs + COMPRESSION.nullified;
/** Smallest number of open accounts, so that what is spent is of another block. */
const MIN_OPEN = 2 * LEAVES_PER_BLOCK;

const [TREE, TOKEN, COMPRESSION_PROGRAM, NOOP, SYSTEM, LIGHT] = [
  'smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT',
  'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m',
  'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq',
  'noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV',
  '11111111111111111111111111111111',
  'SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7',
].map((text) => decode32(text)!) as [Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array, Uint8Array];

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: bigint | number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const list = (items: readonly Uint8Array[]) => Buffer.concat([u32(items.length), ...items]);
const blob = (bytes: Uint8Array) => Buffer.concat([u32(bytes.length), bytes]);
const option = (bytes: Uint8Array | null) => (bytes === null ? Buffer.of(0) : Buffer.concat([Buffer.of(1), bytes]));

/** Entries of `getBlock`, block by block. */
export function createCompressionBlocks(seed: number): () => object[] {
  const random = createSfc32(seed);
  const hasher = createAccountHasher(createPoseidon());
  const bytes = (length: number) => Buffer.from(random.fill(new Uint8Array(length)));
  /** Below the prime. */
  const field = () => Buffer.concat([Buffer.alloc(1), bytes(31)]);
  const wallets = Array.from({ length: 2_000 }, () => bytes(32));
  const mints = Array.from({ length: 20 }, () => bytes(32));
  const programs = Array.from({ length: 10 }, () => bytes(32));
  const open: { readonly hash: Uint8Array; readonly leaf: number }[] = [];
  const spent: number[] = [];
  // The first change of a tree has the number 1.
  let [leaf, seq] = [0, 1];

  const pick = <T>(from: readonly T[]): T => from[random.below(from.length)]!;

  function account(): CompressedAccount {
    if (random.below(2) === 0) {
      const data = Buffer.concat([pick(mints), pick(wallets), u64(1 + random.below(1e9)), Buffer.of(0, 0, 0)]);
      const discriminator = Buffer.of(2, 0, 0, 0, 0, 0, 0, 0);
      return { owner: TOKEN, lamports: 0n, address: null, data: { discriminator, bytes: data, hash: field() } };
    }
    const data = { discriminator: Buffer.alloc(8, 7), bytes: bytes(96), hash: field() };
    return { owner: pick(programs), lamports: BigInt(random.below(2) * 1_000_000), address: field(), data };
  }

  function spend(): Uint8Array[] {
    if (open.length < MIN_OPEN) return [];
    return Array.from({ length: COMPRESSION.inputs }, () => {
      const at = random.below(open.length - LEAVES_PER_BLOCK);
      const [one] = open.splice(at, 1, open.pop()!);
      spent.push(one!.leaf);
      return one!.hash;
    });
  }

  /** The event of a V1 call. */
  function event(): Buffer {
    const inputs = spend();
    const firstSeq = seq;
    const outputs = Array.from({ length: COMPRESSION.outputs }, () => {
      const made = account();
      const index = leaf++;
      seq += 1;
      const hash = hasher.hash(made, TREE, index, 1);
      open.push({ hash, leaf: index });
      return { account: made, hash, index };
    });
    return Buffer.concat([
      list(inputs),
      list(outputs.map(({ hash }) => hash)),
      list(outputs.map(({ account: own }) => Buffer.concat([accountBytes(own), Buffer.of(0)]))),
      list(outputs.map(({ index }) => u32(index))),
      list([Buffer.concat([TREE, u64(firstSeq)])]),
      option(null),
      Buffer.of(0),
      option(null),
      list([TREE]),
      option(null),
    ]);
  }

  function nullify(): Buffer {
    const leaves = spent.splice(0, COMPRESSION.nullified);
    const first = seq;
    seq += leaves.length;
    return Buffer.concat([Buffer.of(1), TREE, list(leaves.map((index) => u64(index))), u64(first)]);
  }

  return () => {
    const entries = Array.from({ length: COMPRESSION.transactions }, () => entry(random, event(), true));
    return spent.length < COMPRESSION.nullified ? entries : [...entries, entry(random, nullify(), false)];
  };
}

function accountBytes({ owner, lamports, address, data }: CompressedAccount): Buffer {
  const content = data === null ? null : Buffer.concat([data.discriminator, blob(data.bytes), data.hash]);
  return Buffer.concat([owner, u64(lamports), option(address), option(content)]);
}

/** A transaction of an application: its program calls the Light programs, which end with a noop that has the event. */
function entry(random: Sfc32, event: Buffer, isCall: boolean): object {
  const fresh = () => random.fill(new Uint8Array(32));
  const keys = [fresh(), TREE, fresh(), LIGHT, COMPRESSION_PROGRAM, NOOP, SYSTEM];
  const inner = (programIdIndex: number, data: Uint8Array, accounts: number[]) => ({
    programIdIndex,
    accounts,
    data: encode(data),
    stackHeight: 3,
  });
  const calls = [
    ...(isCall ? [inner(3, random.fill(new Uint8Array(200)), [0, 1, 4, 5, 6])] : []),
    inner(4, random.fill(new Uint8Array(120)), [0, 1, 5]),
    // A call of the system program between the two marks the event of a transaction.
    ...(isCall ? [inner(6, random.fill(new Uint8Array(12)), [0, 1])] : []),
    inner(5, event, []),
  ];
  const message = {
    version: 'legacy' as const,
    header: [1, 0, 5] as const,
    keys,
    blockhash: fresh(),
    lookups: [],
    instructions: [{ program: 2, accounts: Uint8Array.of(0, 1, 3, 4, 5, 6), data: random.fill(new Uint8Array(300)) }],
  };
  const logMessages = Array.from({ length: 20 }, (_, at) => `Program log: step ${at} of a call of Light`);
  return entryOf({
    message,
    signatures: [random.fill(new Uint8Array(64))],
    meta: { innerInstructions: [{ index: 0, instructions: calls }], logMessages, computeUnitsConsumed: 300_000 },
  });
}
