import {
  showAccounts,
  showTransaction,
  type TransactionEncoding,
  UnsupportedVersion,
} from '../../../src/solana/show-transaction.ts';
import {
  atMost,
  blockConfigOrEncoding,
  type ContextConfig,
  contextConfig,
  contextStatusConfig,
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
  transactionConfigWithMinSlotOrEncoding,
  type Unsigned,
  u64,
  usize,
} from '../encode/params.ts';
import type { LedgerBlock, TransactionRecord } from '../ledger/state.ts';
import {
  bankSlotOf,
  changedIn,
  contextSlot,
  inContext,
  isSince,
  type LocalNode,
  type Methods,
  method,
} from './method.ts';

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
  getBlockTime: method([u64], [], (node, slot) => findBlock(node, slot, bankSlotOf(node.bank, 'confirmed')).time),
  getBlock: method([u64], [blockConfigOrEncoding], (node, slot, config) => {
    requireEncoding(node, config);
    const block = findBlock(node, slot, newestSealed(node, config));
    return blockJson(block, {
      encoding: config?.encoding ?? 'json',
      details: config?.transactionDetails ?? 'full',
      maxVersion: config?.maxSupportedTransactionVersion ?? null,
      rewards: config?.rewards ?? true,
    });
  }),
  getTransaction: changedIn(
    '4.4',
    method([text], [transactionConfigOrEncoding], getTransaction),
    method([text], [transactionConfigWithMinSlotOrEncoding], getTransaction),
  ),
  getSignatureStatuses: changedIn(
    '4.4',
    method([list(text)], [statusConfig], (node, ids, config) =>
      signatureStatuses(node, ids, config?.searchTransactionHistory, {}),
    ),
    method([list(text)], [contextStatusConfig], (node, ids, config) =>
      signatureStatuses(node, ids, config?.searchTransactionHistory, config ?? {}),
    ),
  ),
  getSignaturesForAddress: method([text], [signaturesConfig], (node, address, config) => {
    const key = pubkey(address);
    const [beforeId, untilId] = [config?.before, config?.until].map((id) => (id === undefined ? null : signature(id)));
    const placeOf = (id: string | null | undefined): TransactionRecord | null => {
      if (id == null) return null;
      const record = node.bank.state.record(id);
      if (record === undefined) throw rpcError(RPC.filterTransactionNotFound, `Transaction ${id} not found`);
      return record;
    };
    const limit = config?.limit ?? MAX_SIGNATURES;
    if (limit < 1 || limit > MAX_SIGNATURES) throw invalidParams(`Invalid limit; max ${MAX_SIGNATURES}`);
    const newest = newestSealed(node, config);
    const [before, until] = [placeOf(beforeId), placeOf(untilId)];
    return signaturesOf(node, node.bank.state.recordsOf(key), { before, until, limit: small(limit), newest });
  }),
};

function getTransaction(
  node: LocalNode,
  id: string,
  config: Partial<ReturnType<typeof transactionConfigWithMinSlotOrEncoding>> | undefined,
) {
  const wanted = signature(id);
  requireEncoding(node, config);
  const newest = newestSealed(node, config);
  const record = node.bank.state.record(wanted);
  const block = record === undefined ? undefined : node.bank.state.block(record.slot);
  if (record === undefined || block === undefined || record.slot > newest) return null;
  const options = {
    encoding: config?.encoding ?? 'json',
    maxVersion: config?.maxSupportedTransactionVersion ?? null,
    rewards: true,
  };
  const { meta, transaction, ...version } = known(() => showTransaction(record, options));
  return { blockTime: block.time, meta, slot: record.slot, transaction, transactionIndex: record.index, ...version };
}

/** Statuses in the bank of a commitment, by default the one under construction. */
function signatureStatuses(
  node: LocalNode,
  ids: readonly string[],
  searchesHistory: boolean | undefined,
  { commitment = 'processed', minContextSlot }: ContextConfig,
) {
  const signatures = atMost(ids, 256).map(signature);
  const slot = contextSlot(node, { commitment, minContextSlot });
  const oldest = node.bank.state.tip().height - STATUS_BLOCKS;
  return inContext(
    slot,
    signatures.map((id) => {
      const record = node.bank.state.record(id);
      if (record !== undefined && record.slot > slot) return null;
      const block = record === undefined ? undefined : node.bank.state.block(record.slot);
      const isAtHand = block === undefined || block.height >= oldest || searchesHistory === true;
      return isAtHand ? signatureStatusOf(node, record) : null;
    }),
  );
}

/** Base58 has no form for a message of version 1 or later. Throws -32602. */
function requireEncoding(
  node: LocalNode,
  config:
    | { readonly encoding?: string | undefined; readonly maxSupportedTransactionVersion?: number | undefined }
    | undefined,
): void {
  const isBase58 = config?.encoding === 'base58' || config?.encoding === 'binary';
  if (isBase58 && (config.maxSupportedTransactionVersion ?? 0) >= 1 && isSince(node, '4.4'))
    throw invalidParams('base58 encoding is not supported with maxSupportedTransactionVersion >= 1');
}

interface SignatureRange {
  /** Places in the chain: also those of transactions of other addresses. */
  readonly before: TransactionRecord | null;
  readonly until: TransactionRecord | null;
  readonly limit: number;
  readonly newest: number;
}

function signaturesOf(node: LocalNode, records: readonly TransactionRecord[], range: SignatureRange) {
  const { before, until, limit, newest } = range;
  const found: unknown[] = [];
  for (let index = records.length - 1; index >= 0 && found.length < limit; index -= 1) {
    const record = records[index]!;
    if (before !== null && !isBefore(record, before)) continue;
    if (until !== null && !isBefore(until, record)) break;
    if (record.slot <= newest) found.push(signatureInfo(node, record));
  }
  return found;
}

const isBefore = (left: TransactionRecord, right: TransactionRecord): boolean =>
  left.slot < right.slot || (left.slot === right.slot && left.index < right.index);

function signatureInfo(node: LocalNode, record: TransactionRecord) {
  const { signature, slot, memo, meta } = record;
  return {
    blockTime: node.bank.state.block(slot)?.time ?? null,
    confirmationStatus: slot <= bankSlotOf(node.bank, 'finalized') ? 'finalized' : 'confirmed',
    err: meta.err,
    memo,
    signature,
    slot,
    transactionIndex: record.index,
  };
}

/** Confirmation state of a transaction; confirmations are counted in blocks above its own. */
export function signatureStatusOf(node: LocalNode, record: TransactionRecord | undefined) {
  if (record === undefined || record.slot > bankSlotOf(node.bank, 'processed')) return null;
  const { state } = node.bank;
  const { err, status } = record.meta;
  const block = state.block(record.slot);
  const { slot } = record;
  if (block === undefined) return { confirmationStatus: 'processed', confirmations: 0, err, slot, status };
  const finalized = slot <= bankSlotOf(node.bank, 'finalized');
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
function blockJson(block: LedgerBlock, options: BlockOptions) {
  const { details, rewards } = options;
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
      ? { transactions: records.map((record) => known(() => showTransaction(record, options))) }
      : {}),
    ...(details === 'accounts'
      ? { transactions: records.map((record) => known(() => showAccounts(record, options))) }
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
