import { CodedError, codeOf } from '../../../lib/coded-error.ts';
import { parseVerbatim } from '../../../lib/json.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { BlockHeader } from '../../../ports/block.ts';
import type { ChainCallOptions, ChainId, ChainReader, ChainStatus } from '../../../ports/chain.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { UpstreamPool, UpstreamQuorum } from '../../../ports/upstream.ts';
import { askQuorum, voteOf, voteOfError } from '../../../runtime/ask-quorum.ts';
import { isOfHealth, isOfTheNode, isSkip, meaningOfNodeError } from '../../../solana/node-errors.ts';
import { DEVNET_GENESIS, MAINNET_GENESIS } from '../../../solana/programs.ts';
import { type Answered, type AskAll, createRpcClient, resultText } from './client.ts';

export interface ChainReaderOptions {
  readonly chain: ChainId;
  readonly kind: ChainStatus['kind'];
  readonly pool: UpstreamPool;
  readonly clock: Clock;
  readonly random: Random;
  /** Deadline of a call without one of its own; read with each call. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** State of the follower of this chain; empty without a follower. */
  readonly follower: {
    status(): Partial<ChainStatus>;
    onReleased(listener: (header: BlockHeader) => void): () => void;
  };
}

const CLUSTERS: ReadonlyMap<string, string> = new Map([
  [MAINNET_GENESIS, 'mainnet'],
  [DEVNET_GENESIS, 'devnet'],
]);

/** What the local chain reports about itself. */
interface LocalInfo {
  readonly rpcUrl?: string;
  readonly engine?: string;
  readonly fixtures?: number;
}

export function createChainReader(parts: ChainReaderOptions): ChainReader {
  const { chain, kind, pool, clock, random, follower } = parts;
  const client = createRpcClient(pool, clock, random);
  let genesisHash: string | null = null;
  let local: LocalInfo = {};

  const others = (label: string) => pool.states().flatMap((state) => (state.label === label ? [] : [state.label]));

  async function ask(
    method: string,
    params: readonly unknown[],
    options: ChainCallOptions,
    how: Pick<AskAll, 'scan' | 'isEmpty' | 'check'> = {},
  ): Promise<unknown> {
    const asked: AskAll = {
      method,
      params,
      timeoutMs: options.timeoutMs ?? parts.timeoutMs,
      maxBytes: parts.maxBytes,
      archive: options.archive ?? false,
      tenant: options.tenant,
      mayHedge: !/^(send|request)/.test(method),
      mayAskLimited: true,
      ...(options.only === undefined ? {} : { avoid: others(options.only) }),
      ...how,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    };
    const quorum = options.only === undefined ? pool.quorum : undefined;
    const { result, error, upstream } = quorum?.concerns(method)
      ? await askAll(asked, quorum)
      : await client.ask(asked);
    options.answeredBy?.(upstream.label);
    // It says nothing about the call, and may pass.
    if (error !== undefined && isOfHealth(meaningOfNodeError(error, method)))
      throw new CodedError('CHAIN_UNREACHABLE', `no upstream answered ${method}: ${error.message}`, {
        facts: { method, rpcCode: error.code },
        retryable: true,
      });
    if (error !== undefined)
      throw new CodedError('CHAIN_RPC_ERROR', `${method}: ${error.message}`, {
        facts: { method, rpcCode: error.code, ...(typeof error.data === 'string' && { said: error.data }) },
        retryable: false,
      });
    return result;
  }

  /** An answer that enough upstreams give. Error: CHAIN_NO_QUORUM. */
  async function askAll(asked: AskAll, quorum: UpstreamQuorum): Promise<Answered> {
    const { method } = asked;
    const outcome = await askQuorum<Answered>({
      method,
      pool,
      quorum,
      clock,
      log: null,
      signal: asked.signal,
      untilMs: clock.monotonic() + asked.timeoutMs,
      async send({ label }) {
        const answered = await client.ask({ ...asked, avoid: others(label) }).catch((reason: unknown) => {
          if (codeOf(reason)?.startsWith('CHAIN_')) return null;
          throw reason;
        });
        if (answered === null) return null;
        const { error, result } = answered;
        if (error === undefined)
          return voteOf(method, asked.scan === undefined ? result : parseVerbatim(String(result)), answered);
        const meaning = meaningOfNodeError(error, method);
        return isOfTheNode(meaning) ? null : voteOfError(error.code, isSkip(meaning), answered);
      },
    });
    if (outcome.kind === 'agreed') return outcome.value;
    throw new CodedError('CHAIN_NO_QUORUM', `${method}: ${outcome.text}`, { retryable: true, facts: { method } });
  }

  async function call<T>(method: string, params: readonly unknown[], options: ChainCallOptions): Promise<T> {
    const result = await ask(method, params, options);
    if (method === 'getGenesisHash') void learn(result as string);
    return result as T;
  }

  async function callText(method: string, params: readonly unknown[], options: ChainCallOptions): Promise<string> {
    const isEmpty = (result: unknown) => result === 'null';
    // An answer with a member twice can be parsed, and is no reply all the same.
    const check = (result: unknown) => (typeof result === 'string' ? null : `its answer to ${method} is not JSON-RPC`);
    return (await ask(method, params, options, { scan: resultText, isEmpty, check })) as string;
  }

  /** The genesis hash never changes; the first call reports it to the status. */
  async function learn(hash: string): Promise<void> {
    if (genesisHash === hash) return;
    genesisHash = hash;
    if (kind !== 'local') return;
    local = await call<LocalInfo>('local_info', [], { tenant: OWN_WORK }).catch(() => ({}));
  }

  return {
    chain,
    call,
    callText,
    onReleased: follower.onReleased,
    status: () =>
      withUpstreams(pool, {
        chain,
        kind,
        cluster: kind === 'local' ? 'local' : (CLUSTERS.get(genesisHash ?? '') ?? 'unknown'),
        ...(local.engine === undefined ? {} : { engine: local.engine }),
        ...(local.fixtures === undefined ? {} : { fixtures: local.fixtures }),
        ...(local.rpcUrl === undefined ? {} : { rpcUrl: local.rpcUrl }),
        genesisHash,
        tipSlot: null,
        cursorSlot: null,
        finalizedSlot: null,
        lagSlots: null,
        slotMs: null,
        stalled: null,
        openGaps: 0,
        ...follower.status(),
      }),
  };
}

/** Without an upstream of our chain nothing is followed or answered, whatever the follower last reported. */
function withUpstreams(pool: UpstreamPool, status: ChainStatus): ChainStatus {
  const states = pool.states();
  const others = states.flatMap(({ label, otherChain }) => (otherChain === null ? [] : [`${label} (${otherChain})`]));
  if (others.length === 0 || states.some(({ inService }) => inService)) return status;
  const stalled = `UPSTREAM_OTHER_CHAIN: no upstream serves our chain${status.genesisHash === null ? '' : ` (${status.genesisHash})`}; upstreams of other chains: ${others.join(', ')}`;
  return { ...status, stalled };
}
