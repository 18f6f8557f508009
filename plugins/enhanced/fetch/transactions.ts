import type { ChainReader } from '../../../src/kernel/plugin.ts';
import { RequestError } from '../../../src/kernel/request.ts';
import type { NormalTransaction } from '../../../src/ports/block.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { Random } from '../../../src/ports/clock.ts';
import { decodeEntries } from '../../../src/solana/decode/decode-block.ts';
import type { ParserBlock } from '../../../src/solana/parsers/view.ts';
import type { EnhancedConfig } from '../config.ts';
import { refusedAs503 } from './refused.ts';

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

export interface PageOptions {
  readonly before: string | null;
  readonly until: string | null;
  readonly limit: number;
  readonly commitment: Commitment;
}

/** Transactions of the main chain. Errors: RequestError 503 where the upstream refuses, else those of `ChainReader.call`. */
export interface Transactions {
  /** In the order asked for; null for one that the chain does not have. */
  fetch(
    signatures: readonly string[],
    commitment: Commitment,
    signal: AbortSignal,
  ): Promise<readonly (FetchedTransaction | null)[]>;
  /** The newest signatures of an address, newest first. */
  page(address: string, options: PageOptions, signal: AbortSignal): Promise<readonly SignatureRow[]>;
}

export interface TransactionsParts {
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

export function createTransactions({ chain, random, config }: TransactionsParts): Transactions {
  async function call<T>(method: string, params: readonly unknown[], signal: AbortSignal): Promise<T> {
    const reader = chain();
    if (reader === null) throw new RequestError(503, 'Service unavailable: no Solana upstream is configured');
    return refusedAs503(method, reader.call<T>(method, params, { signal, timeoutMs: config.upstreamTimeoutMs }));
  }

  async function one(signature: string, commitment: Commitment, signal: AbortSignal) {
    const options = { encoding: 'json', commitment, maxSupportedTransactionVersion: 0 };
    const answer = await call<RpcTransaction | null>('getTransaction', [signature, options], signal);
    return answer === null ? null : decodeFetched(answer, random);
  }

  return {
    async fetch(signatures, commitment, signal) {
      const found: (FetchedTransaction | null)[] = new Array(signatures.length).fill(null);
      const work = signatures.entries();
      const worker = async (): Promise<void> => {
        for (const [at, signature] of work) found[at] = await one(signature, commitment, signal);
      };
      await Promise.all(Array.from({ length: Math.min(config.concurrency, signatures.length) }, worker));
      return found;
    },
    page(address, { before, until, limit, commitment }, signal) {
      const options = { limit, commitment, ...(before && { before }), ...(until && { until }) };
      return call<readonly SignatureRow[]>('getSignaturesForAddress', [address, options], signal);
    },
  };
}

/** Errors: CHAIN_BAD_BLOCK when the answer contradicts itself. */
function decodeFetched(answer: RpcTransaction, random: Random): FetchedTransaction {
  const { transactions, keys } = decodeEntries(answer.slot, [answer], Uint8Array.from(random.bytes(SEED_BYTES)));
  return { transaction: transactions[0]!, block: { slot: answer.slot, blockTime: answer.blockTime ?? null, keys } };
}
