import { CodedError, messageOf } from '../../../lib/coded-error.ts';
import type { ChainBlock } from '../../../ports/block.ts';
import type { AskOptions, BlockAnswer } from '../../../ports/chain.ts';
import { decodeBlock } from '../../../solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../solana/decode/scan-block.ts';
import { HIGHEST_WIRE_VERSION } from '../../../solana/decode/walk-wire.ts';
import { type Answered, meaningOf, type RpcClient } from './client.ts';

export interface BlockRequestOptions {
  readonly client: RpcClient;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Highest transaction version asked for at first. */
  readonly maxVersion: number;
}

/** A node that keeps asking for a higher version has lost its mind. */
const HIGHEST_VERSION = 127;

/**
 * Asks for whole blocks; remembers the highest transaction version that was ever needed. From the first version on that is not read
 * from bytes, blocks are asked for as JSON, which shows every version.
 */
export function createBlockRequest({ client, timeoutMs, maxBytes, maxVersion }: BlockRequestOptions) {
  let version = maxVersion;

  async function once(slot: number, asked: number, options: AskOptions): Promise<BlockAnswer | 'higher'> {
    const encoding = asked <= HIGHEST_WIRE_VERSION ? 'base64' : 'json';
    let block: ChainBlock | null = null;
    const answered = await client.ask({
      method: 'getBlock',
      params: [
        slot,
        {
          encoding,
          transactionDetails: 'full',
          rewards: false,
          commitment: options.commitment,
          maxSupportedTransactionVersion: asked,
        },
      ],
      timeoutMs,
      maxBytes,
      signal: options.signal,
      avoid: options.avoid ?? [],
      ...(encoding === 'base64' ? { scan: scanBlockAnswer } : {}),
      onNodeError: ({ code }) => (['skipped', 'version', 'fatal'].includes(meaningOf(code)) ? 'take' : 'next'),
      isEmpty: (result) => result === null,
      check: (result) => {
        if (result === null) return null;
        try {
          block = decodeBlock(slot, result);
          return null;
        } catch (error) {
          return messageOf(error);
        }
      },
    });
    if (block !== null) return { kind: 'block', block, upstream: answered.upstream.label };
    return withoutBlock(answered, slot);
  }

  return async function askBlock(slot: number, options: AskOptions): Promise<BlockAnswer> {
    for (;;) {
      const asked = version;
      const answer = await once(slot, asked, options);
      if (answer !== 'higher') return answer;
      if (asked >= HIGHEST_VERSION)
        throw new CodedError('CHAIN_BAD_BLOCK', `no upstream serves block ${slot} at any transaction version`);
      // Blocks are asked for beside each other: what one of them has raised, the others need not raise again.
      version = Math.max(version, asked + 1);
    }
  };
}

function withoutBlock({ upstream, error }: Answered, slot: number): BlockAnswer | 'higher' {
  if (error === undefined) return { kind: 'not-yet', upstream: upstream.label };
  const meaning = meaningOf(error.code);
  if (meaning === 'version') return 'higher';
  if (meaning === 'skipped' || meaning === 'not-yet' || meaning === 'pruned')
    return { kind: meaning, upstream: upstream.label };
  throw new CodedError('CHAIN_RPC_ERROR', `getBlock ${slot}: ${error.message}`, {
    retryable: true,
    facts: { method: 'getBlock', rpcCode: error.code, slot },
  });
}
