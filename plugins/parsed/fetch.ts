/** Transactions of the main chain by signature, from the ledger or else from an upstream. */
import { decode } from '../../src/lib/base58.ts';
import {
  type CallContext,
  type ChainReader,
  codeOf,
  type Log,
  messageOf,
  type Random,
  RequestError,
} from '../../src/plugin/plugin.ts';
import type { KeyTable, NormalTransaction } from '../../src/ports/block.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import type { LedgerReader } from '../../src/ports/ledger.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import type { ParsedConfig } from './config.ts';

export interface ProjectAsker extends Pick<CallContext, 'signal' | 'tenant'> {
  /** Project whose uploaded interfaces are preferred; absent or null: none. */
  readonly project?: string | null;
}

/** A transaction with what is shown of it. */
export interface TransactionWithKeys {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime: number | null;
  readonly tx: NormalTransaction;
  readonly keys: KeyTable;
  /** JSON text with the members `transaction` (in any encoding), `meta` and `version`. */
  text(): Promise<Buffer>;
}

interface SourceParts {
  /** Set when the plugin starts. */
  readonly chain: () => ChainReader | null;
  readonly ledger: () => LedgerReader | null;
  readonly random: Random;
  readonly log: Log;
  readonly config: Pick<ParsedConfig, 'concurrency' | 'upstreamTimeoutMs'>;
}

/** Nodes refuse a version above the newest one. */
export const MAX_VERSION = 1;
const SEED_BYTES = 32;

export type FetchTransactions = (
  signatures: readonly string[],
  commitment: Commitment,
  asker: ProjectAsker,
) => Promise<ReadonlyMap<string, TransactionWithKeys | UnreadableTransaction | null>>;

/** The chain has the transaction, in a form that cannot be decoded. */
export class UnreadableTransaction extends Error {}

/** Fetches transactions; null for those that the chain does not have. Errors: RequestError 503, else those of `ChainReader.call`. */
export function createFetch({ chain, ledger, random, log, config }: SourceParts): FetchTransactions {
  async function fromLedger(signature: string, commitment: Commitment): Promise<TransactionWithKeys | null> {
    const kept = ledger();
    if (kept === null) return null;
    try {
      const place = await kept.find(decode(signature)!);
      if (place === null || (commitment === 'finalized' && place.slot > kept.finalSlot)) return null;
      const found = await kept.transaction(place);
      if (found === null) return null;
      const { transactions, keys } = found.block();
      const { slot, header } = found;
      return { signature, slot, blockTime: header.blockTime, tx: transactions[0]!, keys, text: async () => found.text };
    } catch (error) {
      log.debug({ error: messageOf(error) }, 'the ledger cannot be read; an upstream answers instead');
      return null;
    }
  }

  async function fromUpstream(signature: string, commitment: Commitment, asker: ProjectAsker) {
    const options = { encoding: 'base64', commitment, maxSupportedTransactionVersion: MAX_VERSION };
    const text = await callText(chain(), 'getTransaction', [signature, options], {
      ...asker,
      timeoutMs: config.upstreamTimeoutMs,
    });
    if (text === 'null') return null;
    const answer = JSON.parse(text) as { readonly slot: number; readonly blockTime?: number | null };
    try {
      const { transactions, keys } = decodeEntries(answer.slot, [answer], Uint8Array.from(random.bytes(SEED_BYTES)));
      const { isOpaque, fault } = transactions[0]!;
      if (isOpaque) return new UnreadableTransaction(`the transaction cannot be read: ${fault!.reason}`);
      return {
        signature,
        slot: answer.slot,
        blockTime: answer.blockTime ?? null,
        tx: transactions[0]!,
        keys,
        text: async () => Buffer.from(text),
      };
    } catch (error) {
      return new UnreadableTransaction('the transaction cannot be decoded', { cause: error });
    }
  }

  return async (signatures, commitment, asker) => {
    const found = new Map<string, TransactionWithKeys | UnreadableTransaction | null>();
    const work = new Set(signatures).values();
    const worker = async (): Promise<void> => {
      for (const signature of work)
        found.set(
          signature,
          (await fromLedger(signature, commitment)) ?? (await fromUpstream(signature, commitment, asker)),
        );
    };
    await Promise.all(Array.from({ length: Math.min(config.concurrency, signatures.length) }, worker));
    return found;
  };
}

/** Errors: RequestError 503 when the upstream refuses, else those of `ChainReader.callText`. */
async function callText(
  chain: ChainReader | null,
  ...[method, params, options]: Parameters<ChainReader['callText']>
): Promise<string> {
  if (chain === null) throw new RequestError(503, 'Service unavailable: no Solana upstream is configured');
  try {
    return await chain.callText(method, params, options);
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    // A refusal of the upstream is not an answer: nothing is known.
    throw new RequestError(503, `Service unavailable: the Solana upstream refused ${method}`, { cause: error });
  }
}
