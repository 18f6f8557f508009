import { CodedError, type Store } from '../../../src/kernel/plugin.ts';
import { encode64 } from '../../../src/lib/base58.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-transaction.ts';
import { ACCOUNT, CHANGED, NAMED } from '../store/flags.ts';
import type { Db } from '../store/tables.ts';
import { readBodies, readSignatures } from '../store/transactions.ts';
import type { Shelf } from './shelf.ts';
import { touchOf } from './touch.ts';
import type { WalletUpstream } from './upstream.ts';
import type { Loaded, LoadedTransaction, ViewRow } from './view.ts';

export interface LoadParts {
  readonly store: Store;
  readonly upstream: WalletUpstream;
  readonly commitment: Commitment;
  readonly shelf: Shelf;
  /** What is stored up to this slot stands for ever. */
  readonly finalSlot: number;
  readonly signal: AbortSignal;
}

/**
 * The transactions of rows of a wallet and its accounts, in their order. What a fork took away meanwhile is left out, and so are rows of
 * another address with the same number. Errors: those of store and upstream.
 */
export async function loadRows(parts: LoadParts, wallet: Uint8Array, rows: readonly ViewRow[]): Promise<Loaded[]> {
  const stored = await loadStored(
    parts,
    rows.filter(({ at }) => at === undefined).map(({ n }) => n),
  );
  const loaded = rows.map(({ n, flags, at = stored.get(n) }) => (at === undefined ? null : { ...at, flags }));
  // Rows of token accounts are told apart by whoever reads their balances; those of old transactions name no owner.
  const isOwn = ({ flags, tx, block }: Loaded) =>
    (flags & (NAMED | CHANGED)) === 0 || touchOf(tx, block, wallet).flags !== 0 || (flags & ACCOUNT) !== 0;
  return loaded.filter((one): one is Loaded => one !== null && isOwn(one));
}

/** From memory, from the store, or where only the place of one is kept from the upstream. */
async function loadStored(parts: LoadParts, ns: readonly number[]): Promise<ReadonlyMap<number, LoadedTransaction>> {
  const db = parts.store.read as Db;
  const signatures = await readSignatures(db, ns);
  const found = new Map<number, LoadedTransaction>();
  for (const [n, signature] of signatures) {
    const known = parts.shelf.take(n, signature);
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
    if (text !== null && loaded.slot <= parts.finalSlot) parts.shelf.put(loaded, signature, text.length);
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
      : decodeTransaction(JSON.parse(text));
  const tx = block?.transactions[0];
  if (block === undefined || tx === undefined)
    throw new CodedError('WALLET_NO_TRANSACTION', 'an upstream lists a transaction that no upstream has', {
      retryable: true,
    });
  return { n, signature, slot: block.slot, time: block.blockTime, tx, block };
}
