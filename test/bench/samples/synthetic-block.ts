/**
 * A made-up `getBlock` answer with the make-up of a busy block: two thirds votes; the others with a dozen or two static keys, of
 * which few are new, lookups (or, in version 1, more keys of their own), inner instructions, logs and token balances. The same seed
 * makes the same block.
 */
import { encode, encode32 } from '../../../src/lib/base58.ts';
import { writeVersion1 } from '../../../src/solana/decode/wire-layout.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { type WireMessage, writeMessage } from '../../helpers/write-message.ts';

export interface SyntheticOptions {
  readonly seed: number;
  readonly transactions: number;
  readonly slot: number;
  /** Share of version 1 among all transactions, votes included; default 0. */
  readonly version1Share?: number;
}

export interface SyntheticBlock {
  /** A whole JSON-RPC answer, encoding base64. */
  readonly body: Buffer;
  readonly slot: number;
}

/** Keys that every block draws from. */
interface World {
  readonly random: Sfc32;
  /** Among those that are no votes. */
  readonly version1Share: number;
  readonly hot: readonly Uint8Array[];
  readonly votes: readonly Uint8Array[];
}

const VOTE_PROGRAM = Buffer.from('0761481d357474bb7c4d7624ebd3bdb3d8355e73d11043fc0da3538000000000', 'hex');
const VOTE_SHARE = 0.66;
const V0_SHARE = 0.65;
/** Of all transactions, where a row has version 1 at all. */
export const VERSION_1_SHARE = 0.2;
const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';

export function syntheticBlock({ seed, transactions, slot, version1Share = 0 }: SyntheticOptions): SyntheticBlock {
  const random = createSfc32(seed);
  const fresh = (): Uint8Array => random.fill(new Uint8Array(32));
  const world: World = {
    random,
    version1Share: version1Share / (1 - VOTE_SHARE),
    hot: Array.from({ length: 300 }, fresh),
    votes: Array.from({ length: 2000 }, fresh),
  };
  const entries = Array.from({ length: transactions }, () =>
    random.float() < VOTE_SHARE ? vote(world) : transaction(world),
  );
  const result = {
    blockHeight: slot - 10,
    blockTime: 1_700_000_000,
    blockhash: encode32(fresh()),
    parentSlot: slot - 1,
    previousBlockhash: encode32(fresh()),
    transactions: entries,
  };
  return { body: Buffer.from(JSON.stringify({ jsonrpc: '2.0', result, id: 1 })), slot };
}

function pick<T>(random: Sfc32, from: readonly T[]): T {
  return from[random.below(from.length)]!;
}

function bytes(random: Sfc32, least: number, most = least): Uint8Array {
  return random.fill(new Uint8Array(random.between(least, most)));
}

function entry(world: World, message: WireMessage, meta: object): object {
  const signature = bytes(world.random, 64);
  const wire =
    message.version === 1
      ? version1Wire(world, message, signature)
      : Buffer.concat([Buffer.of(1), signature, writeMessage(message)]);
  return {
    transaction: [wire.toString('base64'), 'base64'],
    meta: { err: null, status: { Ok: null }, ...meta, rewards: [], computeUnitsConsumed: world.random.below(200_000) },
    version: message.version,
  };
}

function version1Wire({ random }: World, message: WireMessage, signature: Uint8Array): Buffer {
  const [numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts] = message.header;
  const wire = writeVersion1({
    header: { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts },
    config: {
      priorityFee: BigInt(random.below(100_000)),
      computeUnitLimit: random.below(1_400_000),
      loadedAccountsDataSizeLimit: 2 ** 26,
      heapSize: null,
    },
    recentBlockhash: message.blockhash,
    keys: message.keys,
    instructions: message.instructions.map(({ program, accounts, data }) => ({
      programIndex: program,
      accounts,
      data,
    })),
    signatures: [signature],
  });
  return wire!;
}

/** Without doubles, which version 1 does not allow. */
function distinct(keys: readonly Uint8Array[]): Uint8Array[] {
  return [...new Map(keys.map((key) => [Buffer.from(key).toString('hex'), key])).values()];
}

function balances(random: Sfc32, count: number): number[] {
  return Array.from({ length: count }, () => random.below(1_000_000_000_000));
}

function vote(world: World): object {
  const { random } = world;
  const message: WireMessage = {
    version: 'legacy',
    header: [1, 0, 1],
    keys: [pick(random, world.votes), pick(random, world.votes), VOTE_PROGRAM],
    blockhash: bytes(random, 32),
    instructions: [{ program: 2, accounts: Uint8Array.of(1, 0), data: bytes(random, 148) }],
    lookups: [],
  };
  return entry(world, message, {
    fee: 5000,
    preBalances: balances(random, 3),
    postBalances: balances(random, 3),
    innerInstructions: [],
    logMessages: [
      'Program Vote111111111111111111111111111111111111111 invoke [1]',
      'Program Vote111111111111111111111111111111111111111 success',
    ],
    preTokenBalances: [],
    postTokenBalances: [],
    loadedAddresses: { readonly: [], writable: [] },
  });
}

function transaction(world: World): object {
  const { random } = world;
  const isVersion1 = world.version1Share > 0 && random.float() < world.version1Share;
  const isV0 = !isVersion1 && random.float() < V0_SHARE;
  // Version 1 has no lookup tables: what others load is among its own keys.
  const drawn = Array.from({ length: isVersion1 ? random.between(18, 36) : random.between(12, 25) }, (_, at) =>
    at < 6 ? bytes(random, 32) : pick(random, world.hot),
  );
  const keys = isVersion1 ? distinct(drawn) : drawn;
  const keyCount = keys.length;
  const lookups = Array.from({ length: isV0 ? random.between(1, 2) : 0 }, () => ({
    table: pick(random, world.hot),
    writable: bytes(random, 2, 6),
    readonly: bytes(random, 1, 4),
  }));
  const load = (part: 'writable' | 'readonly'): string[] =>
    lookups.flatMap((lookup) => Array.from(lookup[part], () => encode32(pick(random, world.hot))));
  const loadedAddresses = { readonly: load('readonly'), writable: load('writable') };
  const all = keyCount + loadedAddresses.readonly.length + loadedAddresses.writable.length;
  const index = (): number => random.below(all);
  const indexes = (least: number, most: number): Uint8Array =>
    Uint8Array.from({ length: random.between(least, most) }, index);
  const main = Array.from({ length: random.between(1, 5) }, () => ({
    program: isVersion1 ? 1 + random.below(keyCount - 1) : random.below(keyCount),
    accounts: indexes(3, 17),
    data: bytes(random, 4, 43),
  }));
  // What these ask for stands in the header of version 1.
  const budget = (isVersion1 ? [] : [5, 9]).map((length) => ({
    program: 5,
    accounts: new Uint8Array(0),
    data: bytes(random, length),
  }));
  const instructions = [...budget, ...main];
  const version = isVersion1 ? 1 : isV0 ? 0 : 'legacy';
  const message: WireMessage = {
    version,
    header: [1, 0, 4],
    keys,
    blockhash: bytes(random, 32),
    instructions,
    lookups,
  };
  const tokens = random.between(2, 9);
  return entry(world, message, {
    fee: 5000 + random.below(100_000),
    preBalances: balances(random, all),
    postBalances: balances(random, all),
    innerInstructions: innerInstructions(world, { from: budget.length, count: main.length }, indexes, index),
    logMessages: Array.from({ length: random.between(12, 51) }, () => logLine(world)),
    preTokenBalances: tokenBalances(world, tokens, all),
    postTokenBalances: tokenBalances(world, tokens, all),
    loadedAddresses,
  });
}

function innerInstructions(
  { random }: World,
  { from, count }: { readonly from: number; readonly count: number },
  indexes: (least: number, most: number) => Uint8Array,
  index: () => number,
): object[] {
  const groups = Array.from({ length: count }, (_, at) => at + from).filter(() => random.float() < 0.75);
  return groups.map((outer) => ({
    index: outer,
    instructions: Array.from({ length: random.between(1, 6) }, () => ({
      accounts: Array.from(indexes(2, 6)),
      data: encode(bytes(random, 4, 43)),
      programIdIndex: index(),
      stackHeight: 2,
    })),
  }));
}

function logLine({ random, hot }: World): string {
  const program = encode32(pick(random, hot));
  const kind = random.below(4);
  if (kind === 0) return `Program ${program} invoke [${random.between(1, 3)}]`;
  if (kind === 1) return `Program ${program} consumed ${random.below(200_000)} of 1400000 compute units`;
  if (kind === 2) return 'Program log: Instruction: TransferChecked';
  return `Program ${program} success`;
}

function tokenBalances({ random, hot }: World, count: number, keyCount: number): object[] {
  return Array.from({ length: count }, (_, at) => {
    const amount = random.below(1_000_000_000_000);
    return {
      accountIndex: at % keyCount,
      mint: encode32(pick(random, hot)),
      owner: encode32(pick(random, hot)),
      programId: TOKEN_PROGRAM,
      uiTokenAmount: {
        amount: String(amount),
        decimals: 6,
        uiAmount: amount / 1e6,
        uiAmountString: String(amount / 1e6),
      },
    };
  });
}
