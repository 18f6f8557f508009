import { setMaxListeners } from 'node:events';
import { createChainReader, createRpcChainSource, createUpstreamPool } from '../../../src/adapters/chain/rpc/index.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { BlockHeader } from '../../../src/ports/block.ts';
import type { Random } from '../../../src/ports/clock.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { type FakeUpstream, honest } from '../follower/fake-node.ts';
import { createFakeTransport } from '../follower/fake-transport.ts';
import { createWorld, FIRST_SLOT, headerText, type World } from '../follower/world.ts';

const QUESTIONS = 5;
/** Attempts for one question; a follower repeats its questions without end. */
const MAX_ATTEMPTS = 40;
const STEP_MS = 50;
/** More than all attempts of a question take. */
const MAX_WAIT_MS = 3_600_000;

/**
 * Upstreams of which fewer lie than would be a quorum, together and in every way: with a made-up chain whose links agree, with forged hashes
 * and links, now and then. The others lag and fail. Blocks, headers and answers of a chosen method are asked for. Returns what is wrong:
 * a block or answer that is not of the chain, an honest upstream that is named, a question without an end; null: nothing.
 */
export async function quorumLife(seed: number): Promise<string | null> {
  const draw = createSfc32(seed ^ 0x6a09e667);
  const world = createWorld(draw);
  const fabricated = createWorld(createSfc32(seed ^ 0x3c6ef372), 12, 'made-up ');
  for (const one of [world, fabricated]) {
    one.migrate();
    for (let made = 0; made < 20; made += 1) one.grow(draw.float() < 0.3 ? draw.below(4) : 0, draw.below(2));
  }
  const total = draw.between(3, 5);
  const needed = draw.between(Math.floor(total / 2) + 1, total);
  const liars = new Set<string>();
  const upstreams = Array.from({ length: total }, (_, index) => honest(`upstream-${index}`));
  const places = upstreams.map((_, index) => index).sort(() => draw.float() - 0.5);
  for (const place of places.slice(0, total - needed)) {
    lie(upstreams[place]!, fabricated, draw);
    liars.add(`main-${place}`);
  }
  for (const one of upstreams.filter((_, index) => !liars.has(`main-${index}`))) {
    one.failRate = draw.float() < 0.3 ? draw.float() * 0.4 : 0;
    one.unwellRate = draw.float() < 0.2 ? draw.float() * 0.3 : 0;
    one.lag = draw.float() < 0.2 ? draw.below(4) : 0;
  }
  const { source, reader, clock, log, pool } = createParts(world, upstreams, draw, needed);
  await pass(clock, pool.start(), 'the first round of health checks');
  const { signal } = new AbortController();
  setMaxListeners(0, signal);
  const ask = { commitment: 'finalized', signal } as const;
  // What those that lag have too: anything above has no answer yet.
  const top = world.chain.length - 5;
  const topSlot = world.chain[top]!.slot;
  try {
    for (let question = 0; question < QUESTIONS; question += 1) {
      const truth = world.chain[1 + draw.below(top)]!;
      const slot = draw.float() < 0.85 ? truth.slot : FIRST_SLOT + 1 + draw.below(topSlot - FIRST_SLOT);
      const wanted = world.blockAt(slot) ?? null;
      const kind = draw.below(3);
      const found = await pass(
        clock,
        untilAnswered(clock, async () => {
          if (kind === 2) return await textOf(reader, slot);
          if (kind === 1) return (await source.header(slot, ask)) ?? 'none';
          const answer = await source.block(slot, ask);
          if (answer.kind === 'block') return answer.block;
          return answer.kind === 'not-yet' || wanted !== null ? null : 'none';
        }),
        `question ${question}`,
      );
      const fault = faultOf(found, slot, wanted);
      if (fault !== null) return `seed ${seed}, ${needed} of ${total}, question ${question} (${kind}): ${fault}`;
    }
    const named = log.lines.flatMap(({ fields }) =>
      fields['event'] === 'upstream.outvoted' ? [fields['upstream']] : [],
    );
    const wronged = named.find((label) => !liars.has(label as string));
    return wronged === undefined ? null : `seed ${seed}: ${String(wronged)} is honest and was named`;
  } finally {
    await pass(clock, pool.stop(), 'the end of the pool');
  }
}

function lie(upstream: FakeUpstream, fabricated: World, draw: Sfc32): void {
  if (draw.float() < 0.6) upstream.fabricated = fabricated;
  else upstream.lieRate = draw.float() < 0.5 ? 1 : 0.5;
  // A liar that answers first is the most dangerous one.
  upstream.slowMs = draw.float() < 0.5 ? 0 : 200;
}

export function createParts(world: World, upstreams: readonly FakeUpstream[], draw: Sfc32, agree: number) {
  const clock = createManualClock();
  const log = createMemoryLog();
  const random: Random = { float: draw.float, bytes: (count) => new Uint8Array(count), uuid: () => 'none' };
  const core = followConfig();
  Object.assign(core.upstream.quorum, { agree, methods: ['getBlock'] });
  const pool = createUpstreamPool({
    label: 'main',
    core,
    clock,
    log,
    metrics: createMetricsRegistry().scope('upstream'),
    upstreams: upstreams.map(({ label }) => ({ url: `http://${label}.invalid` })),
    makeTransport: ({ label }) => createFakeTransport(world, upstreams[Number(label.split('-')[1])]!, draw, clock),
  });
  const source = createRpcChainSource({ chain: 'main', pool, core, clock, random, log });
  const reader = createChainReader({
    chain: 'main',
    kind: 'rpc',
    pool,
    clock,
    random,
    timeoutMs: 30_000,
    maxBytes: 1_000_000,
    follower: { status: () => ({}), onReleased: () => () => undefined },
  });
  return { source, reader, clock, log, pool, core };
}

/** Moves time on until the work is over. Nothing here waits for anything but this clock, so that no real time has to pass. */
async function pass<T>(clock: ManualClock, work: Promise<T>, what: string): Promise<T> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  work.then(end, end);
  for (const untilMs = clock.monotonic() + MAX_WAIT_MS; !isOver; await clock.advance(STEP_MS))
    if (clock.monotonic() > untilMs) throw new Error(`waited in vain: ${what}`);
  return await work;
}

type Found = BlockHeader | string;

/** Repeats a question whose answer is null or an error that may pass; null: there was no answer. */
async function untilAnswered(
  clock: { sleep(ms: number): Promise<void> },
  ask: () => Promise<Found | null>,
): Promise<Found | null> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const found = await ask().catch((error: unknown) => {
      if (codeOf(error)?.startsWith('CHAIN_')) return null;
      throw error;
    });
    if (found !== null) return found;
    await clock.sleep(1_000);
  }
  return null;
}

/** The answer of the chosen method; null where there is none to compare. */
async function textOf(reader: ReturnType<typeof createChainReader>, slot: number): Promise<string | null> {
  try {
    const params = [slot, { transactionDetails: 'none', rewards: false, commitment: 'finalized' }];
    return await reader.callText('getBlock', params, { tenant: OWN_WORK });
  } catch (error) {
    if (codeOf(error) === 'CHAIN_RPC_ERROR') return 'none';
    throw error;
  }
}

function faultOf(found: Found | null, slot: number, wanted: World['chain'][number] | null): string | null {
  if (found === 'none') return null;
  if (found === null) return wanted === null ? null : `slot ${slot} has no answer`;
  if (wanted === null) return `slot ${slot} has no block, and was answered with one`;
  const right =
    typeof found === 'string'
      ? JSON.stringify(JSON.parse(found)) === headerText(wanted)
      : found.blockhash === wanted.blockhash &&
        found.parentSlot === wanted.parentSlot &&
        found.previousBlockhash === wanted.previousBlockhash;
  return right ? null : `slot ${slot} was answered with another block`;
}
