import { CodedError, type Store } from '../../../src/kernel/plugin.ts';
import { encode64 } from '../../../src/lib/base58.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-transaction.ts';
import { ACCOUNT, CHANGED, NAMED } from '../store/flags.ts';
import type { Db } from '../store/tables.ts';
import { type FoundTransaction, readTransactions } from '../store/transactions.ts';
import { touchOf } from './touch.ts';
import type { WalletUpstream } from './upstream.ts';
import type { Loaded, ViewRow } from './view.ts';

export interface LoadParts {
  readonly store: Store;
  readonly upstream: WalletUpstream;
  readonly commitment: Commitment;
}

/**
 * The transactions of rows of a wallet and its accounts, in their order. What a fork took away meanwhile is left out, and so are rows of
 * another address with the same number. Errors: those of store and upstream.
 */
export async function loadRows(
  parts: LoadParts,
  wallet: Uint8Array,
  rows: readonly ViewRow[],
  signal: AbortSignal,
): Promise<Loaded[]> {
  const missing = rows.filter(({ at }) => at === undefined).map(({ n }) => n);
  const stored = await readTransactions(parts.store.read as Db, missing);
  const loaded = await Promise.all(
    rows.map(async ({ n, flags, at }) => {
      if (at !== undefined) return { ...at, flags };
      const found = stored.get(n);
      return found === undefined ? null : { ...(await read(parts, n, found, signal)), flags };
    }),
  );
  // Rows of token accounts are told apart by whoever reads their balances; those of old transactions name no owner.
  const isOwn = ({ flags, tx, block }: Loaded) =>
    (flags & (NAMED | CHANGED)) === 0 || touchOf(tx, block, wallet).flags !== 0 || (flags & ACCOUNT) !== 0;
  return loaded.filter((one): one is Loaded => one !== null && isOwn(one));
}

async function read(parts: LoadParts, n: number, found: FoundTransaction, signal: AbortSignal) {
  const signature = encode64(found.signature);
  const block =
    found.text === null
      ? (await parts.upstream.transaction(signature, { commitment: parts.commitment, signal }))?.block
      : decodeTransaction(JSON.parse(found.text));
  const tx = block?.transactions[0];
  if (block === undefined || tx === undefined)
    throw new CodedError('WALLET_NO_TRANSACTION', 'an upstream lists a transaction that no upstream has', {
      retryable: true,
    });
  return { n, signature, slot: block.slot, time: block.blockTime, tx, block };
}
