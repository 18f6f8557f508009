import { decode32 } from '../../src/lib/base58.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { ArchiveEngine } from '../../src/ports/ledger.ts';
import { elementsOf } from '../../src/solana/block-text.ts';
import { changedOwners } from '../../src/solana/changed-owners.ts';
import { memoOf } from '../../src/solana/memo.ts';
import { WITHOUT_HISTORY } from '../../src/solana/programs.ts';
import type { CompleteRange } from './ranges.ts';

/**
 * The tables, in the manner of Superbank's: each has the order in which it is read. Statements are those that ClickHouse 18.16 and 26.7
 * both understand: no codecs (the server's compression applies), no descending keys, no JSON type. A row that is inserted again replaces
 * the earlier one when parts are merged; until then readers leave doubles out.
 *
 * A batch of slots is complete once `ranges` says so, which is written last: rows above a range are of a batch that was interrupted.
 */

/** Partitions are epochs: blocks and transactions are dropped and merged by them. Tables that are read over all time have ten in one. */
const EPOCH = 'intDiv(slot, 432000)';
const TEN_EPOCHS = 'intDiv(slot, 4320000)';

interface Table {
  readonly columns: string;
  readonly partition: string;
  readonly order: string;
  /** Rows per mark of the index: few where single rows are read. */
  readonly granularity: number;
  readonly version?: string;
}

const TABLES = {
  blocks: {
    columns: `slot UInt64, parent UInt64, hash FixedString(32), previous FixedString(32), height Nullable(UInt64), time Nullable(Int64),
      transactions UInt32, verbatim UInt8, head String, tail String`,
    partition: EPOCH,
    order: 'slot',
    granularity: 256,
  },
  transactions: {
    columns: `slot UInt64, idx UInt32, signature FixedString(64), vote UInt8, success UInt8, fee UInt64, time Nullable(Int64), body String`,
    partition: EPOCH,
    order: '(slot, idx)',
    granularity: 256,
  },
  signatures: {
    columns: 'signature FixedString(64), slot UInt64, idx UInt32',
    partition: TEN_EPOCHS,
    order: '(signature, slot, idx)',
    granularity: 1024,
  },
  addresses: {
    columns: `address FixedString(32), slot UInt64, idx UInt32, signature FixedString(64), key UInt8, owner UInt8, time Nullable(Int64),
      error String, memo Nullable(String)`,
    partition: TEN_EPOCHS,
    order: '(address, slot, idx)',
    granularity: 1024,
  },
  /** Addresses that occur in votes, which \`addresses\` leaves out. */
  voters: {
    columns: 'address FixedString(32), slot UInt64',
    partition: 'tuple()',
    order: 'address',
    granularity: 1024,
  },
  /** Slots from \`first\` to \`last\` are complete. */
  ranges: {
    columns: 'first UInt64, last UInt64, hash FixedString(32)',
    partition: 'tuple()',
    order: 'first',
    granularity: 1024,
    version: 'last',
  },
} as const satisfies Record<string, Table>;

export type TableName = keyof typeof TABLES;
const NAMES = Object.keys(TABLES) as TableName[];

/** Creates what is missing. Errors: those of the engine. */
export async function createTables(engine: ArchiveEngine): Promise<void> {
  const { database, isReplicated } = engine;
  await engine.run(`CREATE DATABASE IF NOT EXISTS ${database}`);
  for (const name of NAMES) {
    const { columns, partition, order, granularity, ...table }: Table = TABLES[name];
    const replica = isReplicated ? [`'/clickhouse/tables/{shard}/${database}/${name}'`, `'{replica}'`] : [];
    const kind = `${isReplicated ? 'Replicated' : ''}ReplacingMergeTree`;
    const by = [...replica, ...(table.version === undefined ? [] : [table.version])].join(', ');
    await engine.run(
      `CREATE TABLE IF NOT EXISTS ${database}.${name} (${columns}) ENGINE = ${kind}(${by}) PARTITION BY ${partition} ` +
        `ORDER BY ${order} SETTINGS index_granularity = ${granularity}`,
    );
  }
}

const leftOut = new Set(WITHOUT_HISTORY);

/** Whether no row has the address: those of `WITHOUT_HISTORY` would be most of the table. */
export const hasNoRows = (address: Uint8Array): boolean =>
  WITHOUT_HISTORY.some((one) => Buffer.compare(decode32(one)!, address) === 0);

export const KEYS = [null, 'static', 'loaded'] as const;
export const OWNERS = [null, 'unchanged', 'changed'] as const;

type Value = Uint8Array | string | number | bigint | null;

/** The rows of a batch, as TabSeparated. */
export class Rows {
  private readonly parts: Record<TableName, string[]> = {
    blocks: [],
    transactions: [],
    signatures: [],
    addresses: [],
    voters: [],
    ranges: [],
  };
  private readonly seen = new Set<string>();

  private put(table: TableName, values: readonly Value[]): void {
    this.parts[table].push(`${values.map(fieldOf).join('\t')}\n`);
  }

  add(block: ChainBlock, isVerbatim: boolean): void {
    const { slot, keys, blockTime: time } = block;
    const text = block.answer!.text();
    const bodies = elementsOf(text);
    const first = bodies[0];
    const last = bodies.at(-1);
    // Between the elements there are only commas in what nodes send; else the text comes back differently.
    const from = first === undefined ? text.length : first.byteOffset - text.byteOffset;
    const to = last === undefined ? text.length : last.byteOffset - text.byteOffset + last.length;
    const size = bodies.reduce((total, body) => total + body.length + 1, -1);
    if (bodies.length !== block.transactions.length || (bodies.length > 0 && size !== to - from))
      throw new Error(`block ${slot} has another form`);
    this.put('blocks', [
      slot,
      block.parentSlot,
      decode32(block.blockhash)!,
      decode32(block.previousBlockhash)!,
      block.blockHeight,
      time,
      bodies.length,
      isVerbatim ? 1 : 0,
      text.subarray(0, from),
      text.subarray(to),
    ]);
    for (const tx of block.transactions) {
      const { index, isVote, fee } = tx;
      const signature = tx.signatures[0]!;
      const success = tx.error === null ? 1 : 0;
      this.put('transactions', [slot, index, signature, isVote ? 1 : 0, success, fee, time, bodies[index]!]);
      this.put('signatures', [signature, slot, index]);
      const ids = new Set([...tx.keys, ...tx.tokenOwners]);
      if (isVote) {
        for (const id of ids) this.putVoter(keys.base58(id), slot);
        continue;
      }
      const error = tx.error === null ? '' : JSON.stringify(tx.error);
      const memo = memoOf(tx, keys);
      const changed = changedOwners(tx);
      for (const id of ids) {
        if (leftOut.has(keys.base58(id))) continue;
        const at = tx.keys.indexOf(id);
        const key = at < 0 ? null : at < tx.staticKeyCount ? 'static' : 'loaded';
        const owner = !tx.tokenOwners.includes(id) ? null : changed.has(id) ? 'changed' : 'unchanged';
        const flags = [KEYS.indexOf(key), OWNERS.indexOf(owner)];
        this.put('addresses', [keys.bytes(id), slot, index, signature, ...flags, time, error, memo]);
      }
    }
  }

  private putVoter(address: string, slot: number): void {
    if (this.seen.has(address) || leftOut.has(address)) return;
    this.seen.add(address);
    this.put('voters', [decode32(address)!, slot]);
  }

  /** Inserts all rows, and then the range that they complete. Errors: those of the engine. */
  async insert(engine: ArchiveEngine, { first, last, blockhash }: CompleteRange): Promise<void> {
    for (const name of NAMES) {
      const lines = this.parts[name];
      if (lines.length > 0) await engine.insert(name, Buffer.from(lines.join(''), 'latin1'));
    }
    const range = [first, last, decode32(blockhash)!].map(fieldOf).join('\t');
    await engine.insert('ranges', Buffer.from(`${range}\n`, 'latin1'));
  }
}

const ESCAPED: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\0': '\\0', '\r': '\\r' };
const SPECIAL = /[\\\t\n\0\r]/g;

/** Bytes as characters of one byte each. */
function fieldOf(value: Value): string {
  if (value === null) return '\\N';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  const bytes =
    typeof value === 'string' ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.length);
  return bytes.toString('latin1').replace(SPECIAL, (found) => ESCAPED[found]!);
}
