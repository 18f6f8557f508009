import { encode, encode32, encode64 } from '../lib/base58.ts';
import { isPlainObject, parseExact } from '../lib/json.ts';
import type { ChainBlock, NormalTransaction, TransactionConfig } from '../ports/block.ts';
import { exact } from './json-parsed/layout.ts';
import type { RpcMeta, RpcTokenBalance } from './rpc-json.ts';

export interface RawTransactionOptions {
  /** Include keys of the node beyond the documented ones of `meta` and of inner instructions; default false. */
  readonly extraKeys?: boolean;
  /** Position in the block when it differs from `tx.index`, as for a transaction that was fetched alone. */
  readonly indexWithinBlock?: number;
}

/** The parts of a transaction's block that the element contains. */
export type RawTransactionBlock = Pick<ChainBlock, 'slot' | 'blockTime' | 'keys'>;

/**
 * The element of a `raw` webhook body: the transaction as in `getBlock` with encoding json, whatever encoding was received. What could not
 * be read is as the node sent it: `transaction` of an opaque one, and a `meta` with a member that is missing or has another form.
 * Integers that a double cannot hold are bigints. Keys are in alphabetical order at every level; lists that the node omitted are empty. Parts of `meta` are shared, not copied.
 */
export function rawTransaction(
  tx: NormalTransaction,
  block: RawTransactionBlock,
  options: RawTransactionOptions = {},
): Record<string, unknown> {
  const extraKeys = options.extraKeys ?? false;
  const indexWithinBlock = options.indexWithinBlock ?? tx.index;
  if (tx.isOpaque) {
    const entry = parseExact(tx.entryText.toString());
    const { transaction = null, version = tx.version } = isPlainObject(entry) ? entry : {};
    return { blockTime: block.blockTime, indexWithinBlock, meta: tx.meta, slot: block.slot, transaction, version };
  }
  return {
    blockTime: block.blockTime,
    indexWithinBlock,
    meta:
      tx.fault?.kind === 'meta'
        ? tx.meta
        : extraKeys
          ? inOrder({ ...tx.meta, ...rawMeta(tx, block, true) })
          : rawMeta(tx, block, false),
    slot: block.slot,
    transaction: {
      message: rawMessage(tx, block),
      // The first one exists already, as the id of the transaction.
      signatures: tx.signatures.map((signature, at) => (at === 0 ? tx.signature : encode64(signature))),
    },
    version: tx.version,
  };
}

function rawMeta(tx: NormalTransaction, block: RawTransactionBlock, extraKeys: boolean): Record<string, unknown> {
  const meta = (tx.meta ?? {}) as Partial<RpcMeta>;
  const firstReadonly = tx.staticKeyCount + tx.loadedWritableCount;
  const text = (id: number): string => block.keys.base58(id);
  return {
    err: tx.error,
    fee: tx.fee,
    innerInstructions: (meta.innerInstructions ?? []).map((group) => ({
      index: group.index,
      instructions: group.instructions.map(({ accounts, data, programIdIndex, stackHeight }) =>
        extraKeys && stackHeight !== undefined
          ? { accounts, data, programIdIndex, stackHeight }
          : { accounts, data, programIdIndex },
      ),
    })),
    loadedAddresses: {
      readonly: Array.from(tx.keys.subarray(firstReadonly), text),
      writable: Array.from(tx.keys.subarray(tx.staticKeyCount, firstReadonly), text),
    },
    logMessages: tx.logMessages ?? [],
    postBalances: tx.postBalances,
    postTokenBalances: (meta.postTokenBalances ?? []).map(rawTokenBalance),
    preBalances: tx.preBalances,
    preTokenBalances: (meta.preTokenBalances ?? []).map(rawTokenBalance),
    rewards: meta.rewards ?? [],
  };
}

/** Members that the node omitted are absent in the JSON text. */
function rawTokenBalance({ accountIndex, mint, owner, programId, uiTokenAmount }: RpcTokenBalance): object {
  const { amount, decimals, uiAmount, uiAmountString } = uiTokenAmount;
  return {
    accountIndex,
    mint,
    ...(owner === undefined ? {} : { owner }),
    ...(programId === undefined ? {} : { programId }),
    uiTokenAmount: {
      amount,
      decimals,
      ...(uiAmount === undefined ? {} : { uiAmount }),
      ...(uiAmountString === undefined ? {} : { uiAmountString }),
    },
  };
}

function rawMessage(tx: NormalTransaction, block: RawTransactionBlock): Record<string, unknown> {
  const { numReadonlySignedAccounts, numReadonlyUnsignedAccounts, numRequiredSignatures } = tx.header;
  return {
    accountKeys: Array.from(tx.keys.subarray(0, tx.staticKeyCount), (id) => block.keys.base58(id)),
    addressTableLookups:
      // Only version 0 has lookup tables.
      tx.version === 'legacy' || tx.config !== null
        ? null
        : tx.addressTableLookups.map((lookup) => ({
            accountKey: block.keys.base58(lookup.tableKey),
            readonlyIndexes: Array.from(lookup.readonlyIndexes),
            writableIndexes: Array.from(lookup.writableIndexes),
          })),
    header: { numReadonlySignedAccounts, numReadonlyUnsignedAccounts, numRequiredSignatures },
    instructions: tx.instructions.map(({ accounts, data, programIndex }) => ({
      accounts: Array.from(accounts),
      data: encode(data),
      programIdIndex: programIndex,
    })),
    recentBlockhash: encode32(tx.recentBlockhash),
    ...(tx.config === null ? {} : { transactionConfig: rawConfig(tx.config) }),
  };
}

function rawConfig({ priorityFee, ...limits }: TransactionConfig): Record<string, unknown> {
  const { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit } = limits;
  const fee = priorityFee === null ? null : exact(priorityFee);
  return { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit, priorityFee: fee };
}

/** Sorts the members of all objects by name. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(members.map(([name, member]) => [name, inOrder(member)]));
}
