import { decode32 } from '../../../src/lib/base58.ts';
import { messageOf as reasonOf } from '../../../src/lib/coded-error.ts';
import { walkWire } from '../../../src/solana/decode/walk-wire.ts';
import { emptyLayout } from '../../../src/solana/decode/wire-layout.ts';
import { errorText } from '../../../src/solana/error-words.ts';
import { parseInner } from '../../../src/solana/json-parsed/instruction.ts';
import { base64, exact } from '../../../src/solana/json-parsed/layout.ts';
import { isStaticWritable } from '../../../src/solana/show-transaction.ts';
import { accountFormatOf, accountJson } from '../encode/account.ts';
import {
  airdropConfig,
  atMost,
  base58Bytes,
  base64Bytes,
  contextConfig,
  encodedSimulateConfig,
  invalidParams,
  list,
  pubkey,
  RPC,
  rpcError,
  sendConfig,
  simulateConfig,
  text,
  u64,
  type WireEncoding,
} from '../encode/params.ts';
import { tokenStateOf } from '../ledger/accounts.ts';
import { isFresh, refreshClock } from '../ledger/bank.ts';
import {
  type BalanceSheet,
  feeOf,
  hasActiveEntries,
  innerJson,
  isSanitizeError,
  loadedBytes,
  nodeError,
  paidUnitPrice,
  type ResolvedKeys,
  readBalances,
  resolveKeys,
  tokenBalances,
} from '../ledger/record.ts';
import type { LedgerBlock, TransactionRecord } from '../ledger/state.ts';
import { type ChainTransaction, decodeMessage, decodeSentTransaction } from '../vm/transaction.ts';
import type { TransactionError, VmAccount, VmOutcome, VmSimulation } from '../vm/vm.ts';
import { type BankView, changedIn, inContext, type LocalNode, type Methods, method, sendingBank } from './method.ts';
import { parseContext } from './methods-accounts.ts';

const HASH_LIFE_BLOCKS = 150;
const MAX_AIRDROP_LAMPORTS = 100_000_000_000_000;
const FEE_HISTORY_BLOCKS = 150;

export const sendMethods: Methods = {
  getLatestBlockhash: method([], [contextConfig], (node, config) => {
    const { slot, block } = sendingBank(node, config);
    return inContext(slot, blockhashOf(block));
  }),
  isBlockhashValid: method([text], [contextConfig], (node, value, config) => {
    const hash = pubkey(value, '');
    const { slot, block } = sendingBank(node, config);
    return inContext(slot, node.bank.state.isRecentHash(hash, block));
  }),
  getFeeForMessage: method([text], [contextConfig], (node, value, config) => {
    const bytes = messageBytes(value);
    const { slot, block, accounts } = sendingBank(node, config);
    const message = decodeMessage(bytes);
    if (message === null) throw invalidParams('invalid transaction message: index out of bounds');
    if (message.lookups.some((lookup) => accounts.get(lookup.accountKey) === null)) {
      throw invalidParams(
        'invalid transaction message: Attempted to lookup addresses from a table that does not exist',
      );
    }
    const transaction = { ...message, bytes, signatures: [] };
    return inContext(slot, isFresh(node.bank, transaction, block, accounts.get) ? feeOf(message) : null);
  }),
  sendTransaction: method([text], [sendConfig], (node, value, config) => {
    const transaction = transactionOf(value, config?.encoding);
    const skip = config?.skipPreflight === true;
    const bank = sendingBank(node, {
      commitment: skip ? 'processed' : config?.preflightCommitment,
      minContextSlot: config?.minContextSlot,
    });
    const preflight = simulate(node, bank, transaction, { verifySignatures: !skip, anyHash: skip });
    if (!skip && preflight.outcome.err !== null) throw preflightFailure(preflight);
    // The caller finds out the result by the signature.
    node.submit(transaction);
    return transaction.signatures[0];
  }),
  simulateTransaction: changedIn(
    '4.5',
    method([text], [simulateConfig], (node, value, config) => simulateTransaction(node, value, config, 'jsonParsed')),
    method([text], [encodedSimulateConfig], (node, value, config) => {
      const encoding = config?.innerInstructionsEncoding ?? 'jsonParsed';
      if (encoding === 'json' || encoding === 'jsonParsed') return simulateTransaction(node, value, config, encoding);
      throw invalidParams(
        `unsupported inner instructions encoding: ${encoding}. Supported encodings: json, jsonParsed`,
      );
    }),
  ),
  requestAirdrop: method([text, u64], [airdropConfig], (node, address, lamports, config) => {
    const key = pubkey(address);
    if (config?.recentBlockhash !== undefined) pubkey(config.recentBlockhash);
    if (lamports > MAX_AIRDROP_LAMPORTS) throw rpcError(RPC.internal, 'Internal error');
    return node.airdrop(key, BigInt(lamports));
  }),
  getRecentPrioritizationFees: method([], [list(text)], (node, addresses = []) => {
    const keys = atMost(addresses, 128).map((address) => pubkey(address));
    return node.bank.state
      .blocks()
      .slice(-FEE_HISTORY_BLOCKS)
      .flatMap(({ records, slot }) => {
        const prices = records.map(({ transaction }) => Number(paidUnitPrice(transaction)));
        if (prices.length === 0) return [];
        const lowest = (writers: (record: TransactionRecord) => boolean) =>
          Math.min(...prices.filter((_, index) => writers(records[index]!)));
        const ofKeys = keys.map((key) => lowest((record) => isWriterOf(record, key))).filter(Number.isFinite);
        return [
          {
            prioritizationFee: Math.max(
              lowest(() => true),
              ...ofKeys,
            ),
            slot,
          },
        ];
      });
  }),
};

function simulateTransaction(
  node: LocalNode,
  value: string,
  config: ReturnType<typeof simulateConfig> | undefined,
  innerEncoding: 'json' | 'jsonParsed',
) {
  const transaction = transactionOf(value, config?.encoding);
  const bank = sendingBank(node, config);
  const { sigVerify = false, replaceRecentBlockhash = false } = config ?? {};
  if (replaceRecentBlockhash && sigVerify) {
    throw invalidParams('sigVerify may not be used with replaceRecentBlockhash');
  }
  const options = { verifySignatures: sigVerify, anyHash: replaceRecentBlockhash };
  const run = replaceRecentBlockhash ? withBlockhash(transaction, bank.block.blockhash) : transaction;
  const simulation = simulate(node, bank, run, options);
  const { outcome, keys } = simulation;
  const inner = (groups: ReturnType<typeof innerJson>) =>
    innerEncoding === 'json' ? groups : parseInner(groups, keys.all);
  return inContext(bank.slot, {
    ...simulationJson(simulation),
    ...balancesJson(node, simulation),
    accounts: simulatedAccounts(node, bank, simulation, config?.accounts),
    innerInstructions: config?.innerInstructions === true ? inner(innerJson(outcome)) : null,
    loadedAddresses: keys.loaded,
    replacementBlockhash: replaceRecentBlockhash ? blockhashOf(bank.block) : null,
  });
}

/** Whether a transaction locks a key for writing. */
function isWriterOf({ keys, transaction, meta }: TransactionRecord, key: string): boolean {
  const index = keys.indexOf(key);
  if (index < 0) return false;
  const statics = transaction.staticKeys.length;
  if (index < statics) return isStaticWritable(transaction, index);
  return index < statics + meta.loadedAddresses.writable.length;
}

function blockhashOf(block: LedgerBlock) {
  return { blockhash: block.blockhash, lastValidBlockHeight: block.height + HASH_LIFE_BLOCKS };
}

/** A copy with another blockhash, which its signatures do not fit. */
function withBlockhash({ bytes }: ChainTransaction, blockhash: string): ChainTransaction {
  const layout = emptyLayout();
  walkWire({ bytes, at: 0, end: bytes.length }, layout);
  const changed = Uint8Array.from(bytes);
  changed.set(decode32(blockhash)!, layout.blockhashAt);
  return decodeSentTransaction(changed);
}

function preflightFailure(simulation: Simulation): Error {
  return rpcError(RPC.sendFailed, `Transaction simulation failed: ${errorText(simulation.outcome.err!)}`, {
    ...simulationJson(simulation),
    accounts: null,
    innerInstructions: null,
    loadedAddresses: null,
    postBalances: null,
    postTokenBalances: null,
    preBalances: null,
    preTokenBalances: null,
    replacementBlockhash: null,
  });
}

function simulationJson({ outcome, fee, loadedBytes }: Simulation) {
  return {
    err: outcome.err,
    fee,
    loadedAccountsDataSize: loadedBytes,
    logs: outcome.logs,
    returnData: returnDataJson(outcome),
    unitsConsumed: outcome.computeUnits,
  };
}

function returnDataJson({ returnData }: VmOutcome) {
  return returnData === null ? null : { programId: returnData.programId, data: [base64(returnData.data), 'base64'] };
}

function balancesJson(node: LocalNode, { balances }: Simulation) {
  const { accounts, pending } = node.bank;
  return {
    preBalances: balances?.before.lamports.map(exact) ?? null,
    postBalances: balances?.after.lamports.map(exact) ?? null,
    preTokenBalances: balances === null ? null : tokenBalances(balances.before.tokens, accounts, pending.time),
    postTokenBalances: balances === null ? null : tokenBalances(balances.after.tokens, accounts, pending.time),
  };
}

type AccountsConfig = NonNullable<ReturnType<typeof simulateConfig>['accounts']>;

function simulatedAccounts(
  node: LocalNode,
  { accounts: view }: BankView,
  simulation: Simulation,
  wanted: AccountsConfig | undefined,
): unknown {
  if (wanted === undefined) return null;
  const { addresses, encoding = 'base64' } = wanted;
  if (encoding === 'binary' || encoding === 'base58') throw invalidParams('base58 encoding not supported');
  const most = simulation.keys.all.length;
  if (addresses.length > most) throw invalidParams(`Too many accounts provided; max ${most}`);
  if (simulation.outcome.err !== null) return addresses.map(() => null);
  const format = accountFormatOf({ encoding });
  const account = (key: string) => simulation.accounts.get(key) ?? view.get(key);
  return addresses.map((address) => {
    const key = pubkey(address);
    return accountJson(account(key), format, { ...parseContext(node, view, key), account });
  });
}

/** The result of a run without effect. */
interface Simulation {
  readonly outcome: VmOutcome;
  readonly keys: ResolvedKeys;
  /** Accounts after the run; empty when it failed. */
  readonly accounts: ReadonlyMap<string, VmAccount>;
  /** Null when no fee would be charged. */
  readonly fee: number | null;
  readonly loadedBytes: number;
  /** Null when the transaction was not checked. */
  readonly balances: { readonly before: BalanceSheet; readonly after: BalanceSheet } | null;
}

/** Errors before anything is loaded or paid. */
const UNPAID = new Set([
  'AccountNotFound',
  'InsufficientFundsForFee',
  'InvalidAccountForFee',
  'InvalidRentPayingAccount',
]);

interface SimulationOptions {
  readonly verifySignatures: boolean;
  /** Accept any blockhash. */
  readonly anyHash: boolean;
}

/** Runs a transaction, also on the accounts of an older bank. Throws -32602 for one that no block may contain. */
function simulate(
  node: LocalNode,
  bank: BankView,
  transaction: ChainTransaction,
  { verifySignatures, anyHash }: SimulationOptions,
): Simulation {
  // Without a slot timer nobody could wait for the next slot.
  if (!node.sealsEach && !hasActiveEntries(transaction, bank.accounts.get, bank.slot))
    throw invalidTransaction(errorText('InvalidAddressLookupTableIndex'));
  const keys = resolveKeys(transaction, bank.accounts.get);
  refreshClock(node.bank);
  return withAccounts(node, bank, [...keys.all, ...transaction.lookups.map((lookup) => lookup.accountKey)], () => {
    const { accounts, vm } = node.bank;
    // The engine checks signatures first, so one run reports both.
    const run = vm.simulate(transaction, verifySignatures);
    const err = nodeError(run.err, transaction, keys.all, accounts.get);
    if (err !== null && isSanitizeError(err)) throw invalidTransaction(errorText(err));
    if (err === 'SignatureFailure') return refused(keys, err, null);
    const before = readBalances(accounts, keys, false);
    const early = earlyError(node, bank, transaction, anyHash);
    if (early !== null) return refused(keys, early, before);
    if (typeof err === 'string' && UNPAID.has(err)) return refused(keys, err, before);
    const fee = feeOf(transaction);
    const after = err === null ? sheetAfter(before, keys, run) : withoutFee(before, fee);
    return {
      outcome: { ...run, err },
      keys,
      accounts: err === null ? run.accounts : new Map(),
      fee,
      loadedBytes: loadedBytes(accounts, transaction, keys.all),
      balances: { before, after },
    };
  });
}

function earlyError(node: LocalNode, bank: BankView, transaction: ChainTransaction, anyHash: boolean) {
  if (anyHash) return null;
  if (!isFresh(node.bank, transaction, bank.block, bank.accounts.get)) return 'BlockhashNotFound';
  const landed = node.bank.state.record(transaction.signatures[0]!);
  return landed !== undefined && landed.slot <= bank.accounts.slot ? 'AlreadyProcessed' : null;
}

/** The engine knows only the newest state: older accounts are written to it for one run. */
function withAccounts<T>(node: LocalNode, bank: BankView, keys: readonly string[], run: () => T): T {
  const { accounts } = node.bank;
  const lent = new Map<string, VmAccount | null>();
  for (const key of keys) {
    const older = bank.accounts.older(key);
    if (older === undefined || lent.has(key)) continue;
    lent.set(key, accounts.get(key));
    accounts.set(key, older);
  }
  try {
    return run();
  } finally {
    for (const [key, state] of lent) accounts.set(key, state);
  }
}

function refused(keys: ResolvedKeys, err: TransactionError, sheet: BalanceSheet | null): Simulation {
  return {
    outcome: { err, logs: [], inner: [], computeUnits: 0, returnData: null },
    keys,
    accounts: new Map(),
    fee: null,
    loadedBytes: 0,
    balances: sheet === null ? null : { before: sheet, after: sheet },
  };
}

function sheetAfter(before: BalanceSheet, keys: ResolvedKeys, run: VmSimulation): BalanceSheet {
  const account = (index: number) => run.accounts.get(keys.all[index]!);
  return {
    lamports: before.lamports.map((lamports, index) => account(index)?.lamports ?? lamports),
    tokens: before.tokens.map((state, index) => {
      const changed = account(index);
      return changed === undefined ? state : tokenStateOf(changed);
    }),
  };
}

function withoutFee(before: BalanceSheet, fee: number): BalanceSheet {
  return {
    ...before,
    lamports: before.lamports.map((lamports, index) => (index === 0 ? lamports - BigInt(fee) : lamports)),
  };
}

const TRANSACTION = 'solana_transaction::versioned::VersionedTransaction';
const MESSAGE = 'solana_message::versions::VersionedMessage';
const LEGACY_BYTES = 1232;
const LARGEST_BYTES = 4096;
const BASE58_CHARACTERS = 1683;

/** Wire bytes of a transaction or message; errors in Agave's words. Throws -32602. */
function wireBytes(text: string, encoding: 'base58' | 'base64', what: string): Uint8Array {
  // Two characters show a version byte from 1 on: only such transactions may exceed a packet.
  const mayBeLarge = encoding === 'base64' && text.length >= 2 && text.slice(0, 2) >= 'gQ';
  const mostBytes = mayBeLarge ? LARGEST_BYTES : LEGACY_BYTES;
  const most = encoding === 'base58' ? BASE58_CHARACTERS : Math.ceil(mostBytes / 3) * 4;
  if (text.length > most) {
    throw invalidParams(
      `${encoding} encoded ${what} too large: ${text.length} bytes (max: encoded/raw ${most}/${mostBytes})`,
    );
  }
  const bytes = encoding === 'base58' ? base58Bytes(text) : base64Bytes(text);
  if (typeof bytes === 'string') throw invalidParams(`invalid ${encoding} encoding: ${bytes}`);
  if (bytes.length > mostBytes) {
    throw invalidParams(`decoded ${what} too large: ${bytes.length} bytes (max: ${mostBytes} bytes)`);
  }
  return bytes;
}

function transactionOf(text: string, encoding: WireEncoding = 'base58'): ChainTransaction {
  if (encoding === 'json' || encoding === 'jsonParsed') {
    throw invalidParams(`unsupported encoding: ${encoding}. Supported encodings: base58, base64`);
  }
  const bytes = wireBytes(text, encoding === 'base64' ? 'base64' : 'base58', TRANSACTION);
  const end = isLarge(bytes) ? bytes.length : walk(bytes, TRANSACTION, walkTransaction);
  try {
    return decodeSentTransaction(bytes.subarray(0, end));
  } catch (error) {
    if (isLarge(bytes)) throw invalidParams(`failed to deserialize ${TRANSACTION}: ${reasonOf(error)}`);
    throw invalidTransaction('Transaction failed to sanitize accounts offsets correctly');
  }
}

/** From version 1 on the version comes first and the signatures last, and the decoder reports the error. */
function isLarge(bytes: Uint8Array): boolean {
  return (bytes[0] ?? 0) > 0x80;
}

function invalidTransaction(reason: string): Error {
  return invalidParams(`invalid transaction: ${reason}`);
}

/** Bytes of one message. Trailing bytes are ignored, as by a node. */
function messageBytes(text: string): Uint8Array {
  const bytes = wireBytes(text, 'base64', MESSAGE);
  return isLarge(bytes) ? bytes : bytes.subarray(0, walk(bytes, MESSAGE, walkMessage));
}

/** Parses only to find where and how the bytes fail. Returns their end. */
function walk(bytes: Uint8Array, what: string, run: (reader: Reader) => void): number {
  const reader = new Reader(bytes);
  try {
    run(reader);
  } catch (error) {
    if (!(error instanceof WireFault)) throw error;
    throw invalidParams(`failed to deserialize ${what}: ${error.message}`);
  }
  return reader.at;
}

class WireFault extends Error {}

class Reader {
  at = 0;
  readonly #bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(count: number): number {
    if (this.at + count > this.#bytes.length) throw new WireFault(`Attempting to read ${count} bytes`);
    this.at += count;
    return this.at - count;
  }

  byte(): number {
    return this.#bytes[this.take(1)]!;
  }

  /** One to three bytes of seven bits each. */
  length(): number {
    let value = 0;
    for (let index = 0; index < 3; index += 1) {
      const byte = this.byte();
      if (index === 2 && byte > 3) break;
      value |= (byte & 0x7f) << (7 * index);
      if (byte < 0x80) return value;
    }
    throw new WireFault('Sequence length would overflow length encoding scheme: u16::MAX');
  }
}

function walkTransaction(reader: Reader): void {
  reader.take(64 * reader.length());
  walkMessage(reader);
}

function walkMessage(reader: Reader): void {
  const first = reader.byte();
  const version = first & 0x7f;
  const isLegacy = first < 0x80;
  if (!isLegacy && version !== 0) throw new WireFault(`Invalid tag encoding: ${version}`);
  reader.take(isLegacy ? 2 : 3);
  reader.take(32 * reader.length());
  reader.take(32);
  for (let left = reader.length(); left > 0; left -= 1) {
    reader.take(1);
    reader.take(reader.length());
    reader.take(reader.length());
  }
  for (let left = isLegacy ? 0 : reader.length(); left > 0; left -= 1) {
    reader.take(32);
    reader.take(reader.length());
    reader.take(reader.length());
  }
}
