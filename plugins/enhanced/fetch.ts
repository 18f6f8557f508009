import { type CallContext, type ChainReader, codeOf } from '../../src/plugin/plugin.ts';
import { RequestError } from '../../src/plugin/request.ts';
import type { NormalTransaction } from '../../src/ports/block.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import type { Random } from '../../src/ports/clock.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import type { ParserBlock } from '../../src/solana/parsers/parser.ts';
import type { EnhancedConfig } from './config.ts';

/** A transaction with as much of its block as it takes to read it. */
export interface FetchedTransaction {
  readonly transaction: NormalTransaction;
  readonly block: ParserBlock;
}

export interface SignatureRow {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime?: number | null;
}

interface PageOptions {
  readonly before: string | null;
  readonly until: string | null;
  readonly limit: number;
  readonly commitment: Commitment;
}

/** For whom the chain is asked, and until when. */
export type Asker = Pick<CallContext, 'signal' | 'tenant'>;

/** Transactions of the main chain. Errors: RequestError 503 where the upstream refuses, else those of `ChainReader.call`. */
export interface Transactions {
  /** In the order asked for; null for one that the chain does not have. */
  fetch(
    signatures: readonly string[],
    commitment: Commitment,
    asker: Asker,
  ): Promise<readonly (FetchedTransaction | null)[]>;
  /** The newest signatures of an address, newest first. */
  page(address: string, options: PageOptions, asker: Asker): Promise<readonly SignatureRow[]>;
}

interface TransactionsParts {
  /** Known from the start of the plugin on. */
  readonly chain: () => ChainReader | null;
  readonly random: Random;
  readonly config: Pick<EnhancedConfig, 'concurrency' | 'upstreamTimeoutMs'>;
}

interface RpcTransaction {
  readonly slot: number;
  readonly blockTime?: number | null;
}

const SEED_BYTES = 32;
/** A version beyond the newest that exists would be refused by nodes. */
const MOST_VERSION = 1;

export function createTransactions({ chain, random, config }: TransactionsParts): Transactions {
  async function call<T>(method: string, params: readonly unknown[], asker: Asker): Promise<T> {
    const reader = chain();
    if (reader === null) throw new RequestError(503, 'Service unavailable: no Solana upstream is configured');
    return refusedAs503(method, reader.call<T>(method, params, { ...asker, timeoutMs: config.upstreamTimeoutMs }));
  }

  async function one(signature: string, commitment: Commitment, asker: Asker) {
    const options = { encoding: 'json', commitment, maxSupportedTransactionVersion: MOST_VERSION };
    const answer = await call<RpcTransaction | null>('getTransaction', [signature, options], asker);
    return answer === null ? null : decodeFetched(answer, random);
  }

  return {
    async fetch(signatures, commitment, asker) {
      const found: (FetchedTransaction | null)[] = new Array(signatures.length).fill(null);
      const work = signatures.entries();
      const worker = async (): Promise<void> => {
        for (const [at, signature] of work) found[at] = await one(signature, commitment, asker);
      };
      await Promise.all(Array.from({ length: Math.min(config.concurrency, signatures.length) }, worker));
      return found;
    },
    page(address, { before, until, limit, commitment }, asker) {
      const options = { limit, commitment, ...(before && { before }), ...(until && { until }) };
      return call<readonly SignatureRow[]>('getSignaturesForAddress', [address, options], asker);
    },
  };
}

/** Errors: CHAIN_BAD_BLOCK when the answer contradicts itself. */
function decodeFetched(answer: RpcTransaction, random: Random): FetchedTransaction {
  const { transactions, keys } = decodeEntries(answer.slot, [answer], Uint8Array.from(random.bytes(SEED_BYTES)));
  return { transaction: transactions[0]!, block: { slot: answer.slot, blockTime: answer.blockTime ?? null, keys } };
}

/** What the upstream refuses is no answer of ours: nothing is known then. Other errors have words of their own. */
async function refusedAs503<T>(method: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    throw new RequestError(503, `Service unavailable: the Solana upstream refused ${method}`, { cause: error });
  }
}
