import { type BlockDetails, blockJson, type TransactionEncoding, transactionJson } from '../encode/transaction.ts';
import type { LedgerBlock, TransactionRecord } from '../ledger/types.ts';
import { slotOf } from '../ledger/views.ts';
import type { LocalNode, Methods } from './node.ts';
import { inContext } from './node.ts';
import {
  asSignature,
  type Config,
  checkMinContextSlot,
  configAt,
  integerAt,
  keyAt,
  listAt,
  sealedCommitmentOf,
  signatureAt,
} from './params.ts';
import { invalidParams, RPC, rpcError } from './rpc-error.ts';

const MAX_RANGE_SLOTS = 500_000;
const ENCODINGS = new Set(['json', 'jsonParsed', 'base58', 'base64']);
const DETAILS = new Set(['full', 'accounts', 'signatures', 'none']);

export const blockMethods: Methods = {
  getFirstAvailableBlock: (node) => node.bank.state.firstAvailable(),
  minimumLedgerSlot: (node) => node.bank.state.firstAvailable(),
  getBlocks(node, params) {
    const start = integerAt(params, 0);
    const hasEnd = typeof params[1] === 'number';
    const config = configAt(params, hasEnd ? 2 : params[1] === null ? 2 : 1);
    const newest = newestSealed(node, config);
    const end = hasEnd ? Math.min(integerAt(params, 1), newest) : newest;
    if (end - start > MAX_RANGE_SLOTS) throw invalidParams(`Slot range too large; max ${MAX_RANGE_SLOTS}`);
    return slots(node, start, end);
  },
  getBlocksWithLimit(node, params) {
    const limit = integerAt(params, 1);
    if (limit > MAX_RANGE_SLOTS) throw invalidParams(`Limit too large; max ${MAX_RANGE_SLOTS}`);
    return slots(node, integerAt(params, 0), newestSealed(node, configAt(params, 2))).slice(0, limit);
  },
  getBlockTime: (node, params) => findBlock(node, integerAt(params, 0), slotOf(node.bank, 'confirmed')).time,
  getBlock(node, params) {
    const config = typeof params[1] === 'string' ? { encoding: params[1] } : configAt(params, 1);
    const block = findBlock(node, integerAt(params, 0), newestSealed(node, config));
    const details = (config['transactionDetails'] ?? 'full') as BlockDetails;
    if (!DETAILS.has(details)) throw invalidParams(`Invalid params: unknown variant \`${String(details)}\``);
    return blockJson(block, {
      encoding: encodingOf(config),
      details,
      maxVersion: maxVersionOf(config),
      rewards: config['rewards'] !== false,
    });
  },
  getTransaction(node, params) {
    const config = typeof params[1] === 'string' ? { encoding: params[1] } : configAt(params, 1);
    const newest = newestSealed(node, config);
    const record = node.bank.state.record(signatureAt(params, 0));
    const block = record === undefined ? undefined : node.bank.state.block(record.slot);
    if (record === undefined || block === undefined || record.slot > newest) return null;
    return {
      blockTime: block.time,
      ...transactionJson(record, encodingOf(config), maxVersionOf(config)),
      slot: record.slot,
    };
  },
  getSignatureStatuses(node, params) {
    const config = configAt(params, 1);
    const slot = slotOf(node.bank, 'processed');
    checkMinContextSlot(config, slot);
    const signatures = listAt(params, 0, 256).map(asSignature);
    return inContext(
      slot,
      signatures.map((signature) => statusOf(node, node.bank.state.record(signature))),
    );
  },
  getSignaturesForAddress,
};

function getSignaturesForAddress(node: LocalNode, params: readonly unknown[]): unknown {
  const config = configAt(params, 1);
  const newest = newestSealed(node, config);
  const limit = config['limit'] ?? 1000;
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > 1000) {
    throw invalidParams('Invalid limit; max 1000');
  }
  const records = node.bank.state.recordsOf(keyAt(params, 0));
  const before = optionalSignature(config['before']);
  const until = optionalSignature(config['until']);
  let from = records.length - 1;
  if (before !== null) {
    while (from >= 0 && records[from]!.signature !== before) from -= 1;
    from -= 1;
  }
  const found: unknown[] = [];
  for (let index = from; index >= 0 && found.length < (limit as number); index -= 1) {
    const record = records[index]!;
    if (record.signature === until) break;
    if (record.slot <= newest) found.push(signatureInfo(node, record));
  }
  return found;
}

function signatureInfo(node: LocalNode, record: TransactionRecord) {
  const { signature, slot, memo, meta } = record;
  return {
    signature,
    slot,
    err: meta.err,
    memo,
    blockTime: node.bank.state.block(slot)?.time ?? null,
    confirmationStatus: slot <= slotOf(node.bank, 'finalized') ? 'finalized' : 'confirmed',
  };
}

/** How far a transaction has got; confirmations are counted in blocks above its own. */
export function statusOf(node: LocalNode, record: TransactionRecord | undefined) {
  if (record === undefined || record.slot > slotOf(node.bank, 'processed')) return null;
  const { state } = node.bank;
  const { err, status } = record.meta;
  const block = state.block(record.slot);
  const shared = { slot: record.slot, err, status };
  if (block === undefined) return { ...shared, confirmations: 0, confirmationStatus: 'processed' };
  const finalized = record.slot <= slotOf(node.bank, 'finalized');
  return {
    ...shared,
    confirmations: finalized ? null : state.tip().height - block.height,
    confirmationStatus: finalized ? 'finalized' : 'confirmed',
  };
}

function findBlock(node: LocalNode, slot: number, newest: number): LedgerBlock {
  const { state } = node.bank;
  const first = state.firstAvailable();
  if (slot < first) {
    throw rpcError(
      RPC.blockCleanedUp,
      `Block ${slot} cleaned up, does not exist on node. First available block: ${first}`,
    );
  }
  if (slot > newest) throw rpcError(RPC.blockNotAvailable, `Block not available for slot ${slot}`);
  const block = state.block(slot);
  if (block === undefined) {
    throw rpcError(RPC.slotSkipped, `Slot ${slot} was skipped, or missing due to ledger jump to recent snapshot`);
  }
  return block;
}

function slots(node: LocalNode, start: number, end: number): number[] {
  return node.bank.state.blocks().flatMap((block) => (block.slot >= start && block.slot <= end ? [block.slot] : []));
}

function newestSealed(node: LocalNode, config: Config): number {
  const slot = slotOf(node.bank, sealedCommitmentOf(config));
  checkMinContextSlot(config, slot);
  return slot;
}

function optionalSignature(value: unknown): string | null {
  return value === undefined || value === null ? null : asSignature(value);
}

function encodingOf(config: Config): TransactionEncoding {
  const encoding = config['encoding'] ?? 'json';
  if (!ENCODINGS.has(encoding as string)) {
    throw invalidParams(`Invalid params: unknown variant \`${String(encoding).slice(0, 64)}\``);
  }
  return encoding as TransactionEncoding;
}

function maxVersionOf(config: Config): number | null {
  const version = config['maxSupportedTransactionVersion'];
  return typeof version === 'number' ? version : null;
}
