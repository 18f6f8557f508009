import { encode32, encode64 } from '../../src/lib/base58.ts';
import type { BlockHeader } from '../../src/ports/block.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type {
  AddressPage,
  AddressQuery,
  AddressRow,
  ArchiveEngine,
  ArchiveReader,
  KeptTransaction,
  LedgerPlace,
} from '../../src/ports/ledger.ts';
import { transactionOf } from '../../src/solana/block-text.ts';
import { readRanges, type SlotRange } from './ranges.ts';
import { hasNoRows, KEYS, OWNERS } from './tables.ts';

/** How long the ranges are taken for current. A slot that is new by then is still in the ledger. */
const RANGES_MS = 2_000;

interface BlockRow {
  readonly slot: string;
  readonly parent: string;
  readonly hash: string;
  readonly previous: string;
  readonly height: string | null;
  readonly time: string | null;
  readonly transactions: number;
  readonly verbatim: number;
  readonly head: string;
  readonly tail: string;
}

export function createArchiveReader(engine: ArchiveEngine, clock: Clock): ArchiveReader {
  const { database } = engine;
  let known: { readonly at: number; readonly ranges: Promise<readonly SlotRange[]> } | null = null;

  function ranges(): Promise<readonly SlotRange[]> {
    if (known !== null && clock.monotonic() - known.at < RANGES_MS) return known.ranges;
    const asked = readRanges(engine).then((all) => all.map(({ first, last }) => [first, last] as const));
    known = { at: clock.monotonic(), ranges: asked };
    asked.catch(() => {
      known = null;
    });
    return asked;
  }

  const rangeOf = async (slot: number) => (await ranges()).find(([from, to]) => slot >= from && slot <= to) ?? null;

  async function blockRow(slot: number, withText: boolean): Promise<BlockRow | null> {
    if ((await rangeOf(slot)) === null) return null;
    const text = withText ? 'head, tail' : `'' AS head, '' AS tail`;
    const [row] = await engine.select<BlockRow>(
      `SELECT slot, parent, hex(hash) AS hash, hex(previous) AS previous, height, time, transactions, verbatim, ${text} ` +
        `FROM ${database}.blocks WHERE slot = ${slot} LIMIT 1`,
    );
    return row ?? null;
  }

  const header = async (slot: number): Promise<BlockHeader | null> => {
    const row = await blockRow(slot, false);
    return row === null ? null : headerOf(row);
  };

  async function text(slot: number): Promise<Buffer | null> {
    const row = await blockRow(slot, true);
    if (row === null || Number(row.verbatim) === 0) return null;
    const bodies = await engine.select<{ body: string }>(
      `SELECT body FROM ${database}.transactions WHERE slot = ${slot} ORDER BY idx LIMIT 1 BY idx`,
    );
    if (bodies.length !== Number(row.transactions)) throw new Error(`block ${slot} of the archive is not complete`);
    return Buffer.from(`${row.head}${bodies.map(({ body }) => body).join(',')}${row.tail}`);
  }

  async function find(signature: Uint8Array): Promise<LedgerPlace | null> {
    const rows = await engine.select<{ slot: string; idx: number }>(
      `SELECT slot, idx FROM ${database}.signatures WHERE signature = ${literal(signature)} ORDER BY slot DESC LIMIT 8`,
    );
    for (const { slot, idx } of rows)
      if ((await rangeOf(Number(slot))) !== null) return { slot: Number(slot), index: Number(idx) };
    return null;
  }

  async function transaction(place: LedgerPlace): Promise<KeptTransaction | null> {
    const found = await header(place.slot);
    if (found === null) return null;
    const [row] = await engine.select<{ body: string }>(
      `SELECT body FROM ${database}.transactions WHERE slot = ${place.slot} AND idx = ${place.index} LIMIT 1`,
    );
    return transactionOf(found, place, row === undefined ? undefined : Buffer.from(row.body));
  }

  async function addressPage(query: AddressQuery): Promise<AddressPage | null> {
    if (hasNoRows(query.address)) return null;
    const { order, above, below, limit } = query;
    const isNewest = order === 'newest';
    const all = await ranges();
    const [low, high] = [above?.slot ?? 0, below?.slot ?? Number.MAX_SAFE_INTEGER];
    const range = isNewest ? all.findLast(([from]) => from <= high) : all.find(([, to]) => to >= low);
    if (range === undefined) return { rows: [], hasMore: false, from: 0, to: -1, inVotes: false };
    const [from, to] = range;
    const address = literal(query.address);
    const conditions = [
      `address = ${address}`,
      `slot >= ${Math.max(from, low)}`,
      `slot <= ${Math.min(to, high)}`,
      ...(above === undefined ? [] : [beyond(above, '>')]),
      ...(below === undefined ? [] : [beyond(below, '<')]),
      ...(query.reasons === 'all' ? [] : [query.reasons === 'keys' ? 'key > 0' : '(key > 0 OR owner = 2)']),
    ];
    const direction = isNewest ? 'DESC' : 'ASC';
    const rows = await engine.select<AddressRecord>(
      `SELECT slot, idx, hex(signature) AS signature, key, owner, time, error, memo FROM ${database}.addresses ` +
        `WHERE ${conditions.join(' AND ')} ORDER BY slot ${direction}, idx ${direction} ` +
        `LIMIT 1 BY slot, idx LIMIT ${limit + 1}`,
    );
    const voters = await engine.select<object>(
      `SELECT slot FROM ${database}.voters WHERE address = ${address} LIMIT 1`,
    );
    return {
      rows: rows.slice(0, limit).map(rowOf),
      hasMore: rows.length > limit,
      from,
      to,
      inVotes: voters.length > 0,
    };
  }

  return {
    ranges,
    header,
    text,
    find,
    transaction,
    addressPage,
    async states(from, to) {
      const all = await ranges();
      const rows = await engine.select<{ slot: string }>(
        `SELECT DISTINCT slot FROM ${database}.blocks WHERE slot >= ${from} AND slot <= ${to} ORDER BY slot`,
      );
      const isKnown = (slot: number) => all.some(([first, last]) => slot >= first && slot <= last);
      const unknown: number[] = [];
      for (let slot = from; slot <= to; slot++) if (!isKnown(slot)) unknown.push(slot);
      return { blocks: rows.map(({ slot }) => Number(slot)).filter(isKnown), unknown };
    },
  };
}

/** Bytes as a constant: nothing of a client is ever part of a statement as text. */
const literal = (bytes: Uint8Array) => `toFixedString(unhex('${Buffer.from(bytes).toString('hex')}'), ${bytes.length})`;

/** Whether a row is behind a place; indexes may be -1 or infinite. */
function beyond({ slot, index }: LedgerPlace, than: '<' | '>'): string {
  const isWhole = !Number.isFinite(index) || index < 0;
  if (!isWhole) return `(slot ${than} ${slot} OR (slot = ${slot} AND idx ${than} ${index}))`;
  const isInside = (than === '<') === index > 0;
  return `slot ${than}${isInside ? '=' : ''} ${slot}`;
}

interface AddressRecord {
  readonly slot: string;
  readonly idx: number;
  readonly signature: string;
  readonly key: number;
  readonly owner: number;
  readonly time: string | null;
  readonly error: string;
  readonly memo: string | null;
}

const numberOrNull = (value: string | number | null) => (value === null ? null : Number(value));

function rowOf({ slot, idx, signature, key, owner, time, error, memo }: AddressRecord): AddressRow {
  return {
    slot: Number(slot),
    index: Number(idx),
    signature: encode64(Buffer.from(signature, 'hex')),
    blockTime: numberOrNull(time),
    isFinal: true,
    err: error === '' ? null : (JSON.parse(error) as unknown),
    memo,
    key: KEYS[key] ?? null,
    owner: OWNERS[owner] ?? null,
  };
}

function headerOf({ slot, parent, hash, previous, height, time }: BlockRow): BlockHeader {
  return {
    slot: Number(slot),
    parentSlot: Number(parent),
    blockhash: encode32(Buffer.from(hash, 'hex')),
    previousBlockhash: encode32(Buffer.from(previous, 'hex')),
    blockHeight: numberOrNull(height),
    blockTime: numberOrNull(time),
  };
}
