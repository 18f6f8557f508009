import { createHash } from 'node:crypto';
import { Keypair } from '@solana/web3.js';
import { decode, decode32, encode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { SYSTEM_PROGRAM, SYSVAR_OWNER } from '../../../src/solana/programs.ts';
import type { ChainTransaction, MessageParts } from '../vm/transaction.ts';
import { MAX_RENT_EPOCH, type TransactionError, type Vm, type VmAccount } from '../vm/vm.ts';

import { type Accounts, createVmAccounts, keyBytes, view } from './accounts.ts';
import {
  advanceNonce,
  feeOf,
  isLoadingError,
  isSanitizeError,
  makeRecord,
  nodeError,
  payFee,
  readBalances,
  resolveKeys,
} from './record.ts';
import type { LedgerBlock, LedgerListener, PreImages, TransactionRecord, UnplacedRecord } from './state.ts';
import { createChainState, type LocalChainState, stateOfBlocks } from './state.ts';

const SLOT_HASHES = 512;

/** Releases of Agave that change what a client sees, oldest first. */
export const RELEASES = ['4.2', '4.4', '4.5'] as const;
export type Release = (typeof RELEASES)[number];

export interface BankOptions {
  readonly vm: Vm;
  readonly time: ReturnType<typeof createChainTime>;
  readonly genesisHash: string;
  readonly firstSlot: number;
  readonly finalityDepth: number;
  readonly consensus: 'alpenglow' | 'towerbft';
  readonly release: Release;
  readonly maxBlocks: number;
}

/** Landed (also with an error), or refused without a trace. */
export type Submission =
  | { readonly landed: true; readonly record: TransactionRecord }
  | { readonly landed: false; readonly err: TransactionError };

/** The blocks of the old branch that are still served after a fork, a limited number of times per method. */
export interface OldBranch {
  readonly bank: Bank;
  readonly times: number;
  readonly served: Map<string, number>;
}

/** State shared by several files of the ledger. The last five fields are mutable. */
export interface Bank {
  readonly options: BankOptions;
  readonly vm: Vm;
  readonly accounts: Accounts;
  readonly state: LocalChainState;
  readonly listeners: Set<LedgerListener>;
  branch: number;
  pending: PendingBlock;
  fixtures: number;
  /** Responses are this many slots old: a lagging node (0 except during one call under a fault). */
  lagSlots: number;
  /** The old branch of the last fork, while it is still served. */
  old: OldBranch | null;
}

/** A chain of an earlier run: what `createBank` continues. */
export interface KeptChain {
  /** Never empty, oldest first. */
  readonly blocks: readonly LedgerBlock[];
  /** Every account that transactions or calls have changed; null: it is gone. */
  readonly accounts: ReadonlyMap<string, VmAccount | null>;
  /** Transactions that were pruned before the first block. */
  readonly earlierTransactions: number;
  readonly branch: number;
  readonly fixtures: number;
}

export function createBank(options: BankOptions, kept: KeptChain | null = null): Bank {
  if (kept !== null) return continueBank(options, kept);
  const { genesisHash, firstSlot, time, vm } = options;
  const genesis: LedgerBlock = {
    slot: firstSlot,
    parentSlot: firstSlot - 1,
    blockhash: blockhashOf(genesisHash, firstSlot, 0, []),
    previousBlockhash: genesisHash,
    height: 0,
    time: time.at(0),
    records: [],
    written: new Set(),
    preImages: new Map(),
  };
  const bank: Bank = {
    options,
    vm,
    accounts: createVmAccounts(vm),
    state: createChainState(genesis, options),
    listeners: new Set(),
    branch: 0,
    pending: newPending(firstSlot + 1, 0),
    fixtures: 0,
    lagSlots: 0,
    old: null,
  };
  openSlot(bank, firstSlot + 1);
  return bank;
}

/** The chain as it was, with an open slot above its newest block: slots in which it did not run do not exist. */
function continueBank(options: BankOptions, kept: KeptChain): Bank {
  const { vm, time } = options;
  const state = stateOfBlocks(kept.blocks, options, kept.earlierTransactions);
  const accounts = createVmAccounts(vm);
  // A program is loaded when its account is written, and may need another account for its code.
  const ordered = [...kept.accounts].sort(
    ([, a], [, b]) => Number(a?.executable ?? false) - Number(b?.executable ?? false),
  );
  for (const [key, account] of ordered) accounts.set(key, account);
  const tip = state.tip();
  time.moveTo(tip.time, tip.height + 1);
  const finalizedSlot = state.finalized().slot;
  for (const block of state.blocks()) {
    if (block.slot > finalizedSlot) break;
    block.preImages.clear();
    block.written.clear();
  }
  const { branch, fixtures } = kept;
  const pending = newPending(tip.slot + 1, 0);
  const bank: Bank = {
    options,
    vm,
    accounts,
    state,
    listeners: new Set(),
    branch,
    pending,
    fixtures,
    lagSlots: 0,
    old: null,
  };
  openSlot(bank, tip.slot + 1);
  return bank;
}

/** Opens `slot`: sets clock and slot hashes of the engine as programs see them in it. */
export function openSlot(bank: Bank, slot: number): void {
  const tip = bank.state.tip();
  bank.pending = newPending(slot, 0);
  refreshClock(bank);
  const newest = bank.state.blocks().slice(-SLOT_HASHES).toReversed();
  bank.vm.setSlotHashes(newest.map((block) => ({ slot: block.slot, hash: block.blockhash })));
  for (const listener of bank.listeners) listener.slotOpened?.(slot, tip.slot);
}

/** An empty slot has no time yet: its first transaction determines the time. */
export function refreshClock(bank: Bank): void {
  if (bank.pending.records.length > 0) return;
  const tip = bank.state.tip();
  bank.pending.time = Math.max(tip.time, bank.options.time.at(tip.height + 1));
  bank.vm.setClock(bank.pending.slot, bank.pending.time);
}

/** Checks a transaction like a cluster (recent blockhash or nonce, duplicate) and runs it in the open slot. */
export function submit(bank: Bank, transaction: ChainTransaction): Submission {
  // A node looks at the age first: a used nonce is too old, and not a duplicate.
  if (!isFresh(bank, transaction)) return { landed: false, err: 'BlockhashNotFound' };
  if (bank.state.record(transaction.signatures[0]!) !== undefined) return { landed: false, err: 'AlreadyProcessed' };
  return run(bank, transaction);
}

/** Whether the blockhash, or the nonce in its place, is still valid on top of `block` with its accounts. */
export function isFresh(
  bank: Bank,
  transaction: ChainTransaction,
  block: LedgerBlock = bank.state.tip(),
  account: (key: string) => VmAccount | null = bank.accounts.get,
): boolean {
  return (
    bank.state.isRecentHash(transaction.recentBlockhash, block) ||
    nonceOf(transaction, account) === transaction.recentBlockhash
  );
}

/** Whether commitments differ: below the final state there is at least that of the open slot. */
const keepsStates = ({ options }: Bank): boolean => options.finalityDepth > 0 || options.consensus === 'alpenglow';

/** Runs a transaction in the open slot without checking its age: a fork runs dropped ones again. */
export function run(bank: Bank, transaction: ChainTransaction): Submission {
  refreshClock(bank);
  const { accounts, pending } = bank;
  const keys = resolveKeys(transaction, accounts.get);
  const written = keys.all.filter((_, index) => keys.writable[index]);
  const before = readBalances(accounts, keys, false);
  if (keepsStates(bank)) for (const key of written) keepState(bank, key);
  const states = new Map(written.map((key) => [key, accounts.get(key)]));
  const payer = states.get(transaction.staticKeys[0]!) ?? null;
  const usesNonce = !bank.state.isRecentHash(transaction.recentBlockhash);
  const executed = bank.vm.execute(transaction);
  const err = nodeError(executed.err, transaction, keys.all, accounts.get);
  const outcome = { ...executed, err };
  if (err !== null) {
    const refused = isLoadingError(err)
      ? !payFee(accounts, transaction)
      : typeof err === 'string' || isSanitizeError(err);
    if (refused || isRentBreakingPayer(bank, transaction, payer)) return { landed: false, err };
    const nonceKey = usesNonce ? nonceKeyOf(transaction) : null;
    if (nonceKey !== null) advanceNonce(accounts, nonceKey, bank.state.tip().blockhash);
  }
  const after = readBalances(accounts, keys, true);
  const input = { transaction, keys, slot: pending.slot, unixSeconds: pending.time, outcome, before, after };
  const changed = written.filter((key) => !isSameAccount(states.get(key) ?? null, accounts.get(key)));
  return { landed: true, record: land(bank, makeRecord(input, accounts), changed) };
}

/**
 * Whether the fee would leave the payer with lamports, but fewer than its rent minimum: a node then refuses to load the transaction
 * (Agave 4.2.1, `validate_fee_payer`). A payer that was below the minimum before may go on paying.
 */
function isRentBreakingPayer({ vm }: Bank, transaction: ChainTransaction, payer: VmAccount | null): boolean {
  if (payer === null) return false;
  const minimum = vm.rentExemptLamports(payer.data.length);
  const left = payer.lamports - BigInt(feeOf(transaction));
  return left > 0n && left < minimum && payer.lamports >= minimum;
}

function isSameAccount(left: VmAccount | null, right: VmAccount | null): boolean {
  if (left === null || right === null) return left === right;
  return (
    left.lamports === right.lamports &&
    left.owner === right.owner &&
    left.executable === right.executable &&
    Buffer.compare(left.data, right.data) === 0
  );
}

/** Sysvars have special setters, and the engine lets no transaction write a program: neither takes part in rollback. */
function keepState(bank: Bank, key: string): void {
  const { preImages } = bank.pending;
  if (preImages.has(key)) return;
  const state = bank.accounts.get(key);
  if (state === null || (!state.executable && state.owner !== SYSVAR_OWNER)) keepPreImage(preImages, key, () => state);
}

/** Puts a finished record into the open slot. */
export function land(bank: Bank, unplaced: UnplacedRecord, written: readonly string[]): TransactionRecord {
  const record = { ...unplaced, index: bank.pending.records.length };
  bank.pending.records.push(record);
  for (const key of written) bank.pending.written.add(key);
  bank.accounts.see(written);
  bank.state.addRecord(record);
  for (const listener of bank.listeners) listener.executed?.(record, written);
  return record;
}

/** Closes the open slot as a block and opens the next one. */
export function seal(bank: Bank): LedgerBlock {
  refreshClock(bank);
  const { pending, state } = bank;
  const tip = state.tip();
  const signatures = pending.records.map((record) => record.signature);
  const block: LedgerBlock = {
    slot: pending.slot,
    parentSlot: tip.slot,
    blockhash:
      bank.options.consensus === 'alpenglow' && signatures.length === 0
        ? hashOfEmpty(tip.blockhash)
        : blockhashOf(tip.blockhash, pending.slot, bank.branch, signatures),
    previousBlockhash: tip.blockhash,
    height: tip.height + 1,
    time: pending.time,
    records: pending.records,
    written: pending.written,
    preImages: pending.preImages,
  };
  const finalizedBefore = state.finalized();
  state.append(block);
  // Updated before listeners are called: they may read at every commitment.
  bank.pending = newPending(block.slot + 1, block.time);
  for (const listener of bank.listeners) listener.sealed?.(block);
  settle(bank, finalizedBefore);
  openSlot(bank, block.slot + 1);
  return block;
}

function settle(bank: Bank, before: LedgerBlock): void {
  const finalized = bank.state.finalized();
  if (finalized === before) return;
  for (const listener of bank.listeners) listener.finalized?.(finalized);
  finalized.preImages.clear();
  finalized.written.clear();
}

/** Skips `count` slots. */
export function advanceSlots(bank: Bank, count: number): void {
  if (bank.pending.records.length > 0) seal(bank);
  moveTo(bank, bank.pending.slot + count);
}

/** Moves the open slot, including accounts that were set in it. */
export function moveTo(bank: Bank, slot: number): void {
  const { preImages, written } = bank.pending;
  openSlot(bank, slot);
  Object.assign(bank.pending, { preImages, written });
}

/** Sets an account without a transaction. Takes part in rollback; readers of every commitment see it at once. */
function setAccount(bank: Bank, key: string, account: Omit<VmAccount, 'owner'> | null): void {
  overwrite(bank, key, () => bank.accounts.set(key, account));
}

export function deploy(bank: Bank, programId: string, bytes: Uint8Array): void {
  overwrite(bank, programId, () => {
    try {
      bank.vm.deploy(keyBytes(programId), bytes);
    } catch (error) {
      throw new CodedError('LOCAL_BAD_PROGRAM', `the engine refused the program ${programId}`, { cause: error });
    }
    bank.accounts.forget(programId);
  });
}

function overwrite(bank: Bank, key: string, write: () => void): void {
  const before = bank.accounts.get(key);
  write();
  if (keepsStates(bank)) {
    keepPreImage(bank.pending.preImages, key, () => before);
    const finalized = bank.state.finalized().slot;
    for (const block of [...unfinalized(bank, finalized), bank.pending]) markOverwritten(block.preImages, key);
  }
  bank.fixtures += 1;
  for (const listener of bank.listeners) listener.accountSet?.(key);
}

function unfinalized(bank: Bank, finalizedSlot: number): LedgerBlock[] {
  return bank.state
    .blocks()
    .slice(-bank.options.finalityDepth)
    .filter((block) => block.slot > finalizedSlot);
}

/** The slot under construction. */
export interface PendingBlock {
  slot: number;
  time: number;
  records: TransactionRecord[];
  written: Set<string>;
  preImages: PreImages;
}

export function newPending(slot: number, time: number): PendingBlock {
  return { slot, time, records: [], written: new Set(), preImages: new Map() };
}

/** Records the state of an account before the block's first write to it. */
function keepPreImage(images: PreImages, key: string, read: () => VmAccount | null): void {
  if (!images.has(key)) images.set(key, { state: read(), overwritten: false });
}

/** Marks a key as set directly: blocks keep what rollback needs, but readers of older states see the newest state. */
function markOverwritten(images: PreImages, key: string): void {
  const image = images.get(key);
  if (image !== undefined) images.set(key, { ...image, overwritten: true });
}

/** The oldest recorded state of a key in `blocks` (ascending); undefined when none wrote it. */
export function imageIn(blocks: readonly Pick<LedgerBlock, 'preImages'>[], key: string): VmAccount | null | undefined {
  for (const block of blocks) {
    const image = block.preImages.get(key);
    if (image !== undefined) return image.overwritten ? undefined : image.state;
  }
  return undefined;
}

export const NONCE_BYTES = 80;
const ADVANCE_NONCE = 4;

/** The nonce account that the first instruction of a transaction advances; null without one. */
function nonceKeyOf(message: MessageParts): string | null {
  const first = message.instructions[0];
  if (first === undefined || message.staticKeys[first.programIdIndex] !== SYSTEM_PROGRAM) return null;
  if (first.data.length < 4 || view(first.data).getUint32(0, true) !== ADVANCE_NONCE) return null;
  return message.staticKeys[first.accounts[0] ?? -1] ?? null;
}

/** The nonce stored in that account. */
function nonceOf(message: MessageParts, account: (key: string) => VmAccount | null): string | null {
  const key = nonceKeyOf(message);
  const stored = key === null ? null : account(key);
  if (stored === null || stored.owner !== SYSTEM_PROGRAM || stored.data.length !== NONCE_BYTES) return null;
  return encode32(stored.data, 40);
}

/** A publicly known key pair: its lamports are worthless by design. */
export function faucetKeypair(): Keypair {
  return Keypair.fromSeed(createHash('sha256').update('parhelion local faucet').digest());
}

/** An empty block of Alpenglow is named by its parent alone (Agave 4.3 and later). */
const hashOfEmpty = (previous: string): string => encode32(createHash('sha256').update(decode32(previous)!).digest());

/**
 * SHA-256(previous hash ‖ slot u64 LE ‖ branch u32 LE ‖ first signatures in order). The branch number prevents two branches
 * from sharing a hash.
 */
function blockhashOf(previous: string, slot: number, branch: number, signatures: readonly string[]): string {
  const head = Buffer.alloc(12);
  head.writeBigUInt64LE(BigInt(slot), 0);
  head.writeUInt32LE(branch, 8);
  const hash = createHash('sha256').update(decode32(previous)!).update(head);
  for (const signature of signatures) hash.update(decode(signature)!);
  return encode32(hash.digest());
}

/** Source of block times, in unix seconds. */
export type TimeSource =
  | { readonly kind: 'wall' }
  | { readonly kind: 'virtual'; readonly genesisTime?: number; readonly slotSeconds?: number };

const DEFAULT_GENESIS_TIME = 1_700_000_000;
const DEFAULT_SLOT_SECONDS = 0.4;

/** Block time by height. `moveTo` only moves time forward, including all later blocks. */
export function createChainTime(source: TimeSource, nowMs: () => number) {
  let offsetSeconds = 0;
  const base = (height: number): number =>
    source.kind === 'wall'
      ? nowMs() / 1000
      : (source.genesisTime ?? DEFAULT_GENESIS_TIME) + height * (source.slotSeconds ?? DEFAULT_SLOT_SECONDS);
  const at = (height: number): number => Math.floor(base(height) + offsetSeconds);
  return {
    at,
    moveTo(unixSeconds: number, height: number): void {
      offsetSeconds += Math.max(0, unixSeconds - at(height));
    },
  };
}

/** An account as given by callers. */
export interface AccountInput {
  readonly lamports: number | bigint;
  readonly data: Uint8Array;
  /** base58 */
  readonly owner: string;
  readonly executable?: boolean;
}

/** Sets an account at once; null removes it. */
export function setAccountInput(bank: Bank, address: string, account: AccountInput | null): void {
  if (account === null) {
    setAccount(bank, address, null);
    return;
  }
  const { lamports, data, owner, executable = false } = account;
  const ownerBytes = keyBytes(owner);
  setAccount(bank, address, { lamports: BigInt(lamports), data, ownerBytes, executable, rentEpoch: MAX_RENT_EPOCH });
}
