import { stringify } from '../../../src/lib/json.ts';
import { lazy } from '../../../src/lib/lazy.ts';
import type { ChainBlock, NormalTransaction, TokenBalance } from '../../../src/ports/block.ts';
import type { SinkRow } from '../../../src/ports/sink.ts';
import { type AssetChange, assetPrograms, readAssetChanges } from '../../../src/solana/assets/changes.ts';
import type { AccountUse, ProgramInterface } from '../../../src/solana/idl/interface.ts';
import { isWritableAt } from '../../../src/solana/idl/parse-transaction.ts';
import { walkInstructions } from '../../../src/solana/movements/movement.ts';
import { readTransfers, type TransferRow } from '../../../src/solana/movements/transfers.ts';
import type { CompiledFilter } from './filter.ts';

/** The interface of a program; null where none is known. */
export type FindProgram = (address: string) => ProgramInterface | null;

export interface RowParts {
  readonly filter: CompiledFilter;
  /** Names of the tables that are wanted. */
  readonly tables: ReadonlySet<string>;
  /** Has to give the same for the same program as long as rows are compared. */
  readonly find: FindProgram;
}

export type AddRow = (table: string, row: SinkRow) => void;

/** Rows of a block in the order of their keys. Pure: the same block always gives the same rows. */
export function readRows(given: ChainBlock, { filter, tables, find }: RowParts, add: AddRow): void {
  const block = withTime(given);
  const { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime } = block;
  const put: AddRow = (table, row) => {
    if (tables.has(table)) add(table, row);
  };
  put('blocks', [slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime, block.transactions.length]);
  const programs = lazy(() => assetPrograms(block.keys));
  for (const tx of block.transactions) {
    if (!filter.admits(tx, block)) continue;
    const transfers = lazy(() => readTransfers(tx, block.keys));
    const rows: (readonly [string, SinkRow])[] = [];
    const take: AddRow = (table, row) => void rows.push([table, row]);
    // If the filter drops a transaction for its movements, none of its rows are written.
    if (filter.needsMovement || tables.has('transfers'))
      addTransfers(tx, block, { transfers: transfers(), filter }, take);
    if (filter.needsMovement || tables.has('balance_changes')) addChanges(tx, block, filter, take);
    if (filter.needsMovement || tables.has('asset_changes'))
      addAssetChanges(tx, block, { changes: readAssetChanges(tx, block.keys, programs(), transfers), filter }, take);
    if (filter.needsMovement && rows.length === 0) continue;
    if (tables.has('transactions')) take('transactions', transactionRow(tx, block));
    if (tables.has('instructions')) addInstructions(tx, block, { filter, find }, take);
    if (tables.has('logs')) addLogs(tx, block, filter, take);
    for (const [table, row] of rows) put(table, row);
  }
}

/** The years that every target has. */
const MAX_TIME = 253_402_300_799;

/** A time that some target cannot hold counts as unknown. */
export const validTime = (time: number | null): number | null =>
  time !== null && Number.isInteger(time) && time >= 0 && time <= MAX_TIME ? time : null;

function withTime(block: ChainBlock): ChainBlock {
  const blockTime = validTime(block.blockTime);
  return blockTime === block.blockTime ? block : { ...block, blockTime };
}

/** PostgreSQL has no U+0000 in texts, UTF-8 no lone surrogates. */
const plain = (text: string): string => Buffer.from(text.replaceAll('\0', '\uFFFD')).toString();

function transactionRow(tx: NormalTransaction, { slot, blockTime, keys }: ChainBlock): SinkRow {
  const units = tx.meta?.['computeUnitsConsumed'];
  return [
    slot,
    tx.index,
    blockTime,
    tx.signature,
    tx.version === 'legacy' ? null : tx.version,
    tx.isVote,
    tx.error === null,
    tx.error === null ? null : plain(stringify(tx.error)),
    tx.keys.length === 0 ? '' : keys.base58(tx.keys[0]!),
    BigInt(tx.fee),
    typeof units === 'number' || typeof units === 'bigint' ? BigInt(units) : null,
    Array.from(tx.keys, (id) => keys.base58(id)),
  ];
}

function addInstructions(
  tx: NormalTransaction,
  { slot, keys }: ChainBlock,
  { filter, find }: Pick<RowParts, 'filter' | 'find'>,
  add: AddRow,
): void {
  const signers = tx.header.numRequiredSignatures;
  const useAt = (at: number): AccountUse => ({
    pubkey: at < tx.keys.length ? keys.base58(tx.keys[at]!) : '',
    isSigner: at < signers,
    isWritable: isWritableAt(tx, at),
  });
  walkInstructions(tx).forEach((step, position) => {
    const program = step.program < 0 ? '' : keys.base58(step.program);
    if (!filter.program(program)) return;
    const uses = Array.from(step.accounts, useAt);
    const known = find(program);
    const decoded = known?.decode(step.data, uses, program) ?? null;
    const call = decoded ?? known?.callOf(step.data, uses, program) ?? null;
    add('instructions', [
      slot,
      tx.index,
      position,
      step.outer,
      step.inner < 0 ? null : step.inner,
      step.inner < 0 ? 1 : stackHeightOf(tx, step),
      program,
      known?.name ?? null,
      call?.name ?? null,
      decoded === null ? null : plain(stringify(decoded.args)),
      uses.map(({ pubkey }) => pubkey),
      step.data,
    ]);
  });
}

const stackHeightOf = (tx: NormalTransaction, { outer, inner }: { outer: number; inner: number }): number | null => {
  const group = tx.innerInstructions.find(({ index }) => index === outer);
  return group?.instructions[inner]?.stackHeight ?? null;
};

function addTransfers(
  tx: NormalTransaction,
  block: ChainBlock,
  { transfers, filter }: { readonly transfers: readonly TransferRow[]; readonly filter: CompiledFilter },
  add: AddRow,
): void {
  transfers.forEach((transfer, position) => {
    if (!filter.kind(transfer.type) || !filter.mint(transfer.mint)) return;
    if (!filter.owners(transfer.from, transfer.to)) return;
    add('transfers', [
      block.slot,
      tx.index,
      position,
      block.blockTime,
      tx.signature,
      transfer.outer,
      transfer.inner < 0 ? null : transfer.inner,
      transfer.type,
      transfer.from,
      transfer.to,
      transfer.fromAccount,
      transfer.toAccount,
      transfer.mint,
      transfer.amount,
      transfer.decimals,
      transfer.fee,
    ]);
  });
}

function addAssetChanges(
  tx: NormalTransaction,
  { slot, blockTime }: ChainBlock,
  { changes, filter }: { readonly changes: readonly AssetChange[]; readonly filter: CompiledFilter },
  add: AddRow,
): void {
  changes.forEach(({ standard, operation, asset, metadata, owner, collection, leaf }, position) => {
    if (!filter.asset(asset) || !filter.owners(owner)) return;
    add('asset_changes', [
      slot,
      tx.index,
      position,
      blockTime,
      tx.signature,
      standard,
      operation,
      asset,
      metadata,
      owner,
      collection,
      leaf?.tree ?? null,
      leaf?.index ?? null,
      leaf === null ? null : BigInt(leaf.seq),
    ]);
  });
}

const SOL_DECIMALS = 9;

function addChanges(tx: NormalTransaction, block: ChainBlock, filter: CompiledFilter, add: AddRow): void {
  const { slot, keys, blockTime } = block;
  let position = 0;
  const put = (facts: {
    readonly account: string;
    readonly owner: string | null;
    readonly mint: string | null;
    readonly decimals: number;
    readonly before: bigint;
    readonly after: bigint;
  }) => {
    const { account, owner, mint, decimals, before, after } = facts;
    if (before === after) return;
    const at = position;
    position += 1;
    // A filter of kinds is about transfers alone.
    if (!filter.mint(mint) || !filter.owners(owner ?? account)) return;
    add('balance_changes', [
      slot,
      tx.index,
      at,
      blockTime,
      tx.signature,
      account,
      owner,
      mint,
      decimals,
      before,
      after,
    ]);
  };
  for (let at = 0; at < tx.keys.length; at++)
    put({
      account: keys.base58(tx.keys[at]!),
      owner: null,
      mint: null,
      decimals: SOL_DECIMALS,
      before: BigInt(tx.preBalances[at] ?? 0),
      after: BigInt(tx.postBalances[at] ?? 0),
    });
  for (const [before, after] of pairsOf(tx)) {
    const one = (after ?? before)!;
    const accountId = tx.keys[one.accountIndex];
    const ownerId = one.ownerKey >= 0 ? one.ownerKey : (before?.ownerKey ?? -1);
    put({
      account: accountId === undefined ? '' : keys.base58(accountId),
      owner: ownerId < 0 ? null : keys.base58(ownerId),
      mint: one.mintKey < 0 ? '' : keys.base58(one.mintKey),
      decimals: one.decimals,
      before: BigInt(before?.amount ?? 0),
      after: BigInt(after?.amount ?? 0),
    });
  }
}

type Pair = readonly [before: TokenBalance | undefined, after: TokenBalance | undefined];

/** Token balances before and after by account; an account that changed its owner or mint has two: what left, and what came. */
function pairsOf({ preTokenBalances, postTokenBalances }: NormalTransaction): readonly Pair[] {
  const later = new Map(postTokenBalances.map((balance) => [balance.accountIndex, balance]));
  const pairs: Pair[] = [];
  for (const before of preTokenBalances) {
    const after = later.get(before.accountIndex);
    later.delete(before.accountIndex);
    const isSame =
      after === undefined ||
      (after.mintKey === before.mintKey &&
        (after.ownerKey === before.ownerKey || after.ownerKey < 0 || before.ownerKey < 0));
    if (isSame) pairs.push([before, after]);
    else pairs.push([before, undefined], [undefined, after]);
  }
  for (const after of later.values()) pairs.push([undefined, after]);
  return pairs.sort((left, right) => accountOf(left) - accountOf(right));
}

const accountOf = ([before, after]: Pair): number => (before ?? after)!.accountIndex;

const INVOKE = /^Program ([1-9A-HJ-NP-Za-km-z]{32,44}) invoke \[(\d{1,3})\]$/;
const END = /^Program ([1-9A-HJ-NP-Za-km-z]{32,44}) (?:success$|failed)/;

/** The stack of programs is known from the lines alone: a program can log nothing that begins like its start. */
function addLogs(tx: NormalTransaction, { slot }: ChainBlock, filter: CompiledFilter, add: AddRow): void {
  const stack: string[] = [];
  (tx.logMessages ?? []).forEach((line, position) => {
    const begun = INVOKE.exec(line);
    if (begun !== null) {
      stack.length = Math.min(stack.length, Number(begun[2]) - 1);
      stack.push(begun[1]!);
    }
    const program = stack.at(-1) ?? null;
    if (END.exec(line)?.[1] === program) stack.pop();
    if (line === 'Log truncated') stack.length = 0;
    if (filter.program(program)) add('logs', [slot, tx.index, position, program, plain(line)]);
  });
}
