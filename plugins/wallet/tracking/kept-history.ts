/** What the ledger and its archive know of addresses, transactions and blocks. Null where they lack it. Errors: those of `PastReader`. */
import { decode, decode32 } from '../../../src/lib/base58.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { ceilingOf, type PastReader } from '../../../src/ports/ledger.ts';
import { decodeEntries } from '../../../src/solana/decode/decode-block.ts';
import type { OwnedAccount } from '../store/wallets.ts';
import {
  type FetchedTransaction,
  type HistoryEntry,
  isFirstHeight,
  listedRow,
  PAGE_ENTRIES,
  readFetched,
} from './history-entries.ts';

/** Rows of an address that are searched for its token accounts while no node lists them, in pages of 1,000. */
const MAX_ACCOUNT_PAGES = 5;
/** Blocks that are asked for a time, below one that has none. */
export const MAX_UNTIMED_BLOCKS = 16;

/** A block that was looked for; null: there is none. */
export interface FoundBlock {
  readonly slot: number | null;
}

/** The newest kept slot of a commitment. */
export const keptSlot = async (kept: PastReader, commitment: Commitment): Promise<number> =>
  ceilingOf(await kept.heads(), commitment);

/** The newest kept entries below a transaction; null where the address has no index, or the transaction is not kept. */
export async function releasedList(
  kept: PastReader,
  address: string,
  before: string | null,
  commitment: Commitment,
): Promise<readonly HistoryEntry[] | null> {
  const [key, signature] = [decode32(address), before === null ? null : decode(before)];
  const top = { slot: await keptSlot(kept, commitment), index: Number.POSITIVE_INFINITY };
  const place = before === null ? top : signature?.length === 64 ? await kept.find(signature) : null;
  if (key === null || place === null) return null;
  const below = place.slot > top.slot ? top : place;
  const page = await kept.page({ address: key, reasons: 'keys', below, limit: PAGE_ENTRIES });
  return page.isIndexed && !page.inVotes && page.from <= below.slot ? page.rows.map(listedRow) : null;
}

/** The token accounts of a wallet that occur in what is kept. */
export async function keptAccounts(kept: PastReader, wallet: string): Promise<readonly OwnedAccount[] | null> {
  const key = decode32(wallet);
  if (key === null) return null;
  const accounts = new Map<string, OwnedAccount>();
  let below = { slot: await keptSlot(kept, 'confirmed'), index: Number.POSITIVE_INFINITY };
  for (let pages = 0; pages < MAX_ACCOUNT_PAGES; pages += 1) {
    const page = await kept.page({ address: key, reasons: 'all', below, limit: PAGE_ENTRIES });
    if (!page.isIndexed) return null;
    for (const row of page.rows.filter(({ owner }) => owner !== null)) {
      const block = (await kept.transaction(row))?.block();
      const tx = block?.transactions[0];
      if (block === undefined || tx === undefined) continue;
      for (const { accountIndex, ownerKey, mintKey } of [...tx.preTokenBalances, ...tx.postTokenBalances]) {
        const account = tx.keys[accountIndex];
        if (account === undefined || ownerKey < 0 || mintKey < 0 || block.keys.base58(ownerKey) !== wallet) continue;
        const owned = { account: block.keys.bytes(account).slice(), mint: block.keys.bytes(mintKey).slice() };
        accounts.set(`${block.keys.base58(account)} ${block.keys.base58(mintKey)}`, owned);
      }
    }
    const last = page.rows.at(-1);
    if (last === undefined || page.rows.length < PAGE_ENTRIES) return [...accounts.values()];
    below = last;
  }
  return null;
}

/** The time of a kept block, or of the nearest earlier one, if no slot between them is unknown. */
export async function keptTime(kept: PastReader, slot: number): Promise<number | null> {
  if (slot > (await kept.heads()).newestSlot) return null;
  let at = slot;
  for (let looked = 0; looked < MAX_UNTIMED_BLOCKS && at >= 0; looked += 1) {
    const held = await kept.newestBelow(at);
    if (held < 0 || (await kept.states(held, at)).unknown.length > 0) return null;
    const time = (await kept.header(held))?.blockTime ?? null;
    if (time !== null) return time;
    at = held - 1;
  }
  return null;
}

/** The entries below a final transaction, without a hole; null where it is not kept. */
export async function keptList(
  kept: PastReader,
  address: string,
  before: string,
): Promise<readonly HistoryEntry[] | null> {
  const [key, signature] = [decode32(address), decode(before)];
  const below = key === null || signature?.length !== 64 ? null : await kept.find(signature);
  if (key === null || below === null || below.slot > (await kept.finalSlot())) return null;
  const { rows, inVotes } = await kept.page({ address: key, reasons: 'keys', below, limit: PAGE_ENTRIES });
  return inVotes ? null : rows.map(listedRow);
}

/** Where an address has been complete since, of what is kept from `slot` down; null when `slot` itself is not. */
export async function keptFrom(
  kept: PastReader,
  address: string,
  slot: number,
): Promise<{ readonly slot: number; readonly isFirst: boolean } | null> {
  const key = decode32(address);
  if (key === null || slot < 0 || slot > (await kept.finalSlot())) return null;
  const from = await kept.knownFrom({ address: key, reasons: 'keys' }, slot);
  if (from > slot) return null;
  return { slot: from, isFirst: isFirstHeight((await kept.header(from))?.blockHeight) };
}

/** A transaction in a slot up to `newestSlot`. */
export async function keptTransaction(
  kept: PastReader,
  signature: string,
  newestSlot: number,
): Promise<FetchedTransaction | null> {
  const bytes = decode(signature);
  const place = bytes?.length === 64 ? await kept.find(bytes) : null;
  if (place === null || place.slot > newestSlot) return null;
  const found = await kept.transaction(place);
  if (found?.signature !== signature) return null;
  const head = `{"blockTime":${found.header.blockTime},"slot":${place.slot},"transactionIndex":${place.index},`;
  return readFetched(`${head}${found.text.toString('utf8').replace(/^\s*\{/, '')}`);
}

/** Signatures of a block by place; the block is in a slot up to `newestSlot`. */
export async function keptOrder(
  kept: PastReader,
  slot: number,
  newestSlot: number,
): Promise<ReadonlyMap<string, number> | null> {
  if (slot > newestSlot) return null;
  const text = await kept.text(slot);
  if (text === null) return null;
  const block = JSON.parse(text.toString('utf8')) as {
    readonly blockhash: string;
    readonly transactions: readonly unknown[];
  };
  const { transactions } = decodeEntries(slot, block.transactions, decode32(block.blockhash)!);
  return new Map(transactions.map(({ signature, index }) => [signature, index] as const));
}

/** The lowest kept block of a range up to a slot; null where something below it, or all of it, is not kept. */
export async function keptBlockIn(
  kept: PastReader,
  start: number,
  end: number,
  upTo: number,
): Promise<FoundBlock | null> {
  const high = Math.min(end, upTo);
  if (high < start) return null;
  const { blocks, unknown } = await kept.states(start, high);
  const slot = blocks[0] ?? null;
  if (unknown.length > 0 && (slot === null || unknown[0]! < slot)) return null;
  return slot !== null || high === end ? { slot } : null;
}

/** The one above what is final, or the first above it from which on all is kept. */
export async function firstKept(kept: PastReader): Promise<number> {
  const { finalSlot, newestSlot } = await kept.heads();
  const { unknown } = await kept.states(finalSlot + 1, newestSlot);
  return (unknown.at(-1) ?? finalSlot) + 1;
}
