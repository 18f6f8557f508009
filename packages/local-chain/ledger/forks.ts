import { Message, MessageV0, PublicKey } from '@solana/web3.js';
import { decode } from '../../../src/lib/base58.ts';
import { CodedError, messageOf } from '../../../src/lib/coded-error.ts';
import { wireFromJson } from '../../../src/solana/decode/wire-bytes.ts';
import { memoOfWire } from '../../../src/solana/show-transaction.ts';
import { decodeSentTransaction } from '../vm/transaction.ts';
import { type Bank, land, moveTo, newPending, type OldBranch, openSlot, refreshClock, run, seal } from './bank.ts';
import {
  type ForkReport,
  type ForkRequest,
  type JsonTransaction,
  type LedgerBlock,
  type RecordedTransaction,
  stateOfBlocks,
  type TransactionMeta,
  type TransactionRecord,
  type UnplacedRecord,
} from './state.ts';

const MAX_FILL_BLOCKS = 64;
const MAX_STEPS = 10_000;

/** Drops the newest blocks with all their effects and builds another branch from their parent. */
export function fork(bank: Bank, request: ForkRequest): ForkReport {
  const { depth, extraBlocks = 1, gap = 0, servesOld = 0 } = request;
  for (const [name, value] of [
    ['extraBlocks', extraBlocks],
    ['gap', gap],
    ['servesOld', servesOld],
  ] as const) {
    if (!Number.isInteger(value) || value < 0 || value > MAX_STEPS) {
      throw new CodedError('LOCAL_FORK_DEPTH', `${name} must be an integer from 0 to ${MAX_STEPS}`);
    }
  }
  if (bank.pending.records.length > 0) seal(bank);
  const limit = maxForkDepth(bank);
  if (bank.options.consensus === 'alpenglow')
    throw new CodedError('LOCAL_FORK_DEPTH', 'Alpenglow finalizes each block at once: only a chain on TowerBFT forks');
  if (!Number.isInteger(depth) || depth < 1 || depth > limit) {
    throw new CodedError('LOCAL_FORK_DEPTH', `a fork of ${depth} blocks is beyond finalized (at most ${limit})`);
  }
  const oldTip = bank.state.tip();
  bank.old = servesOld === 0 ? null : keepBranch(bank, servesOld);
  const dropped = rollBack(bank, depth);
  const ancestor = bank.state.tip();
  bank.branch += 1;
  for (const listener of bank.listeners) listener.rolledBack?.(ancestor);
  openSlot(bank, ancestor.slot + 1 + gap);
  const plan = planReplay(dropped, request.replay ?? 'all', depth + extraBlocks);
  const added = plan.map((records) => {
    for (const record of records) replay(bank, record);
    return seal(bank);
  });
  // A chain's slots do not go back for long: the new branch ends above the old one.
  if (oldTip.slot - bank.pending.slot > MAX_FILL_BLOCKS) moveTo(bank, oldTip.slot);
  while (bank.state.tip().slot <= oldTip.slot) added.push(seal(bank));
  return reportOf(bank, ancestor, dropped, added);
}

/** Number of newest blocks that a fork can drop: those above the finalized one. 0: the chain does not fork. */
export function maxForkDepth({ options, state }: Bank): number {
  if (options.consensus === 'alpenglow') return 0;
  return Math.max(0, Math.min(options.finalityDepth, state.blocks().length) - 1);
}

/** Removes `depth` blocks, newest first, and restores every account. Returns them oldest first. */
function rollBack(bank: Bank, depth: number): LedgerBlock[] {
  restore(bank, bank.pending);
  const dropped: LedgerBlock[] = [];
  for (let index = 0; index < depth; index += 1) {
    const block = bank.state.dropNewest();
    restore(bank, block);
    dropped.unshift(block);
  }
  return dropped;
}

function restore(bank: Bank, block: Pick<LedgerBlock, 'preImages'>): void {
  for (const [key, image] of block.preImages) bank.accounts.set(key, image.state);
}

/** Assigns records to new blocks, one block later than before, so that every record changes its slot. */
function planReplay(
  dropped: readonly LedgerBlock[],
  replayed: NonNullable<ForkRequest['replay']>,
  count: number,
): TransactionRecord[][] {
  const plan = Array.from({ length: Math.max(1, count) }, (): TransactionRecord[] => []);
  if (replayed === 'none') return plan;
  const kept = (record: TransactionRecord) => !Array.isArray(replayed) || replayed.includes(record.signature);
  const lists = dropped.map((block) => block.records.filter(kept));
  const ordered = replayed === 'reverse' ? lists.toReversed().map((list) => list.toReversed()) : lists;
  ordered.forEach((list, index) => {
    plan[Math.min(index + 1, plan.length - 1)]!.push(...list);
  });
  return plan;
}

function replay(bank: Bank, record: TransactionRecord): void {
  if (record.recorded) land(bank, { ...record, slot: bank.pending.slot }, []);
  else run(bank, record.transaction);
}

function reportOf(
  bank: Bank,
  ancestor: LedgerBlock,
  dropped: readonly LedgerBlock[],
  added: readonly LedgerBlock[],
): ForkReport {
  const before = dropped.flatMap((block) => block.records);
  const after = (record: TransactionRecord) => bank.state.record(record.signature);
  return {
    commonAncestor: ancestor.slot,
    dropped: dropped.map(summary),
    added: added.map(summary),
    lost: before.filter((record) => after(record) === undefined).map((record) => record.signature),
    moved: before.flatMap((record) => {
      const to = after(record)?.slot;
      return to === undefined || to === record.slot ? [] : [{ signature: record.signature, from: record.slot, to }];
    }),
  };
}

function summary(block: LedgerBlock) {
  return {
    slot: block.slot,
    blockhash: block.blockhash,
    signatures: block.records.map((record) => record.signature),
  };
}

/** A snapshot of the current blocks and transactions, without accounts. */
function keepBranch(bank: Bank, times: number): OldBranch {
  const state = stateOfBlocks(bank.state.blocks(), bank.options);
  const pending = newPending(bank.pending.slot, bank.pending.time);
  return { bank: { ...bank, state, pending, listeners: new Set() }, times, served: new Map() };
}

/** The bank for this call: the old one until it has answered the method often enough. */
export function bankFor(bank: Bank, method: string): Bank {
  const { old } = bank;
  if (old === null) return bank;
  const count = (old.served.get(method) ?? 0) + 1;
  old.served.set(method, count);
  return count <= old.times ? old.bank : bank;
}

/** Adds a recorded transaction to the open slot without running it; its meta is served unchanged. */
export function appendRecorded(bank: Bank, recorded: RecordedTransaction): TransactionRecord {
  const transaction = decodeSentTransaction(wireOf(recorded.transaction));
  const meta = recorded.meta as TransactionMeta | null;
  if (typeof meta !== 'object' || meta === null) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', 'a recorded transaction needs its meta');
  }
  const signature = transaction.signatures[0]!;
  if (bank.state.record(signature) !== undefined) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', `transaction ${signature} is already in the ledger`);
  }
  const loaded = meta.loadedAddresses ?? { writable: [], readonly: [] };
  const keys = [...transaction.staticKeys, ...loaded.writable, ...loaded.readonly];
  refreshClock(bank);
  const record: UnplacedRecord = {
    signature,
    slot: bank.pending.slot,
    transaction,
    keys,
    meta,
    memo: memoOfWire(transaction, keys),
    recorded: true,
  };
  bank.fixtures += 1;
  return land(bank, record, []);
}

/** Wire bytes of a recorded transaction in any form of `getTransaction` except parsed ones. */
function wireOf(recorded: RecordedTransaction['transaction']): Uint8Array {
  if (typeof recorded === 'string') return Buffer.from(recorded, 'base64');
  try {
    if (!('message' in recorded)) return Buffer.from(recorded[0], recorded[1] as 'base64');
    if (recorded.message.transactionConfig !== undefined) return version1Wire(recorded);
    return Buffer.concat([
      Uint8Array.from([recorded.signatures.length]),
      ...recorded.signatures.map((signature) => decode(signature)!),
      messageBytes(recorded.message),
    ]);
  } catch (error) {
    throw new CodedError('LOCAL_BAD_TRANSACTION', `not a recorded transaction: ${messageOf(error)}`, { cause: error });
  }
}

function version1Wire(recorded: JsonTransaction): Uint8Array {
  const made = wireFromJson(recorded, 1);
  if (typeof made === 'string') throw new Error(made);
  return made.bytes;
}

function messageBytes(message: JsonTransaction['message']): Uint8Array {
  const { header, accountKeys, recentBlockhash, instructions, addressTableLookups } = message;
  if (addressTableLookups === undefined) {
    const plain = instructions.map(({ programIdIndex, accounts, data }) => ({
      programIdIndex,
      accounts: [...accounts],
      data,
    }));
    return new Message({ header, accountKeys: [...accountKeys], recentBlockhash, instructions: plain }).serialize();
  }
  return new MessageV0({
    header,
    staticAccountKeys: accountKeys.map((key) => new PublicKey(key)),
    recentBlockhash,
    compiledInstructions: instructions.map(({ programIdIndex, accounts, data }) => ({
      programIdIndex,
      accountKeyIndexes: [...accounts],
      data: decode(data)!,
    })),
    addressTableLookups: addressTableLookups.map(({ accountKey, writableIndexes, readonlyIndexes }) => ({
      accountKey: new PublicKey(accountKey),
      writableIndexes: [...writableIndexes],
      readonlyIndexes: [...readonlyIndexes],
    })),
  }).serialize();
}
