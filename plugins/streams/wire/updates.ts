/**
 * Updates of `geyser.Geyser` from decoded blocks. The numbers are those of geyser.proto and solana-storage.proto. Everything is
 * encoded on first use and kept with its block, so that each update is encoded once however many readers get it.
 */
import { createHash } from 'node:crypto';
import { objectMembers, parseExact } from '../../../src/lib/json.ts';
import { lazy } from '../../../src/lib/lazy.ts';
import { ProtobufWriter } from '../../../src/lib/protobuf.ts';
import type { ChainBlock, KeyTable, NormalTransaction } from '../../../src/ports/block.ts';
import {
  type FullMeta,
  type RpcReward,
  writeError,
  writeInstruction,
  writeKeys,
  writeMeta,
  writeRewards,
} from '../../../src/solana/stored-meta.ts';

export const SLOT_STATUS = { processed: 0, confirmed: 1, finalized: 2, dead: 6 } as const;

/** `SubscribeUpdate`: the member of each kind. `filters` is 1, and its bytes differ by reader. */
const UPDATE = {
  slot: 3,
  transaction: 4,
  block: 5,
  ping: 6,
  blockMeta: 7,
  pong: 9,
  transactionStatus: 10,
  createdAt: 11,
};

const KEY_BYTES = 32;
/** Clients in JavaScript read numbers up to 2^53 exactly. */
const BANK_ID_BYTES = 6;

/**
 * `bank_id` of proto 14: with its slot it names a block, also where two blocks have one slot. It follows from the blockhash, so that a block
 * has the same one on every connection, in every process and after a restart. Never 0, which says that it is unknown.
 */
export function bankIdOf(blockhash: string): number {
  return createHash('sha256').update(blockhash).digest().readUIntBE(0, BANK_ID_BYTES) || 1;
}

const writer = new ProtobufWriter();

/** Which transactions a block update holds: of all, by index; null: all; `none`: an update without transactions. */
export type BlockContent = readonly number[] | 'none' | null;

/** The updates of one block, without the labels of filters. */
export interface BlockUpdates {
  transaction(index: number): Buffer;
  transactionStatus(index: number): Buffer;
  block(content: BlockContent): Buffer;
  blockMeta(): Buffer;
}

/** `createdAtMs`: unix milliseconds, part of each update. */
export function createBlockUpdates(block: ChainBlock, createdAtMs: number): BlockUpdates {
  const createdAt = encodeCreatedAt(createdAtMs);
  const keyBytes = new Uint8Array(block.keys.words.buffer, block.keys.words.byteOffset, block.keys.size * KEY_BYTES);
  const infos: (Buffer | undefined)[] = [];
  const transactions: (Buffer | undefined)[] = [];
  const statuses: (Buffer | undefined)[] = [];
  let whole: Buffer | null = null;
  let meta: Buffer | null = null;
  const readRewards = lazy(() => rewardsOf(block));
  const bankId = bankIdOf(block.blockhash);

  /** SubscribeUpdateTransactionInfo: the same bytes in a transaction's update and in the block's. */
  function info(index: number): Buffer {
    let bytes = infos[index];
    if (bytes === undefined) {
      writeInfo(block.transactions[index]!, block.keys, keyBytes);
      bytes = writer.take();
      infos[index] = bytes;
    }
    return bytes;
  }

  function update(field: number, write: () => void): Buffer {
    const start = writer.begin(field);
    write();
    writer.end(start);
    return Buffer.concat([writer.take(), createdAt]);
  }

  function makeBlock(content: BlockContent): Buffer {
    const chosen =
      content === 'none' ? [] : (content ?? block.transactions.map(({ index }) => index)).map((index) => info(index));
    return update(UPDATE.block, () => {
      writeHead(block, readRewards());
      for (const bytes of chosen) writer.raw(6, bytes);
      writer.uint(7, block.parentSlot);
      writer.text(8, block.previousBlockhash);
      writer.uint(9, block.transactions.length);
      writer.uint(14, bankId);
    });
  }

  return {
    transaction(index) {
      const bytes = info(index);
      transactions[index] ??= update(UPDATE.transaction, () => {
        writer.raw(1, bytes);
        writer.uint(2, block.slot);
        writer.uint(3, bankId);
      });
      return transactions[index];
    },
    transactionStatus(index) {
      statuses[index] ??= update(UPDATE.transactionStatus, () => {
        const transaction = block.transactions[index]!;
        writer.uint(1, block.slot);
        writer.raw(2, transaction.signatures[0]!);
        writer.bool(3, transaction.isVote);
        writer.uint(4, index);
        writeError(writer, 5, transaction.error);
        writer.uint(6, bankId);
      });
      return statuses[index];
    },
    block(content) {
      if (content !== null) return makeBlock(content);
      whole ??= makeBlock(null);
      return whole;
    },
    blockMeta() {
      meta ??= update(UPDATE.blockMeta, () => {
        writeHead(block, readRewards());
        writer.uint(6, block.parentSlot);
        writer.text(7, block.previousBlockhash);
        writer.uint(8, block.transactions.length);
        writer.uint(10, bankId);
      });
      return meta;
    },
  };
}

interface BlockRewards {
  readonly rewards: readonly RpcReward[];
  /** Null: the block is not the first of an epoch. */
  readonly partitions: number | bigint | null;
}

/** Null: the block came in a form without rewards. */
function rewardsOf(block: ChainBlock): BlockRewards | null {
  const text = rewardTextOf(block);
  const rewards = text === null ? null : (parseExact(text.rewards) as readonly RpcReward[] | null);
  if (rewards === null) return null;
  const partitions = text?.partitions == null ? null : parseExact(text.partitions);
  const isCount = typeof partitions === 'number' || typeof partitions === 'bigint';
  return { rewards, partitions: isCount ? partitions : null };
}

/** The rewards of a block as JSON text; null: the block came in a form without them. */
export function rewardTextOf({
  answer,
}: ChainBlock): { readonly rewards: string; readonly partitions: string | null } | null {
  if (answer === undefined) return null;
  const text = answer.text();
  const members = objectMembers(text) ?? [];
  const memberOf = (of: string) => {
    const member = members.find(({ name }) => name === of);
    return member === undefined ? null : text.toString('utf8', member.start, member.end);
  };
  const rewards = memberOf('rewards');
  return rewards === null ? null : { rewards, partitions: memberOf('numRewardPartitions') };
}

/** The members that `Block` and `BlockMeta` share. `rewards`: null leaves them out, because they are unknown. */
function writeHead(block: ChainBlock, rewards: BlockRewards | null): void {
  writer.uint(1, block.slot);
  writer.text(2, block.blockhash);
  if (rewards !== null) {
    const start = writer.begin(3);
    writeRewards(writer, rewards.rewards, rewards.partitions);
    writer.end(start);
  }
  for (const [field, value] of [
    [4, block.blockTime],
    [5, block.blockHeight],
  ] as const) {
    if (value === null) continue;
    const start = writer.begin(field);
    writer.uint(1, value);
    writer.end(start);
  }
}

function writeInfo(transaction: NormalTransaction, keys: KeyTable, keyBytes: Uint8Array): void {
  writer.raw(1, transaction.signatures[0]!);
  writer.bool(2, transaction.isVote);
  const start = writer.begin(3);
  writeTransaction(transaction, keys, keyBytes);
  writer.end(start);
  if (transaction.meta !== null) {
    const at = writer.begin(4);
    writeMeta(writer, transaction, transaction.meta as unknown as FullMeta, keyBytes);
    writer.end(at);
  }
  writer.uint(5, transaction.index);
}

function writeTransaction(transaction: NormalTransaction, keys: KeyTable, keyBytes: Uint8Array): void {
  const { header, config } = transaction;
  for (const signature of transaction.signatures) writer.raw(1, signature);
  const message = writer.begin(2);
  const head = writer.begin(1);
  writer.uint(1, header.numRequiredSignatures);
  writer.uint(2, header.numReadonlySignedAccounts);
  writer.uint(3, header.numReadonlyUnsignedAccounts);
  writer.end(head);
  writeKeys(writer, 2, transaction.keys, [0, transaction.staticKeyCount], keyBytes);
  writer.raw(3, transaction.recentBlockhash);
  for (const instruction of transaction.instructions) {
    const start = writer.begin(4);
    writeInstruction(writer, instruction);
    writer.end(start);
  }
  writer.bool(5, transaction.version !== 'legacy');
  for (const lookup of transaction.addressTableLookups) {
    const start = writer.begin(6);
    writer.raw(1, keys.bytes(lookup.tableKey));
    if (lookup.writableIndexes.length > 0) writer.raw(2, lookup.writableIndexes);
    if (lookup.readonlyIndexes.length > 0) writer.raw(3, lookup.readonlyIndexes);
    writer.end(start);
  }
  if (config !== null) {
    const start = writer.begin(7);
    const values = [config.priorityFee, config.computeUnitLimit, config.loadedAccountsDataSizeLimit, config.heapSize];
    values.forEach((value, at) => {
      if (value !== null) writer.always(at + 1, value);
    });
    writer.end(start);
  }
  writer.end(message);
}

// ------------------------------------------------------------------------------------------------------- other updates

function encodeCreatedAt(ms: number): Buffer {
  const start = writer.begin(UPDATE.createdAt);
  writer.uint(1, Math.floor(ms / 1_000));
  writer.uint(2, (ms % 1_000) * 1_000_000);
  writer.end(start);
  return writer.take();
}

export interface SlotChange {
  readonly slot: number;
  readonly parent: number | null;
  readonly blockhash: string;
  readonly status: number;
  readonly deadError?: string;
}

export function encodeSlot({ slot, parent, blockhash, status, deadError }: SlotChange, createdAtMs: number): Buffer {
  const createdAt = encodeCreatedAt(createdAtMs);
  const start = writer.begin(UPDATE.slot);
  writer.uint(1, slot);
  if (parent !== null) writer.always(2, parent);
  writer.uint(3, status);
  if (deadError !== undefined) writer.element(4, deadError);
  writer.uint(5, bankIdOf(blockhash));
  writer.end(start);
  return Buffer.concat([writer.take(), createdAt]);
}

export function encodePing(createdAtMs: number): Buffer {
  const createdAt = encodeCreatedAt(createdAtMs);
  writer.raw(UPDATE.ping, Buffer.alloc(0));
  return Buffer.concat([writer.take(), createdAt]);
}

export function encodePong(id: number, createdAtMs: number): Buffer {
  const createdAt = encodeCreatedAt(createdAtMs);
  const start = writer.begin(UPDATE.pong);
  writer.uint(1, id);
  writer.end(start);
  return Buffer.concat([writer.take(), createdAt]);
}

/** `filters`, the first member of an update: the labels of the filters that matched. */
export function encodeLabels(labels: readonly string[]): Buffer {
  for (const label of labels) writer.element(1, label);
  return writer.take();
}

// ------------------------------------------------------------------------------------------------------ unary answers

/** A message of members of numbers and texts, in the order of their fields, beginning with 1; null leaves one out. */
export function encodeAnswer(values: readonly (number | boolean | string | null)[]): Buffer {
  values.forEach((value, at) => {
    if (typeof value === 'number') writer.uint(at + 1, value);
    else if (typeof value === 'boolean') writer.bool(at + 1, value);
    else if (value !== null) writer.text(at + 1, value);
  });
  return writer.take();
}
