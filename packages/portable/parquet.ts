import type { FileHandle } from 'node:fs/promises';
import { encode64 } from '../../src/lib/base58.ts';
import { parseExact } from '../../src/lib/json.ts';
import {
  type AmountForm,
  type ParquetColumn,
  type ParquetValue,
  parquetSchemaOf,
  parquetSizeOf,
  sourceOf,
  withAmounts,
} from '../../src/lib/parquet-columns.ts';
import type { ChainBlock, NormalInstruction, NormalTransaction, TokenBalance } from '../../src/ports/block.ts';
import { bigOf, type FullMeta } from '../../src/solana/stored-meta.ts';

/** Blocks as four Parquet tables. Addresses, hashes and signatures are base58 text; amounts are raw units. */

/** Rows are written in groups of about this size in memory: a reader needs whole groups, and so does the writer. */
const GROUP_BYTES = 24 * 1_048_576;

const TABLES = {
  blocks: [
    ['slot', 'INT64'],
    ['parent_slot', 'INT64'],
    ['blockhash', 'TEXT'],
    ['previous_blockhash', 'TEXT'],
    ['block_time', 'TIME', 'null'],
    ['block_height', 'INT64', 'null'],
    ['transactions', 'INT32'],
  ],
  transactions: [
    ['slot', 'INT64'],
    ['transaction_index', 'INT32'],
    ['block_time', 'TIME', 'null'],
    ['signature', 'TEXT'],
    ['signatures', 'TEXT', 'list'],
    ['version', 'INT32', 'null'],
    ['is_vote', 'BOOLEAN'],
    ['success', 'BOOLEAN'],
    ['error', 'TEXT', 'null'],
    ['fee_payer', 'TEXT'],
    ['fee', 'UINT64'],
    ['compute_units', 'INT64', 'null'],
    ['account_keys', 'TEXT', 'list'],
    ['pre_balances', 'UINT64', 'list'],
    ['post_balances', 'UINT64', 'list'],
    ['log_messages', 'TEXT', 'list'],
  ],
  instructions: [
    ['slot', 'INT64'],
    ['transaction_index', 'INT32'],
    ['instruction_index', 'INT32'],
    ['inner_index', 'INT32', 'null'],
    ['program', 'TEXT'],
    ['accounts', 'TEXT', 'list'],
    ['data', 'BYTES'],
    ['stack_height', 'INT32', 'null'],
  ],
  token_balances: [
    ['slot', 'INT64'],
    ['transaction_index', 'INT32'],
    ['account', 'TEXT'],
    ['mint', 'TEXT', 'null'],
    ['owner', 'TEXT', 'null'],
    ['program', 'TEXT', 'null'],
    ['decimals', 'INT32'],
    ['pre_amount', 'UINT64', 'null'],
    ['post_amount', 'UINT64', 'null'],
  ],
} as const satisfies Record<string, readonly ParquetColumn[]>;

interface Table {
  add(values: readonly ParquetValue[]): void;
  /** Writes the rows that were added when they are many, or `isLast`. */
  flush(isLast?: boolean): Promise<void>;
}

/** `files`: one for each table, in their order. The rows of a block are added at once or not at all. */
export async function createParquetWriter(files: readonly FileHandle[], amounts: AmountForm) {
  const { ByteWriter, ParquetWriter } = await import('hyparquet-writer');

  function tableOf(name: keyof typeof TABLES, file: FileHandle): Table {
    const columns = withAmounts(TABLES[name], amounts);
    const writer = new ByteWriter(1_048_576);
    const parquet = new ParquetWriter({
      writer,
      schema: parquetSchemaOf(columns),
      createdBy: 'parhelion',
    });
    let rows: ParquetValue[][] = columns.map(() => []);
    let [bytes, place] = [0, 0];
    const drain = async () => {
      const part = writer.getBytes();
      for (let done = 0; done < part.length; )
        done += (await file.write(part, done, part.length - done, place + done)).bytesWritten;
      place += part.length;
      writer.index = 0;
    };
    return {
      add(values) {
        for (const [at, value] of values.entries()) {
          rows[at]!.push(value);
          bytes += parquetSizeOf(value);
        }
      },
      async flush(isLast = false) {
        if (bytes >= GROUP_BYTES || (isLast && rows[0]!.length > 0)) {
          const count = rows[0]!.length;
          await parquet.write({
            columnData: columns.map((column, at) => sourceOf(column, rows[at]!)),
            rowGroupSize: count,
          });
          [rows, bytes] = [columns.map(() => []), 0];
          await drain();
        }
        if (!isLast) return;
        await parquet.finish();
        await drain();
      },
    };
  }

  const names = Object.keys(TABLES) as (keyof typeof TABLES)[];
  const [blocks, transactions, instructions, balances] = names.map((name, at) => tableOf(name, files[at]!));
  const tables = [blocks!, transactions!, instructions!, balances!];

  function addTransaction(block: ChainBlock, transaction: NormalTransaction, meta: FullMeta): void {
    const { slot, keys: table } = block;
    const { index } = transaction;
    const key = (at: number) => table.base58(transaction.keys[at]!);
    const keyOrNull = (id: number) => (id < 0 ? null : table.base58(id));
    transactions!.add([
      slot,
      index,
      timeOf(block),
      transaction.signature,
      transaction.signatures.map((each) => encode64(each)),
      transaction.version === 'legacy' ? null : transaction.version,
      transaction.isVote,
      meta.err === null,
      meta.err === null ? null : JSON.stringify(meta.err),
      key(0),
      BigInt(meta.fee),
      meta.computeUnitsConsumed ?? null,
      Array.from(transaction.keys, (id) => table.base58(id)),
      meta.preBalances.map(bigOf),
      meta.postBalances.map(bigOf),
      meta.logMessages ?? null,
    ]);
    const addInstruction = (at: number, inner: number | null, one: NormalInstruction, height: number | null) =>
      instructions!.add([
        slot,
        index,
        at,
        inner,
        key(one.programIndex),
        Array.from(one.accounts, key),
        one.data,
        height,
      ]);
    for (const [at, instruction] of transaction.instructions.entries()) {
      addInstruction(at, null, instruction, 1);
      for (const group of transaction.innerInstructions)
        if (group.index === at)
          for (const [inner, one] of group.instructions.entries()) addInstruction(at, inner, one, one.stackHeight);
    }
    const after = new Map(transaction.postTokenBalances.map((balance) => [balance.accountIndex, balance]));
    const addBalance = (balance: TokenBalance, both: readonly [bigint | null, bigint | null]) =>
      balances!.add([
        slot,
        index,
        key(balance.accountIndex),
        keyOrNull(balance.mintKey),
        keyOrNull(balance.ownerKey),
        keyOrNull(balance.programKey),
        balance.decimals,
        ...both,
      ]);
    for (const balance of transaction.preTokenBalances) {
      const later = after.get(balance.accountIndex);
      after.delete(balance.accountIndex);
      addBalance(later ?? balance, [BigInt(balance.amount), later === undefined ? null : BigInt(later.amount)]);
    }
    for (const balance of after.values()) addBalance(balance, [null, BigInt(balance.amount)]);
  }

  return {
    async add(block: ChainBlock): Promise<void> {
      const { slot, parentSlot, blockhash, previousBlockhash, blockHeight } = block;
      const text = block.answer!.text().toString();
      const answer = parseExact(text) as { readonly transactions: readonly { readonly meta: FullMeta }[] };
      const count = block.transactions.length;
      blocks!.add([slot, parentSlot, blockhash, previousBlockhash, timeOf(block), blockHeight, count]);
      for (const transaction of block.transactions)
        addTransaction(block, transaction, answer.transactions[transaction.index]!.meta);
      for (const table of tables) await table.flush();
    },
    async end(): Promise<void> {
      for (const table of tables) await table.flush(true);
    },
  };
}

const timeOf = ({ blockTime }: ChainBlock): number | null => (blockTime === null ? null : blockTime * 1_000);
