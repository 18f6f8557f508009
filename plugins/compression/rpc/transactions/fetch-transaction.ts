import { type ChainReader, CodedError, messageOf } from '../../../../src/kernel/plugin.ts';
import type { ChainBlock } from '../../../../src/ports/block.ts';
import { decodeTransaction } from '../../../../src/solana/decode/decode-transaction.ts';
import { notFound, unavailable } from '../errors.ts';

export interface FetchedTransaction {
  /** The upstream's answer as it came. */
  readonly text: string;
  /** A block that holds just this transaction. */
  readonly block: ChainBlock;
}

/** A version beyond the newest that exists would be refused by nodes. */
const MOST_VERSION = 1;

/** Reads a transaction from the chain. Errors: -32000 when there is none; -32002; those of the upstreams. */
export async function fetchTransaction(
  chain: ChainReader | null,
  signature: string,
  signal: AbortSignal,
): Promise<FetchedTransaction> {
  if (chain === null) throw unavailable('no Solana upstream is configured');
  const options = { encoding: 'base64', commitment: 'confirmed', maxSupportedTransactionVersion: MOST_VERSION };
  const text = await ask(chain, [signature, options], signal);
  if (text === 'null') throw notFound('Transaction not found');
  return { text, block: read(text) };
}

async function ask(chain: ChainReader, params: readonly unknown[], signal: AbortSignal): Promise<string> {
  try {
    return await chain.callText('getTransaction', params, { signal });
  } catch (error) {
    if (error instanceof CodedError && (error.code === 'CHAIN_RPC_ERROR' || error.code === 'CHAIN_BAD_RESPONSE'))
      throw unavailable(`the Solana upstream cannot give the transaction: ${messageOf(error)}`);
    throw error;
  }
}

function read(text: string): ChainBlock {
  try {
    return decodeTransaction(JSON.parse(text));
  } catch (error) {
    throw unavailable(`the Solana upstream gave a transaction that cannot be read: ${messageOf(error)}`);
  }
}
