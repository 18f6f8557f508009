import { encode } from '../../lib/base58.ts';
import { parseInner, parseInstruction } from '../../solana/json-parsed/instruction.ts';
import { base64, exact } from '../../solana/json-parsed/layout.ts';
import type { LedgerBlock, TransactionRecord } from '../ledger/state.ts';
import { isStaticWritable } from '../vm/transaction.ts';
import { RPC, rpcError } from './params.ts';

export type TransactionEncoding = 'json' | 'jsonParsed' | 'base58' | 'base64';
export type BlockDetails = 'full' | 'accounts' | 'signatures' | 'none';

export interface BlockOptions {
  readonly encoding: TransactionEncoding;
  readonly details: BlockDetails;
  /** Newest message version that the client accepts; null = none given. */
  readonly maxVersion: number | null;
  readonly rewards: boolean;
}

/** Stack height of an instruction of the message itself. */
const OUTER = 1;

/** A block as in `getBlock`. Throws -32015 for a versioned transaction that the client does not accept. */
export function blockJson(block: LedgerBlock, options: BlockOptions) {
  const { encoding, details, maxVersion } = options;
  const transactions =
    details === 'full'
      ? { transactions: block.records.map((record) => transactionJson(record, encoding, maxVersion)) }
      : details === 'accounts'
        ? { transactions: block.records.map((record) => accountsJson(record, maxVersion)) }
        : details === 'signatures'
          ? { signatures: block.records.map((record) => record.signature) }
          : {};
  return {
    blockHeight: block.height,
    blockTime: block.time,
    blockhash: block.blockhash,
    parentSlot: block.parentSlot,
    previousBlockhash: block.previousBlockhash,
    ...(options.rewards ? { rewards: [] } : {}),
    ...transactions,
  };
}

export function transactionJson(record: TransactionRecord, encoding: TransactionEncoding, maxVersion: number | null) {
  const version = versionField(record, maxVersion);
  const { bytes } = record.transaction;
  if (encoding === 'base64') return { meta: record.meta, transaction: [base64(bytes), 'base64'], ...version };
  if (encoding === 'base58') return { meta: record.meta, transaction: [encode(bytes), 'base58'], ...version };
  if (encoding === 'json') return { meta: record.meta, transaction: plainJson(record), ...version };
  return { meta: parsedMeta(record), transaction: parsedJson(record), ...version };
}

function versionField(record: TransactionRecord, maxVersion: number | null) {
  const { version } = record.transaction;
  if (version !== 'legacy' && (maxVersion === null || maxVersion < version)) {
    throw rpcError(
      RPC.unsupportedVersion,
      `Transaction version (${version}) is not supported by the requesting client. Please try the request again with the following configuration parameter: "maxSupportedTransactionVersion": ${version}`,
    );
  }
  return maxVersion === null ? {} : { version };
}

function plainJson({ transaction }: TransactionRecord) {
  return {
    message: {
      accountKeys: transaction.staticKeys,
      ...tableLookups(transaction),
      header: transaction.header,
      instructions: transaction.instructions.map((item) => ({
        accounts: item.accounts,
        data: encode(item.data),
        programIdIndex: item.programIdIndex,
        stackHeight: OUTER,
      })),
      recentBlockhash: transaction.recentBlockhash,
      ...configJson(transaction),
    },
    signatures: transaction.signatures,
  };
}

function tableLookups(transaction: TransactionRecord['transaction']) {
  return transaction.version === 0 ? { addressTableLookups: transaction.lookups } : {};
}

function configJson({ config }: TransactionRecord['transaction']) {
  if (config === null) return {};
  const { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit, priorityFee } = config;
  const fee = priorityFee === null ? null : exact(priorityFee);
  return { transactionConfig: { computeUnitLimit, heapSize, loadedAccountsDataSizeLimit, priorityFee: fee } };
}

function parsedJson(record: TransactionRecord) {
  const { transaction, keys } = record;
  return {
    message: {
      accountKeys: accountKeys(record),
      ...tableLookups(transaction),
      instructions: transaction.instructions.map((item) => parseInstruction(item, keys, OUTER)),
      recentBlockhash: transaction.recentBlockhash,
      ...configJson(transaction),
    },
    signatures: transaction.signatures,
  };
}

/** With parsed keys Agave omits `loadedAddresses`: the keys contain their source. */
function parsedMeta({ meta, keys }: TransactionRecord) {
  const { loadedAddresses: _, ...rest } = meta;
  return {
    ...rest,
    innerInstructions: meta.innerInstructions === null ? null : parseInner(meta.innerInstructions ?? [], keys),
  };
}

function accountKeys({ transaction, keys, meta }: TransactionRecord) {
  const statics = transaction.staticKeys.length;
  const loadedWritable = meta.loadedAddresses?.writable.length ?? 0;
  return keys.map((pubkey, index) => ({
    pubkey,
    signer: index < transaction.header.numRequiredSignatures,
    source: index < statics ? 'transaction' : 'lookupTable',
    writable: index < statics ? isStaticWritable(transaction, index) : index < statics + loadedWritable,
  }));
}

function accountsJson(record: TransactionRecord, maxVersion: number | null) {
  const version = versionField(record, maxVersion);
  const { err, status, fee, preBalances, postBalances, preTokenBalances, postTokenBalances, rewards } = record.meta;
  return {
    meta: { err, status, fee, preBalances, postBalances, preTokenBalances, postTokenBalances, rewards },
    transaction: { accountKeys: accountKeys(record), signatures: record.transaction.signatures },
    ...version,
  };
}
