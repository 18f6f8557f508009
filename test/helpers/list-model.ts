/**
 * A chain of blocks with transactions of a few addresses, and nodes that answer from it: a complete one, and others that lack a part. It
 * knows nothing of the code under test but how the bytes of a block are written.
 */
import { createHash } from 'node:crypto';
import { decode32, encode32, encode64 } from '../../src/lib/base58.ts';
import { blockOf, entryOf, sampleMessage } from './rpc-block.ts';
import type { Sfc32 } from './sfc32.ts';

const MEMO = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';
const FIRST_HEIGHT = 0;
export const MODEL_ADDRESSES = Array.from({ length: 6 }, (_, at) => new Uint8Array(32).fill(60 + at));
export const modelAddress = (at: number): string => encode32(MODEL_ADDRESSES[at]!);

export interface ModelTransaction {
  readonly signature: string;
  /** Positions in `MODEL_ADDRESSES`. */
  readonly addresses: readonly number[];
  readonly err: unknown;
  readonly memo: string | null;
  /** Lamports from the first address to the second; null if nothing moves. */
  readonly lamports: number | null;
  readonly entry: object;
}

export interface ModelBlock {
  readonly slot: number;
  readonly parentSlot: number;
  readonly height: number;
  readonly blockhash: string;
  readonly previousBlockhash: string;
  readonly time: number | null;
  readonly transactions: readonly ModelTransaction[];
}

/** The branch that the cluster is on. */
export interface ModelChain {
  /** Ascending. */
  blocks: readonly ModelBlock[];
  /** The newest slots of both commitments. */
  confirmedSlot: number;
  finalSlot: number;
}

/** Which part of the chain a node lacks. `behind`: it has not heard of the newest slots. */
export type NodeView =
  | { readonly kind: 'complete' }
  | { readonly kind: 'pruned'; readonly first: number }
  | { readonly kind: 'no-history' }
  | { readonly kind: 'behind'; readonly slots: number }
  | { readonly kind: 'gone' };

const hashOf = (text: string): string => encode32(new Uint8Array(createHash('sha256').update(text).digest()));
const memoProgram = decode32(MEMO)!;
const SYSTEM_PROGRAM = new Uint8Array(32);
const otherProgram = new Uint8Array(createHash('sha256').update('unused').digest());
/** One of them is in each transaction. */
export const MODEL_PROGRAMS = [memoProgram, SYSTEM_PROGRAM, otherProgram].map((one) => encode32(one));

/** What a transaction does: it writes a note with the memo program or another one, or pays. */
function createAction(random: Sfc32) {
  if (random.below(2) === 0) {
    const lamports = 1_000 + random.below(1_000_000);
    const data = Buffer.alloc(12);
    data.writeUInt32LE(2, 0);
    data.writeBigUInt64LE(BigInt(lamports), 4);
    return { program: SYSTEM_PROGRAM, accounts: Uint8Array.of(0, 1), data, lamports, memo: null };
  }
  const hasMemo = random.below(3) > 0;
  const text = `note ${random.below(1_000)} "ü"`;
  const memo = hasMemo ? `[${Buffer.byteLength(text)}] ${text}` : null;
  const data = Buffer.from(text);
  return { program: hasMemo ? memoProgram : otherProgram, accounts: Uint8Array.of(0), data, lamports: null, memo };
}

const RICH = 9_000_000_000;
const FEE = 5_000;

function createTransaction(random: Sfc32): ModelTransaction {
  const first = random.below(MODEL_ADDRESSES.length - 1);
  const second = (first + 1 + random.below(MODEL_ADDRESSES.length - 2)) % (MODEL_ADDRESSES.length - 1);
  const signature = random.fill(new Uint8Array(64));
  const { program, accounts, data, memo, ...action } = createAction(random);
  const err = random.below(5) === 0 ? { InstructionError: [0, { Custom: random.below(9) }] } : null;
  const lamports = err === null ? action.lamports : null;
  const entry = entryOf({
    message: sampleMessage({
      keys: [MODEL_ADDRESSES[first]!, MODEL_ADDRESSES[second]!, program],
      instructions: [{ program: 2, accounts, data }],
    }),
    signatures: [signature],
    meta: {
      err,
      status: err === null ? { Ok: null } : { Err: err },
      fee: FEE,
      preBalances: [RICH, RICH, 1],
      postBalances: [RICH - FEE - (lamports ?? 0), RICH + (lamports ?? 0), 1],
    },
  });
  return { signature: encode64(signature), addresses: [first, second], err, memo, lamports, entry };
}

/** A block above another one; some slots are skipped and some blocks have no time. `replayed`: transactions of another branch first. */
export function createBlock(
  random: Sfc32,
  parent: Pick<ModelBlock, 'slot' | 'height' | 'blockhash'> | null,
  { firstSlot = 0, above = -1, replayed = [], branch = '', slotSeconds = 1 }: BlockOptions,
): ModelBlock {
  const step = random.below(6) === 0 ? 2 + random.below(3) : 1;
  const slot = parent === null ? firstSlot : Math.max(parent.slot + step, above + 1);
  // The block of genesis has no transactions.
  const own = Array.from({ length: parent === null ? 0 : random.below(5) }, () => createTransaction(random));
  return {
    slot,
    parentSlot: parent?.slot ?? slot - 1,
    height: (parent?.height ?? FIRST_HEIGHT - 1) + 1,
    blockhash: hashOf(`${slot} ${branch}`),
    previousBlockhash: parent?.blockhash ?? hashOf('genesis'),
    time: random.below(7) === 0 && parent !== null ? null : 1_700_000_000 + slot * slotSeconds,
    transactions: [...replayed, ...own],
  };
}

interface BlockOptions {
  /** Of a block without a parent. */
  readonly firstSlot?: number;
  /** Its slot is above this one. */
  readonly above?: number;
  readonly replayed?: readonly ModelTransaction[];
  readonly branch?: string;
  readonly slotSeconds?: number;
}

/** The result of getBlock in base64, as the follower asks for it. */
export const blockJson = (block: ModelBlock): object => ({
  ...blockOf(
    block.transactions.map(({ entry }) => entry),
    block.slot,
  ),
  blockhash: block.blockhash,
  previousBlockhash: block.previousBlockhash,
  parentSlot: block.parentSlot,
  blockHeight: block.height,
  blockTime: block.time,
  rewards: [],
});

/**
 * The cluster goes on with another branch; the newest `depth` blocks that are not final are gone. `hasOwnSlots`: each slot has one block at
 * most, as without leaders that cheat; else a slot may have another block.
 */
export function forked(
  { blocks, finalSlot }: ModelChain,
  random: Sfc32,
  depth: number,
  hasOwnSlots = false,
): ModelChain {
  const open = blocks.filter(({ slot }) => slot > finalSlot).length;
  const kept = blocks.slice(0, blocks.length - Math.min(depth, open));
  const lost = blocks.slice(kept.length).flatMap(({ transactions }) => transactions);
  const next = [...kept];
  const branch = String(random.next());
  for (let more = 1 + random.below(depth + 2); more > 0; more--) {
    const replayed = lost.splice(0, random.below(4));
    next.push(createBlock(random, next.at(-1)!, { replayed, branch, above: hasOwnSlots ? blocks.at(-1)!.slot : -1 }));
  }
  return { blocks: next, finalSlot, confirmedSlot: next.at(-1)!.slot };
}

/** `branch`: where forks may have used the same slots before, so that no two blocks share a hash. */
export function grown({ blocks, finalSlot }: ModelChain, random: Sfc32, count: number, branch = ''): ModelChain {
  const next = [...blocks];
  for (let more = count; more > 0; more--) next.push(createBlock(random, next.at(-1)!, { branch }));
  const finalAt = Math.max(
    next.findIndex(({ slot }) => slot === finalSlot),
    next.length - 1 - 25 - random.below(7),
  );
  return { blocks: next, confirmedSlot: next.at(-1)!.slot, finalSlot: next[finalAt]!.slot };
}

export class NodeError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The node does not answer. */
export class NodeGone extends Error {}

interface Config {
  readonly commitment?: 'confirmed' | 'finalized';
  readonly limit?: number;
  readonly before?: string;
  readonly until?: string;
  readonly minContextSlot?: number;
  readonly searchTransactionHistory?: boolean;
}

/** What a node with this view answers. Errors: NodeError, NodeGone. */
export function nodeAnswer(chain: ModelChain, view: NodeView, method: string, params: readonly unknown[]): unknown {
  if (view.kind === 'gone') throw new NodeGone();
  const lag = view.kind === 'behind' ? view.slots : 0;
  const first = view.kind === 'pruned' ? view.first : 0;
  const tipOf = (commitment: string | undefined) =>
    (commitment === 'confirmed' ? chain.confirmedSlot : chain.finalSlot) - lag;
  const hasHistory = view.kind !== 'no-history';
  const blocks = chain.blocks.filter(({ slot }) => slot >= first);
  const requireHistory = () => {
    if (!hasHistory) throw new NodeError(-32011, 'Transaction history is not available from this node');
  };
  const find = (signature: string, newest: number) => {
    for (const block of blocks) {
      const index = block.transactions.findIndex((one) => one.signature === signature);
      if (index >= 0 && block.slot <= newest) return { block, index, tx: block.transactions[index]! };
    }
    return null;
  };
  const statusAt = (slot: number) => (slot <= tipOf('finalized') ? 'finalized' : 'confirmed');

  switch (method) {
    case 'getSlot':
    case 'getBlockHeight': {
      const { commitment, minContextSlot = 0 } = (params[0] as Config | undefined) ?? {};
      const slot = tipOf(commitment);
      if (minContextSlot > slot) throw new NodeError(-32016, 'Minimum context slot has not been reached');
      return method === 'getSlot' ? slot : (blocks.findLast((block) => block.slot <= slot)?.height ?? 0);
    }
    case 'getFirstAvailableBlock':
    case 'minimumLedgerSlot':
      return Math.max(first, chain.blocks[0]!.slot);
    case 'getBlock': {
      requireHistory();
      const [slot, config] = params as [number, (Config & { readonly transactionDetails?: string }) | undefined];
      if (slot < first) throw new NodeError(-32001, `Block ${slot} cleaned up, does not exist on node.`);
      if (slot > tipOf(config?.commitment)) throw new NodeError(-32004, `Block not available for slot ${slot}`);
      const block = blocks.find((one) => one.slot === slot);
      if (block === undefined) throw new NodeError(-32007, `Slot ${slot} was skipped`);
      const { transactions, ...rest } = blockJson(block) as Record<string, unknown>;
      if (config?.transactionDetails === 'none') return rest;
      const signatures = block.transactions.map(({ signature }) => signature);
      return config?.transactionDetails === 'signatures' ? { ...rest, signatures } : { ...rest, transactions };
    }
    case 'getBlocks': {
      requireHistory();
      const [from, second, third] = params as [number, unknown, Config | undefined];
      const isRange = typeof second === 'number';
      const config = isRange ? third : (second as Config | undefined);
      const to = Math.min(isRange ? second : Number.MAX_SAFE_INTEGER, tipOf(config?.commitment));
      return blocks.flatMap(({ slot }) => (slot >= from && slot <= to ? [slot] : []));
    }
    case 'getBlocksWithLimit': {
      requireHistory();
      const [from, limit, config] = params as [number, number, Config | undefined];
      const to = tipOf(config?.commitment);
      return blocks.flatMap(({ slot }) => (slot >= from && slot <= to ? [slot] : [])).slice(0, limit);
    }
    case 'getTransaction': {
      requireHistory();
      const [signature, config] = params as [string, Config | undefined];
      const found = find(signature, tipOf(config?.commitment));
      if (found === null) return null;
      const { block, index, tx } = found;
      return { ...tx.entry, blockTime: block.time, slot: block.slot, transactionIndex: index };
    }
    case 'getBlockTime': {
      requireHistory();
      const block = blocks.find(({ slot }) => slot === params[0]);
      if (block === undefined) throw new NodeError(-32009, 'Slot was skipped, or missing in long-term storage');
      return block.time;
    }
    case 'getTokenAccountsByOwner':
      return { context: { slot: tipOf('confirmed') }, value: [] };
    case 'getMultipleAccounts':
      return { context: { slot: tipOf('confirmed') }, value: (params[0] as string[]).map(() => null) };
    case 'getSignatureStatuses': {
      const [list, config] = params as [string[], Config | undefined];
      const newest = tipOf('confirmed');
      const height = blocks.findLast(({ slot }) => slot <= newest)?.height ?? 0;
      if (config?.searchTransactionHistory === true) requireHistory();
      const value = list.map((signature) => {
        const found = find(signature, newest);
        if (found === null) return null;
        const depth = height - found.block.height;
        if (config?.searchTransactionHistory !== true && depth >= 300) return null;
        const { slot } = found.block;
        const isFinal = statusAt(slot) === 'finalized';
        return {
          confirmationStatus: statusAt(slot),
          confirmations: isFinal ? null : depth,
          err: found.tx.err,
          slot,
          status: found.tx.err === null ? { Ok: null } : { Err: found.tx.err },
        };
      });
      return { context: { slot: newest }, value };
    }
    case 'getSignaturesForAddress': {
      requireHistory();
      const [address, config = {}] = params as [string, Config | undefined];
      const newest = tipOf(config.commitment);
      if ((config.minContextSlot ?? 0) > newest)
        throw new NodeError(-32016, 'Minimum context slot has not been reached');
      const place = (signature: string | undefined, open: number) => {
        if (signature === undefined) return open;
        const found = find(signature, tipOf('confirmed'));
        if (found === null) throw new NodeError(-32020, `Transaction ${signature} not found`);
        return found.block.slot * 1_000 + found.index;
      };
      const [below, above] = [place(config.before, Number.MAX_SAFE_INTEGER), place(config.until, -1)];
      const rows: unknown[] = [];
      for (const block of blocks.toReversed())
        for (let index = block.transactions.length - 1; index >= 0; index--) {
          const { addresses, err, memo, signature } = block.transactions[index]!;
          const at = block.slot * 1_000 + index;
          if (block.slot > newest || at >= below || at <= above) continue;
          if (!addresses.some((one) => modelAddress(one) === address)) continue;
          rows.push({
            blockTime: block.time,
            confirmationStatus: statusAt(block.slot),
            err,
            memo,
            signature,
            slot: block.slot,
            transactionIndex: index,
          });
        }
      return rows.slice(0, config.limit ?? 1_000);
    }
    default:
      throw new NodeError(-32601, 'Method not found');
  }
}

interface StatusOfModel {
  confirmationStatus?: string;
  confirmations?: number | null;
  readonly slot: number;
}

function statusesIn(value: unknown): readonly StatusOfModel[] {
  const items = (Array.isArray(value) ? value : [value]) as (StatusOfModel | null)[];
  return items.filter((one): one is StatusOfModel => one !== null && one.confirmationStatus !== undefined);
}

/** Whether an answer calls something confirmed that is known to be final. */
export const isLate = (text: string, finalSlot: number): boolean =>
  statusesIn(JSON.parse(text)).some((one) => one.confirmationStatus === 'confirmed' && one.slot <= finalSlot);

/** The answer of a node that is behind, which knew what is final. */
export function asFinal(text: string, finalSlot: number): string {
  const value = JSON.parse(text) as unknown;
  for (const one of statusesIn(value))
    if (one.slot <= finalSlot) {
      one.confirmationStatus = 'finalized';
      if (one.confirmations !== undefined) one.confirmations = null;
    }
  return JSON.stringify(value);
}

/** The items of a comparable answer about single transactions. */
export function listOf(text: string): readonly string[] {
  const value: unknown = text.startsWith('[') || text === 'null' ? JSON.parse(text) : text;
  const isList = Array.isArray(value) && value.every((item) => typeof item !== 'number');
  return (isList ? (value as unknown[]) : [value]).map((item) => JSON.stringify(item));
}
