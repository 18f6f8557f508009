import {
  showAccounts,
  showTransaction,
  type TransactionEncoding,
  UnsupportedVersion,
} from '../../solana/show-transaction.ts';
import {
  atMost,
  blockConfigOrEncoding,
  type ContextConfig,
  contextConfig,
  endSlotOrConfig,
  invalidParams,
  list,
  pubkey,
  RPC,
  rpcError,
  sealedOnly,
  signature,
  signaturesConfig,
  small,
  statusConfig,
  text,
  transactionConfigOrEncoding,
  type Unsigned,
  u64,
  usize,
  type WireEncoding,
} from '../encode/params.ts';
import type { LedgerBlock, TransactionRecord } from '../ledger/state.ts';
import { contextSlot, inContext, type LocalNode, type Methods, method, slotOf } from './method.ts';

const MAX_RANGE_SLOTS = 500_000;
const MAX_SIGNATURES = 1000;
/** Blocks whose transactions a node caches; it searches its history for older ones only on request. */
const STATUS_BLOCKS = 300;

export const blockMethods: Methods = {
  getFirstAvailableBlock: method([], [], (node) => node.bank.state.firstAvailable()),
  minimumLedgerSlot: method([], [], (node) => node.bank.state.firstAvailable()),
  getBlocks: method([u64], [endSlotOrConfig, contextConfig], (node, start, endOrConfig, config) => {
    const isConfig = typeof endOrConfig === 'object';
    const newest = newestSealed(node, config ?? (isConfig ? endOrConfig : undefined));
    const end = endOrConfig === undefined || isConfig || endOrConfig > newest ? newest : small(endOrConfig);
    if (start < end && end - small(start) > MAX_RANGE_SLOTS) {
      throw invalidParams(`Slot range too large; max ${MAX_RANGE_SLOTS}`);
    }
    return slots(node, small(start), end);
  }),
  getBlocksWithLimit: method([u64, usize], [contextConfig], (node, start, limit, config) => {
    if (limit > MAX_RANGE_SLOTS) throw invalidParams(`Limit too large; max ${MAX_RANGE_SLOTS}`);
    return slots(node, small(start), newestSealed(node, config)).slice(0, small(limit));
  }),
  getBlockTime: method([u64], [], (node, slot) => findBlock(node, slot, slotOf(node.bank, 'confirmed')).time),
  getBlock: method([u64], [blockConfigOrEncoding], (node, slot, config) => {
    const block = findBlock(node, slot, newestSealed(node, config));
    return blockJson(block, {
      encoding: encodingOf(config?.encoding),
      details: config?.transactionDetails ?? 'full',
      maxVersion: config?.maxSupportedTransactionVersion ?? null,
      rewards: config?.rewards ?? true,
    });
  }),
  getTransaction: method([text], [transactionConfigOrEncoding], (node, id, config) => {
    const wanted = signature(id);
    const newest = newestSealed(node, config);
    const record = node.bank.state.record(wanted);
    const block = record === undefined ? undefined : node.bank.state.block(record.slot);
    if (record === undefined || block === undefined || record.slot > newest) return null;
    const maxVersion = config?.maxSupportedTransactionVersion ?? null;
    const { meta, transaction, ...version } = known(() =>
      showTransaction(record, encodingOf(config?.encoding), maxVersion),
    );
    return {
      ...{ blockTime: block.time, meta, slot: record.slot, transaction, transactionIndex: record.index, ...version },
    };
  }),
  getSignatureStatuses: method([list(text)], [statusConfig], (node, ids, config) => {
    const signatures = atMost(ids, 256).map(signature);
    const oldest = node.bank.state.tip().height - STATUS_BLOCKS;
    return inContext(
      slotOf(node.bank, 'processed'),
      signatures.map((id) => {
        const record = node.bank.state.record(id);
        const block = record === undefined ? undefined : node.bank.state.block(record.slot);
        const atHand = block === undefined || block.height >= oldest || config?.searchTransactionHistory === true;
        return atHand ? statusOf(node, record) : null;
      }),
    );
  }),
  getSignaturesForAddress: method([text], [signaturesConfig], (node, address, config) => {
    const key = pubkey(address);
    const before = config?.before === undefined ? null : signature(config.before);
    const until = config?.until === undefined ? null : signature(config.until);
    const limit = config?.limit ?? MAX_SIGNATURES;
    if (limit < 1 || limit > MAX_SIGNATURES) throw invalidParams(`Invalid limit; max ${MAX_SIGNATURES}`);
    const newest = newestSealed(node, config);
    for (const id of [before, until]) {
      if (id !== null && node.bank.state.record(id) === undefined) {
        throw rpcError(RPC.filterTransactionNotFound, `Transaction ${id} not found`);
      }
    }
    return signaturesOf(node, node.bank.state.recordsOf(key), { before, until, limit: small(limit), newest });
  }),
};

interface SignatureRange {
  readonly before: string | null;
  readonly until: string | null;
  readonly limit: number;
  readonly newest: number;
}

function signaturesOf(node: LocalNode, records: readonly TransactionRecord[], range: SignatureRange) {
  const { before, until, limit, newest } = range;
  let from = records.length - 1;
  if (before !== null) {
    while (from >= 0 && records[from]!.signature !== before) from -= 1;
    from -= 1;
  }
  const found: unknown[] = [];
  for (let index = from; index >= 0 && found.length < limit; index -= 1) {
    const record = records[index]!;
    if (record.signature === until) break;
    if (record.slot <= newest) found.push(signatureInfo(node, record));
  }
  return found;
}

function signatureInfo(node: LocalNode, record: TransactionRecord) {
  const { signature, slot, memo, meta } = record;
  return {
    blockTime: node.bank.state.block(slot)?.time ?? null,
    confirmationStatus: slot <= slotOf(node.bank, 'finalized') ? 'finalized' : 'confirmed',
    err: meta.err,
    memo,
    signature,
    slot,
    transactionIndex: record.index,
  };
}

/** Confirmation state of a transaction; confirmations are counted in blocks above its own. */
export function statusOf(node: LocalNode, record: TransactionRecord | undefined) {
  if (record === undefined || record.slot > slotOf(node.bank, 'processed')) return null;
  const { state } = node.bank;
  const { err, status } = record.meta;
  const block = state.block(record.slot);
  const { slot } = record;
  if (block === undefined) return { confirmationStatus: 'processed', confirmations: 0, err, slot, status };
  const finalized = slot <= slotOf(node.bank, 'finalized');
  const confirmations = finalized ? null : state.tip().height - block.height;
  return { confirmationStatus: finalized ? 'finalized' : 'confirmed', confirmations, err, slot, status };
}

interface BlockOptions {
  readonly encoding: TransactionEncoding;
  readonly details: 'full' | 'accounts' | 'signatures' | 'none';
  /** Newest message version that the client accepts; null = none given. */
  readonly maxVersion: number | null;
  readonly rewards: boolean;
}

/** A block as in `getBlock`. Throws -32015 for a versioned transaction that the client does not accept. */
function blockJson(block: LedgerBlock, { encoding, details, maxVersion, rewards }: BlockOptions) {
  const { records } = block;
  return {
    blockHeight: block.height,
    blockTime: block.time,
    blockhash: block.blockhash,
    parentSlot: block.parentSlot,
    previousBlockhash: block.previousBlockhash,
    ...(rewards ? { rewards: [] } : {}),
    ...(details === 'signatures' ? { signatures: records.map(({ signature }) => signature) } : {}),
    ...(details === 'full'
      ? { transactions: records.map((record) => known(() => showTransaction(record, encoding, maxVersion))) }
      : {}),
    ...(details === 'accounts'
      ? { transactions: records.map((record) => known(() => showAccounts(record, maxVersion))) }
      : {}),
  };
}

function known<T>(show: () => T): T {
  try {
    return show();
  } catch (error) {
    throw error instanceof UnsupportedVersion ? rpcError(RPC.unsupportedVersion, error.message) : error;
  }
}

function findBlock(node: LocalNode, slot: Unsigned, newest: number): LedgerBlock {
  const { state } = node.bank;
  const first = state.firstAvailable();
  if (slot < first) {
    throw rpcError(
      RPC.blockCleanedUp,
      `Block ${slot} cleaned up, does not exist on node. First available block: ${first}`,
    );
  }
  if (slot > newest) throw rpcError(RPC.blockNotAvailable, `Block not available for slot ${slot}`);
  const block = state.block(small(slot));
  if (block === undefined) {
    throw rpcError(RPC.slotSkipped, `Slot ${slot} was skipped, or missing due to ledger jump to recent snapshot`);
  }
  return block;
}

function slots(node: LocalNode, start: number, end: number): number[] {
  return node.bank.state.blocks().flatMap((block) => (block.slot >= start && block.slot <= end ? [block.slot] : []));
}

function newestSealed(node: LocalNode, config: ContextConfig | undefined): number {
  return contextSlot(node, sealedOnly(config));
}

/** A name that Agave accepts for old clients. */
function encodingOf(encoding: WireEncoding = 'json'): TransactionEncoding {
  return encoding === 'binary' ? 'base58' : encoding;
}
