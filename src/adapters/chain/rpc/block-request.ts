import type { CoreConfig } from '../../../config/core.ts';
import { CodedError, codeOf, messageOf } from '../../../lib/coded-error.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { BlockHeader, ChainBlock } from '../../../ports/block.ts';
import type { AskOptions, BlockAnswer } from '../../../ports/chain.ts';
import type { Upstream } from '../../../ports/upstream.ts';
import { decodeBlock, faultyTransactions } from '../../../solana/decode/decode-block.ts';
import { type DecodedAnswer, mergeJson } from '../../../solana/decode/merge.ts';
import { scanBlockAnswer } from '../../../solana/decode/scan-block.ts';
import { isFinalAnswer, meaningOfNodeError, type NodeErrorMeaning } from '../../../solana/node-errors.ts';
import type { Answered, RpcClient } from './client.ts';

/** No block but the first has the hash of its parent: that of an empty one is its parent's, hashed. */
export const isOwnParent = ({ slot, blockhash, previousBlockhash }: BlockHeader) =>
  slot !== 0 && blockhash === previousBlockhash;
export const OWN_PARENT = 'a block has the hash of its parent';

interface BlockRequestOptions {
  readonly client: RpcClient;
  /** Read anew for each call, because a reload may change them. */
  readonly limits: Pick<CoreConfig['follow'], 'requestTimeoutMs' | 'maxBodyBytes'>;
  /** Highest transaction version requested at first. */
  readonly maxVersion: number;
  /** Called for an upstream that sent a transaction which another one proved false. */
  readonly contradicted?: (upstream: Upstream, reason: string) => void;
}

const INVALID_PARAMS = -32_602;
/** The parameter is a byte; a node that asks for a higher version is faulty. */
const HIGHEST_VERSION = 255;

/** A decoded block and who sent it. */
interface SentBlock extends DecodedAnswer {
  readonly upstream: Upstream;
}

/**
 * Requests whole blocks in base64 and remembers the highest transaction version that was needed.
 *
 * A transaction that cannot be read never condemns its block: what is malformed, and what lacks a part, is asked of the other upstreams, and
 * what remains unreadable as JSON, which can show versions whose bytes are unknown here. What is unreadable there too is kept as it came.
 * A node that refuses base64 is asked for JSON at once.
 * An upstream is contradicted only by bytes that another one has for the same block.
 */
export function createBlockRequest(options: BlockRequestOptions) {
  const { client, limits, maxVersion } = options;
  let version = maxVersion;

  const question = (
    slot: number,
    encoding: 'base64' | 'json',
    asked: number,
    { commitment, signal, avoid = [] }: AskOptions,
  ) => ({
    method: 'getBlock',
    params: [
      slot,
      { encoding, transactionDetails: 'full', rewards: true, commitment, maxSupportedTransactionVersion: asked },
    ],
    timeoutMs: limits.requestTimeoutMs,
    maxBytes: limits.maxBodyBytes,
    signal,
    tenant: OWN_WORK,
    avoid,
    scan: scanBlockAnswer,
  });

  async function once(
    slot: number,
    encoding: 'base64' | 'json',
    asked: number,
    options_: AskOptions,
  ): Promise<BlockAnswer | Higher> {
    const sent: SentBlock[] = [];
    const answered = await client.ask({
      ...question(slot, encoding, asked, options_),
      // A claim that the slot was skipped goes to the follower: it asks the others itself, and distrusts who was wrong.
      isFinal: (meaning) => isFinalAnswer(meaning) || meaning === 'skipped-or-lost',
      isEmpty: (result) => result === null || isDoubtful(sent.at(-1)!.block),
      check: (result, upstream) => {
        if (result === null) return null;
        try {
          const block = decodeBlock(slot, result);
          if (isOwnParent(block)) return OWN_PARENT;
          sent.push({ result, upstream, block });
          return null;
        } catch (error) {
          return messageOf(error);
        }
      },
    });
    const best = bestOf(sent);
    if (best === null) return withoutBlock(answered, slot);
    for (const { upstream, block } of sent) {
      const reason = upstream === best.upstream ? null : contradictionOf(block, best.block);
      if (reason !== null) options.contradicted?.(upstream, reason);
    }
    const block =
      encoding === 'base64' && best.block.transactions.some(({ isOpaque }) => isOpaque)
        ? ((await asJson(slot, asked, best, options_)) ?? best.block)
        : best.block;
    return { kind: 'block', block, upstream: best.upstream.label };
  }

  /** The block with the transactions that can be read as JSON; null when that says nothing more, or no upstream has it so. */
  async function asJson(
    slot: number,
    asked: number,
    base: SentBlock,
    options_: AskOptions,
  ): Promise<ChainBlock | null> {
    let merged: ChainBlock | null = null;
    try {
      await client.ask({
        ...question(slot, 'json', asked, options_),
        isFinal: () => false,
        isEmpty: (result) => {
          if (result === null) return true;
          try {
            merged = mergeJson(base, { result, block: decodeBlock(slot, result) });
          } catch {
            // It is no answer of this block: as if there were none.
          }
          return merged === null;
        },
      });
    } catch (error) {
      options_.signal.throwIfAborted();
      if (codeOf(error) === undefined) throw error;
    }
    return merged;
  }

  /** A node that refuses base64 is asked for JSON. */
  async function inAnyEncoding(slot: number, asked: number, options_: AskOptions): Promise<BlockAnswer | Higher> {
    try {
      return await once(slot, 'base64', asked, options_);
    } catch (error) {
      const refused = error instanceof CodedError && error.facts['rpcCode'] === INVALID_PARAMS;
      if (!refused) throw error;
      return await once(slot, 'json', asked, options_).catch(() => {
        throw error;
      });
    }
  }

  return async function askBlock(slot: number, options_: AskOptions): Promise<BlockAnswer> {
    for (;;) {
      const asked = version;
      const answer = await inAnyEncoding(slot, asked, options_);
      if (answer.kind !== 'higher') return answer;
      if (asked >= HIGHEST_VERSION)
        throw new CodedError('CHAIN_BAD_BLOCK', `no upstream serves block ${slot} at any transaction version`);
      // Blocks are requested concurrently: a version raised by one need not be raised again.
      version = Math.max(version, Math.min(HIGHEST_VERSION, answer.version ?? asked + 1), asked + 1);
    }
  };
}

/** Another upstream may have what this answer lacks. */
const isDoubtful = (block: ChainBlock): boolean =>
  faultyTransactions(block).some(({ fault }) => fault!.kind === 'message' || fault!.kind === 'meta');

/** The answer with the fewest transactions that could not be read; the first of equal ones. */
function bestOf(sent: readonly SentBlock[]): SentBlock | null {
  const faultCount = ({ block }: SentBlock) => faultyTransactions(block).length;
  return sent.reduce<SentBlock | null>(
    (best, one) => (best === null || faultCount(one) < faultCount(best) ? one : best),
    null,
  );
}

/** Which bytes of a block another upstream proves false: malformed here, readable there. */
function contradictionOf(block: ChainBlock, best: ChainBlock): string | null {
  if (block.blockhash !== best.blockhash) return null;
  for (const { index, fault, wire } of faultyTransactions(block)) {
    const other = best.transactions[index];
    if (fault!.kind !== 'message' || other === undefined || other.fault !== null) continue;
    if (wire === null || other.wire === null || Buffer.compare(wire, other.wire) !== 0)
      return `block ${block.slot}, transaction ${index}: ${fault!.reason}; another upstream has other bytes`;
  }
  return null;
}

/** The node shows the block only to those who accept this version; null when it does not say which. */
interface Higher {
  readonly kind: 'higher';
  readonly version: number | null;
}

function higherOf(message: string): Higher {
  const named = /"maxSupportedTransactionVersion": ?(\d{1,3})\b/.exec(message)?.[1];
  return { kind: 'higher', version: named === undefined ? null : Number(named) };
}

/** What a refusal says about the block; null: nothing. */
export function stateOfBlock(meaning: NodeErrorMeaning): 'skipped' | 'not-yet' | 'pruned' | null {
  if (meaning === 'skipped' || meaning === 'skipped-or-lost') return 'skipped';
  if (meaning === 'no-history') return 'pruned';
  return meaning === 'not-yet' ? 'not-yet' : null;
}

function withoutBlock({ upstream, error }: Answered, slot: number): BlockAnswer | Higher {
  if (error === undefined) return { kind: 'not-yet', upstream: upstream.label };
  const meaning = meaningOfNodeError(error, 'getBlock');
  if (meaning === 'version') return higherOf(error.message);
  const state = stateOfBlock(meaning);
  if (state !== null) return { kind: state, upstream: upstream.label };
  throw new CodedError('CHAIN_RPC_ERROR', `getBlock ${slot}: ${error.message}`, {
    retryable: true,
    facts: { method: 'getBlock', rpcCode: error.code, slot },
  });
}
