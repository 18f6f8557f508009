import { decode32 } from '../../lib/base58.ts';
import type { ChainBlock, NormalTransaction, TransactionVersion } from '../../ports/block.ts';
import type { RpcMeta } from '../rpc-json.ts';
import { decodeScanned } from './decode-scanned.ts';
import { createKeyTable, expectedKeys, type KeyTableBuilder } from './key-table.ts';
import { faultOfMeta, internTokenBalances } from './meta.ts';
import { badBlock, badTransaction, decodeHeader, decodeResponse } from './response.ts';
import { ScannedBlock } from './scan-block.ts';
import { type BlockParts, isVote, LeanTransaction, type TransactionParts } from './transaction.ts';
import { HIGHEST_WIRE_VERSION, walkWire } from './walk-wire.ts';
import { wireBytesOf } from './wire-bytes.ts';
import { eachTableKey, emptyLayout, repeatedSignature, type WireLayout, type WireReader } from './wire-layout.ts';

/**
 * Decodes the result of `getBlock` with full transaction details, in encoding base64, base58 or json: parsed, or as a scan of the
 * answer (`scanBlockAnswer`), which is several times faster and gives the same block. The result is kept and must not be changed
 * afterwards.
 * Throws CHAIN_BAD_TRANSACTION (facts {index, reason}) when the bytes of a transaction are malformed or of a version above
 * HIGHEST_WIRE_VERSION: only encoding json shows every version. Throws CHAIN_BAD_BLOCK (facts {slot, reason, index?}) when the block
 * is inconsistent or lacks what every block has.
 */
export function decodeBlock(slot: number, result: unknown): ChainBlock {
  if (result instanceof ScannedBlock) {
    const answer = () => decodeResponse(result.body) as { readonly result: unknown };
    const block = decodeScanned(slot, result) ?? decodeBlock(slot, answer().result);
    const isVerbatim = 'rewards' in result.header;
    return { ...block, answer: { isVerbatim, text: () => result.body.subarray(...result.range) } };
  }
  const header = decodeHeader(slot, result);
  const entries = (result as { transactions?: unknown }).transactions;
  if (!Array.isArray(entries)) throw badBlock(slot, 'transactions are missing');
  const answer = { isVerbatim: false, text: () => Buffer.from(JSON.stringify(result)) };
  return { ...header, ...decodeEntries(slot, entries, decode32(header.blockhash)!), answer };
}

/** One transaction as returned by a node. */
interface RpcEntry {
  readonly transaction?: unknown;
  readonly meta?: unknown;
  readonly version?: unknown;
}

/** Decodes entries in order. `seed`: 32 bytes that were unknown when the transactions were created. */
export function decodeEntries(
  slot: number,
  entries: readonly unknown[],
  seed: Uint8Array,
): Pick<ChainBlock, 'transactions' | 'keys'> {
  const { bytes, starts } = wireBytesOf(entries);
  const seedWords = new Uint32Array(seed.slice().buffer);
  const keys = createKeyTable(seedWords, expectedKeys(entries.length));
  const block: BlockParts = { slot, bytes, keys };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const reader: WireReader = { bytes, at: 0, end: 0 };
  const transactions: NormalTransaction[] = [];
  const signaturesAt: number[] = [];
  for (let index = 0; index < entries.length; index++) {
    reader.at = starts[index]!;
    reader.end = starts[index + 1]!;
    const layout = emptyLayout();
    const fault = walkWire(reader, layout);
    if (fault !== null) throw badTransaction(index, fault);
    const range = { wireFrom: starts[index]!, wireTo: starts[index + 1]! };
    transactions.push(decodeEntry(block, view, layout, range, index, entries[index] as RpcEntry));
    signaturesAt.push(layout.signaturesAt);
  }
  const repeated = repeatedSignature(bytes, signaturesAt);
  if (repeated >= 0) throw badBlock(slot, 'its signature is that of an earlier transaction', repeated);
  return { transactions, keys };
}

function decodeEntry(
  block: BlockParts,
  view: DataView,
  layout: WireLayout,
  range: Pick<TransactionParts, 'wireFrom' | 'wireTo'>,
  index: number,
  entry: RpcEntry,
): NormalTransaction {
  const meta = entry.meta as RpcMeta;
  const version = versionOf(entry, layout);
  const writable = meta?.loadedAddresses?.writable ?? [];
  const readonly = meta?.loadedAddresses?.readonly ?? [];
  // Unknown versions may load addresses by other means than lookups.
  const isKnown = version === 'legacy' || version <= HIGHEST_WIRE_VERSION;
  if (isKnown && (writable.length !== layout.loadedWritable || readonly.length !== layout.loadedReadonly))
    throw badBlock(block.slot, 'meta.loadedAddresses does not fit the lookups', index);
  const keys = new Uint32Array(layout.keyCount + writable.length + readonly.length);
  const fault =
    faultOfMeta(meta, keys.length, layout.instructionCount) ??
    internAll(block.keys, view, layout, keys, writable, readonly);
  if (fault !== null) throw badBlock(block.slot, fault, index);
  const owners: number[] = [];
  if (
    !internTokenBalances(meta.preTokenBalances, keys.length, block.keys, owners) ||
    !internTokenBalances(meta.postTokenBalances, keys.length, block.keys, owners)
  )
    throw badBlock(block.slot, 'a token balance is malformed', index);
  if (layout.lookupCount > 0) eachTableKey(block.bytes, layout, (at) => block.keys.intern(view, at));
  return new LeanTransaction(block, {
    index,
    version,
    layout,
    ...range,
    keys,
    loadedWritableCount: writable.length,
    tokenOwners: new Uint32Array(owners),
    isVote: isVote(block, layout, keys, 0),
    meta,
    metaText: null,
  });
}

/** Bytes contain their version; for JSON the entry has it. */
function versionOf(entry: RpcEntry, layout: WireLayout): TransactionVersion {
  if (Array.isArray(entry.transaction)) return layout.version < 0 ? 'legacy' : layout.version;
  return typeof entry.version === 'number' ? entry.version : 'legacy';
}

function internAll(
  table: KeyTableBuilder,
  view: DataView,
  layout: WireLayout,
  keys: Uint32Array,
  writable: readonly string[],
  readonly: readonly string[],
): string | null {
  for (let number = 0; number < layout.keyCount; number++)
    keys[number] = table.intern(view, layout.keysAt + number * 32);
  let at = layout.keyCount;
  for (const list of [writable, readonly]) {
    for (const text of list) {
      const id = typeof text === 'string' ? table.internText(text) : -1;
      if (id < 0) return 'meta.loadedAddresses holds no address';
      keys[at++] = id;
    }
  }
  return null;
}

/**
 * Decodes the parsed result of `getTransaction` (encoding base64, base58 or json) as a block of one transaction. Members that the
 * answer lacks are empty: blockhash and previousBlockhash are '', blockHeight is null, parentSlot is the slot before, and the
 * transaction has index 0. Errors as `decodeBlock`.
 */
export function decodeTransaction(result: unknown): ChainBlock {
  const { slot, blockTime } = (result ?? {}) as { slot?: unknown; blockTime?: unknown };
  if (!Number.isSafeInteger(slot)) throw badBlock(-1, 'slot is missing');
  return {
    slot: slot as number,
    parentSlot: Math.max(0, (slot as number) - 1),
    blockhash: '',
    previousBlockhash: '',
    blockHeight: null,
    blockTime: Number.isSafeInteger(blockTime) ? (blockTime as number) : null,
    // One transaction has too few keys for harmful collisions.
    ...decodeEntries(slot as number, [result], new Uint8Array(32).fill(1)),
  };
}
