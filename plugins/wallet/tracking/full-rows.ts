import type { ChainBlock, StoreTx } from '../../../src/kernel/plugin.ts';
import { tokenChanges } from '../../../src/solana/movements/balance-changes.ts';
import { ACCOUNT, CHANGED, NAMED, TOUCHED } from '../store/flags.ts';
import { readKeyNumbers } from '../store/keys.ts';
import { positionOf } from '../store/position.ts';
import type { Db } from '../store/tables.ts';
import type { TailRow } from '../store/tail.ts';
import type { StoredTransaction } from '../store/transactions.ts';

export interface FullRows {
  readonly rows: readonly TailRow[];
  readonly transactions: readonly StoredTransaction[];
}

const KEY_WORDS = 8;

/** Rows of every address that a block names, and of every owner of a token balance in it. */
export async function fullRows(tx: StoreTx, block: ChainBlock): Promise<FullRows> {
  const { keys, slot, blockTime } = block;
  const numbers = await readKeyNumbers(tx.db as Db);
  const ids = Array.from({ length: keys.size }, (_, id) => numbers.at(keys.words, id * KEY_WORDS));
  const rows: TailRow[] = [];
  const transactions: StoredTransaction[] = [];
  const accounts: (readonly [number, Buffer, Buffer])[] = [];
  for (const one of block.transactions) {
    const n = positionOf(slot, one.index);
    const flags = new Map<number, number>();
    const mark = (id: number, flag: number) => flags.set(id, (flags.get(id) ?? 0) | flag);
    for (const id of one.keys) mark(id, NAMED);
    for (const { accountIndex, ownerKey, mintKey } of [...one.preTokenBalances, ...one.postTokenBalances]) {
      const account = one.keys[accountIndex];
      if (account === undefined || ownerKey < 0 || mintKey < 0) continue;
      mark(account, ACCOUNT);
      mark(ownerKey, TOUCHED);
      accounts.push([ids[ownerKey] as number, Buffer.from(keys.bytes(account)), Buffer.from(keys.bytes(mintKey))]);
    }
    for (const { owner } of tokenChanges(one)) if (owner >= 0) mark(owner, CHANGED);
    for (const [id, flag] of flags) rows.push({ a: ids[id] as number, n, flags: flag });
    transactions.push({ n, signature: one.signatures[0] as Uint8Array, text: null, time: blockTime });
  }
  if (accounts.length > 0) await tx.insertMany('wallet_accounts', ['wallet', 'account', 'mint'], accounts, 'ignore');
  return { rows, transactions };
}
