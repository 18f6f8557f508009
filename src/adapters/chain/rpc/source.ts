import type { CoreConfig } from '../../../config/core.ts';
import type { BlockStream, ChainId, ChainSource, FooterStream } from '../../../ports/chain.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/telemetry.ts';
import type { UpstreamPool } from '../../../ports/upstream.ts';
import { orAborted } from '../../../runtime/waiting.ts';
import { createFinalityChecks } from '../finality/index.ts';
import { createAddressHistory } from './address-history.ts';
import { createBlockRequest } from './block-request.ts';
import { createRpcClient } from './client.ts';
import { askConsensus, mergeConsensus } from './consensus.ts';
import { DISTRUSTED, RATE_LIMITED } from './member.ts';
import { ChainQuestions, SLOT, slotsForm } from './questions.ts';
import { createAgreedBlocks } from './quorum.ts';
import { createSlotHints } from './slot-hints.ts';

export interface SourceOptions {
  readonly chain: ChainId;
  readonly pool: UpstreamPool;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Pushes blocks, in addition to polling. */
  readonly stream?: BlockStream;
  /** Pushes the certificates that are checked. */
  readonly footers?: FooterStream;
}

/** Blocks by polling JSON-RPC; a websocket only hints when to poll. */
export function createRpcChainSource({
  chain,
  pool,
  core,
  clock,
  random,
  log,
  stream,
  footers,
}: SourceOptions): ChainSource {
  const client = createRpcClient(pool, clock, random);
  const limits = core.follow;
  const oneBlock = createBlockRequest({
    client,
    limits,
    maxVersion: core.follow.maxSupportedTransactionVersion,
    contradicted: (upstream, reason) => pool.report(upstream, { kind: 'contradicted', reason }),
  });
  const questions = new ChainQuestions({ client, pool, limits, clock });
  const hints = createSlotHints({ pool, clock, log });
  const finality = createFinalityChecks({
    chain,
    clock,
    random,
    log,
    footers: footers ?? null,
    cores: core.follow.finality.checkCores,
    ask: (signal) => (method, params) => questions.exactly(method, params, signal),
  });

  const agreed =
    pool.quorum === undefined
      ? null
      : createAgreedBlocks({
          pool,
          quorum: pool.quorum,
          clock,
          log,
          block: oneBlock,
          headerOf: (label, slot, options) => questions.header(slot, { ...options, avoid: questions.others(label) }),
        });
  const pushed = stream === undefined || agreed === null ? stream : agreed.stream(stream);

  return {
    chain,
    upstreamCount: () => pool.states().length,
    isLimited: () => pool.states().some(({ reason }) => reason === RATE_LIMITED),
    history: createAddressHistory({
      client,
      random,
      limits,
      upstreamCount: () => pool.states().length,
      maxVersion: core.follow.maxSupportedTransactionVersion,
    }),
    block: (slot, options) => (agreed?.isOn() === true ? agreed.block(slot, options) : oneBlock(slot, options)),
    header: (slot, options) =>
      agreed?.isOn() === true ? agreed.header(slot, options) : questions.header(slot, options),
    disagreement: (aboveSlot) => agreed?.trouble(aboveSlot) ?? null,
    distrusted: () =>
      pool.states().flatMap(({ label, reason }) => (reason?.startsWith(DISTRUSTED) ? [`${label} ${reason}`] : [])),
    async consensus(signal) {
      const facts = await Promise.all(
        pool
          .candidates()
          .map(({ label }) => askConsensus((method, params) => questions.ofOne(label, method, params, signal))),
      );
      signal.throwIfAborted();
      return mergeConsensus(facts);
    },
    tip: (options) => questions.small('getSlot', [{ commitment: options.commitment }], SLOT, options),
    highestTip: (options) => questions.highestTip(options),
    produced: (from, to, options) =>
      questions.small('getBlocks', [from, to, { commitment: options.commitment }], slotsForm(from, to), options),
    firstAvailable: (signal) => questions.firstAvailable(signal),
    distrust(label, reason) {
      const upstream = pool.candidates().find((candidate) => candidate.label === label);
      if (upstream !== undefined) pool.report(upstream, { kind: 'contradicted', reason });
    },
    async recheck(label, served, signal) {
      const ask = { commitment: 'finalized', signal, avoid: questions.others(label) } as const;
      const now = await questions.header(served.slot, ask).catch(() => null);
      if (now !== null && now.blockhash !== served.blockhash)
        this.distrust(label, `it served two final blocks of slot ${served.slot}`);
    },
    async confirmChain(signal) {
      questions.forgetFirst();
      const before = outOfService(pool);
      const isProven = await orAborted(pool.identify(), signal);
      const now = outOfService(pool);
      return isProven && now.length < pool.states().length && now.every((label) => before.includes(label));
    },
    outOfService: () => outOfService(pool),
    onHint: hints.onHint,
    ...(pushed === undefined ? {} : { stream: pushed }),
    finality,
    async start() {
      await stream?.start();
      hints.start();
    },
    stop: () => hints.stop(),
  };
}

const outOfService = (pool: UpstreamPool): readonly string[] =>
  pool.states().flatMap(({ inService, label }) => (inService ? [] : [label]));
