import { LRUCache } from 'lru-cache';
import { encode64 } from '../../../src/lib/base58.ts';
import { parseExact } from '../../../src/lib/json.ts';
import { CodedError, type Store } from '../../../src/plugin/plugin.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { ACCOUNT, CHANGED, NAMED, type WalletDb } from '../store/tables.ts';
import { readBodies, readSignatures } from '../store/transactions.ts';
import type { ChainHistory } from './chain-history.ts';
import { touchOf } from './gather.ts';
import type { LoadedRow, LoadedTransaction, ViewRow } from './view.ts';

interface LoadParts {
  readonly store: Store;
  readonly upstream: ChainHistory;
  readonly commitment: Commitment;
  readonly transactionCache: TransactionCache;
  /** Stored rows up to this slot are final. */
  readonly finalSlot: number;
  readonly signal: AbortSignal;
}

/**
 * The transactions of rows of a wallet and its accounts, in their order. Omits transactions that a reorg removed, and rows of
 * another address with the same number. Errors: those of store and upstream.
 */
export async function loadRows(parts: LoadParts, wallet: Uint8Array, rows: readonly ViewRow[]): Promise<LoadedRow[]> {
  const stored = await loadStored(
    parts,
    rows.filter(({ at }) => at === undefined).map(({ n }) => n),
  );
  const loaded = rows.map(({ n, flags, at = stored.get(n) }) => (at === undefined ? null : { ...at, flags }));
  // Readers of balances filter rows of token accounts themselves; old transactions name no owner.
  const isOwn = ({ flags, tx, block }: LoadedRow) =>
    (flags & (NAMED | CHANGED)) === 0 || touchOf(tx, block, wallet).flags !== 0 || (flags & ACCOUNT) !== 0;
  return loaded.filter((one): one is LoadedRow => one !== null && isOwn(one));
}

/** From memory, from the store, or from the upstream when only the position is stored. */
async function loadStored(parts: LoadParts, ns: readonly number[]): Promise<ReadonlyMap<number, LoadedTransaction>> {
  const db = parts.store.read as WalletDb;
  const signatures = await readSignatures(db, ns);
  const found = new Map<number, LoadedTransaction>();
  for (const [n, signature] of signatures) {
    const known = parts.transactionCache.take(n, signature);
    if (known !== null) found.set(n, known);
  }
  const unread = [...signatures].filter(([n]) => !found.has(n));
  const bodies = await readBodies(
    db,
    unread.map(([n]) => n),
  );
  const read = async ([n, signature]: [number, Uint8Array]) => {
    const text = bodies.get(n) ?? null;
    const loaded = await readOne(parts, { n, signature: encode64(signature), text });
    found.set(n, loaded);
    if (text !== null && loaded.slot <= parts.finalSlot) parts.transactionCache.put(loaded, signature, text.length);
  };
  await Promise.all(unread.map(read));
  return found;
}

async function readOne(
  { upstream, commitment, signal }: LoadParts,
  { n, signature, text }: { readonly n: number; readonly signature: string; readonly text: string | null },
): Promise<LoadedTransaction> {
  const block =
    text === null
      ? (await upstream.transaction(signature, { commitment, signal }))?.block
      : decodeTransaction(parseExact(text));
  const tx = block?.transactions[0];
  if (block === undefined || tx === undefined) throw noTransaction();
  return { n, signature, slot: block.slot, time: block.blockTime, tx, block };
}

export const noTransaction = (): CodedError =>
  new CodedError('WALLET_NO_TRANSACTION', 'an upstream lists a transaction that no upstream has', { retryable: true });

/**
 * Whether a stored body is what the node sent. Those of blocks were once stored without some members, and their large numbers were
 * rounded when the block was decoded.
 */
export const isWhole = (text: string): boolean =>
  /"transaction":\s*\[/.test(text) || (text.includes('"status":') && !/[:,[]-?\d{16}/.test(text));

/** Decoded transactions from the store, in memory. */
export interface TransactionCache {
  /** The cached transaction at a position, if it still has this signature. */
  take(n: number, signature: Uint8Array): LoadedTransaction | null;
  /** For final transactions only: a reorg may replace a transaction or change its outcome. */
  put(loaded: LoadedTransaction, signature: Uint8Array, textLength: number): void;
}

interface CachedTransaction {
  readonly loaded: LoadedTransaction;
  readonly signature: Uint8Array;
  readonly bytes: number;
}

export function createTransactionCache(maxBytes: number): TransactionCache {
  const entries = new LRUCache<number, CachedTransaction>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });
  return {
    take(n, signature) {
      const entry = entries.get(n);
      return entry !== undefined && Buffer.compare(entry.signature, signature) === 0 ? entry.loaded : null;
    },
    put(loaded, signature, textLength) {
      // The decoded form takes about twice the size of its text.
      entries.set(loaded.n, { loaded, signature, bytes: textLength * 2 + 1_000 });
    },
  };
}
