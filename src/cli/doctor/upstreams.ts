import { askConsensus, isBeforeAlpenglow, mergeConsensus } from '../../adapters/chain/rpc/consensus.ts';
import { makeMember, openSocket } from '../../adapters/chain/rpc/member.ts';
import { createTransport } from '../../adapters/chain/rpc/transport.ts';
import type { CoreConfig } from '../../config/core.ts';
import { maskText } from '../../config/node.ts';
import type { ChainSetup } from '../../daemon/parts.ts';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { gather } from '../../lib/gather.ts';
import { isPlainObject } from '../../lib/json.ts';
import { rpcReplyOf, rpcRequest } from '../../lib/json-rpc.ts';
import { isLagBeyond } from '../../lib/slot-length.ts';
import { OWN_WORK } from '../../ports/access.ts';
import type { Commitment, ConsensusFacts } from '../../ports/chain.ts';
import type { Clock } from '../../ports/clock.ts';
import { configuredNow, type UpstreamConfig } from '../../ports/upstream.ts';
import { type Finding, fail, failedBy, ok, warn } from './finding.ts';

const CHECK = 'upstream';
const DAY_MS = 86_400_000;
/** Block times are whole seconds and only an estimate of the cluster. */
const MAX_CLOCK_OFFSET_MS = 30_000;

const SILENT_ADVICE = 'is the address right, is the key valid, does a firewall block the connection?';

interface AskedUpstream {
  /** `main-0 (https://host/***)`. */
  readonly name: string;
  readonly facts: UpstreamFacts;
}

/** Checks all upstreams of all chains concurrently. `known`: genesis hashes of the chains that the store is bound to. */
export async function upstreamFindings(
  chains: readonly ChainSetup[],
  core: CoreConfig,
  clock: Clock,
  known: ReadonlyMap<string, string>,
): Promise<Finding[]> {
  const groups = await Promise.all(
    chains.map((chain) => chainFindings(chain, core, clock, known.get(chain.id) ?? null)),
  );
  return groups.flat();
}

async function chainFindings(
  { id, upstreams }: ChainSetup,
  core: CoreConfig,
  clock: Clock,
  known: string | null,
): Promise<Finding[]> {
  const results = await Promise.all(
    configuredNow(upstreams).map(async (config, order): Promise<AskedUpstream | Finding> => {
      const name = `${id}-${order} (${maskText(config.url)})`;
      const transactionVersion = core.follow.maxSupportedTransactionVersion;
      try {
        return { name, facts: await probeUpstream(name, config, { clock, transactionVersion }) };
      } catch (error) {
        return failedBy(CHECK, error, SILENT_ADVICE);
      }
    }),
  );
  const asked = results.filter((result): result is AskedUpstream => 'facts' in result);
  const findings = results.filter((result): result is Finding => !('facts' in result));
  if (asked.length === 0) return findings;
  // One failing upstream is only a warning if another one works.
  const down = findings.map(({ check, detail, advice = '' }) => warn(check, detail, advice));
  return [
    ...down,
    ...identityFindings(id, asked, known),
    ...asked.flatMap((one) => oneUpstream(one, asked, core)),
    ...consensusFindings(asked, core),
    ...clockFindings(asked),
  ];
}

function identityFindings(chain: string, asked: readonly AskedUpstream[], known: string | null): Finding[] {
  const wanted = known ?? asked[0]!.facts.genesisHash;
  return asked
    .filter(({ facts }) => facts.genesisHash !== wanted)
    .map(({ name, facts }) =>
      fail(
        CHECK,
        `${name} serves another chain: genesis ${facts.genesisHash}, ${known === null ? 'the first one' : `the store of ${chain}`} has ${wanted}`,
        known === null ? 'take it out of the list' : 'use the upstream of that chain, or another dataDir or store.url',
        78,
      ),
    );
}

function oneUpstream({ name, facts }: AskedUpstream, asked: readonly AskedUpstream[], core: CoreConfig): Finding[] {
  const findings: Finding[] = [];
  const behind = Math.max(...asked.map((other) => other.facts.slot)) - facts.slot;
  if (facts.trouble !== null)
    findings.push(
      warn(CHECK, `${name} reports that it is not healthy: ${facts.trouble}`, 'wait until it has caught up'),
    );
  const { unhealthyLagSeconds: seconds, unhealthyLagSlots: slots } = core.follow;
  if (isLagBeyond({ lagSlots: behind, slotMs: facts.slotMs }, { seconds, slots }))
    findings.push(
      warn(
        CHECK,
        `${name} is ${behind} slots${inTime(behind, facts)} behind the best`,
        'it is not used until it has caught up',
      ),
    );
  if (facts.blockTrouble !== null)
    findings.push(
      fail(
        CHECK,
        `${name} does not return blocks: ${facts.blockTrouble}`,
        'the follower needs getBlocks and getBlock: use a node or plan that supports them',
      ),
    );
  if (!facts.hasSocket)
    findings.push(
      warn(
        CHECK,
        `${name} does not accept websockets`,
        'set websocketUrl; without one slots are only polled and clients cannot subscribe',
      ),
    );
  findings.push(...historyFindings(name, facts, core));
  const line = `${name}: version ${facts.version}, slot ${facts.slot}${behind > 0 ? ` (${behind} behind)` : ''}, ${slotText(facts)}${history(facts)}`;
  return findings.some(({ level }) => level === 'fail') ? findings : [ok(CHECK, line), ...findings];
}

function historyFindings(name: string, { firstSlot }: UpstreamFacts, { follow }: CoreConfig): Finding[] {
  const { startSlot } = follow;
  if (firstSlot === null) return [warn(CHECK, `${name} does not report its first block`, 'its history is unknown')];
  if (startSlot === 'latest' || startSlot >= firstSlot) return [];
  return [
    warn(
      CHECK,
      `${name} has no blocks before ${firstSlot}, follow.startSlot is ${startSlot}`,
      'add an archive upstream, or start later',
    ),
  ];
}

const slotText = ({ slotMs }: UpstreamFacts): string => (slotMs === null ? '' : `slots of ${Math.round(slotMs)} ms, `);

const inTime = (slots: number, { slotMs }: UpstreamFacts): string =>
  slotMs === null ? '' : ` (${Math.round((slots * slotMs) / 1_000)} s)`;

function history({ slot, slotMs, firstSlot, firstTimeMs, askedAtMs }: UpstreamFacts): string {
  if (firstSlot === null) return 'history unknown';
  const lengthMs =
    firstTimeMs !== null ? Math.max(0, askedAtMs - firstTimeMs) : slotMs === null ? null : (slot - firstSlot) * slotMs;
  if (lengthMs === null) return `history from ${firstSlot}`;
  const days = lengthMs / DAY_MS;
  return `history from ${firstSlot} (${days < 1 ? `${(days * 24).toFixed(1)} hours` : `${days.toFixed(1)} days`})`;
}

/** How the chain finalizes, and nodes that cannot follow it. */
function consensusFindings(asked: readonly AskedUpstream[], { follow }: CoreConfig): Finding[] {
  const { era, genesisSlot, source } = mergeConsensus(asked.map(({ facts }) => facts.consensus));
  const isTold = follow.consensus !== 'auto';
  if (era === 'unknown')
    return isTold
      ? [ok(CONSENSUS, `${ERA_NAMES[follow.consensus as keyof typeof ERA_NAMES]}, by follow.consensus`)]
      : [
          warn(
            CONSENSUS,
            'no upstream proves how the chain finalizes, so blocks are followed at confirmed',
            'add an upstream with Agave 4.3 or newer, or set follow.consensus',
          ),
        ];
  const since = genesisSlot === null ? '' : ` after slot ${genesisSlot}, by its ${source}`;
  const findings = [ok(CONSENSUS, `${ERA_NAMES[era]}${since}`)];
  if (isTold && follow.consensus !== era)
    findings.push(
      warn(CONSENSUS, `follow.consensus is ${follow.consensus}, the upstreams say ${era}`, 'remove follow.consensus'),
    );
  if (era !== 'alpenglow') return findings;
  if (follow.commitment === 'confirmed')
    findings.push(
      warn(CONSENSUS, 'follow.commitment is confirmed, which this chain makes final at once', 'set it to auto'),
    );
  for (const { name, facts } of asked)
    if (isBeforeAlpenglow(facts.version) && facts.slot <= (genesisSlot ?? -1))
      findings.push(
        warn(
          CONSENSUS,
          `${name} has version ${facts.version} and is stalled at the move to Alpenglow, slot ${genesisSlot}`,
          'upgrade it; only its old blocks are used',
        ),
      );
  return findings;
}

const CONSENSUS = 'consensus';
const ERA_NAMES = { alpenglow: 'Alpenglow', towerbft: 'TowerBFT' } as const;

/** Compares the machine's clock with the newest block of all upstreams. */
function clockFindings(asked: readonly AskedUpstream[]): Finding[] {
  const offsets = asked.flatMap(({ facts: { block, slot, slotMs, askedAtMs } }) =>
    // Without a measured slot length the block counts as the newest: it is one of the last few.
    block === null || block.timeMs === null ? [] : [askedAtMs - block.timeMs - (slot - block.slot) * (slotMs ?? 0)],
  );
  if (offsets.length === 0) return [];
  const offsetMs = offsets.reduce((best, one) => (Math.abs(one) < Math.abs(best) ? one : best));
  const seconds = Math.round(offsetMs / 1_000);
  if (Math.abs(offsetMs) <= MAX_CLOCK_OFFSET_MS) return [ok('clock', `${seconds} s from the time of the newest block`)];
  return [
    warn(
      'clock',
      `${Math.abs(seconds)} s ${seconds > 0 ? 'ahead of' : 'behind'} the newest block`,
      'timedatectl set-ntp true; receivers refuse signatures with a wrong time (or the upstreams are stalled)',
    ),
  ];
}

/** Facts about one upstream. */
interface UpstreamFacts {
  readonly genesisHash: string;
  readonly version: string;
  readonly consensus: ConsensusFacts;
  /** Null if it reports that it is healthy. */
  readonly trouble: string | null;
  readonly slot: number;
  /** Lowest slot with a block; null if not reported. */
  readonly firstSlot: number | null;
  /** Unix milliseconds of that block; null if unknown. */
  readonly firstTimeMs: number | null;
  /** Measured slot length; null if it cannot be measured. */
  readonly slotMs: number | null;
  /** A recent block. */
  readonly block: { readonly slot: number; readonly timeMs: number | null } | null;
  /** Why there is no block. */
  readonly blockTrouble: string | null;
  readonly hasSocket: boolean;
  /** Unix milliseconds at which `slot` was reported. */
  readonly askedAtMs: number;
}

const RECENT_SLOTS = 50;
/** Samples of a minute each. */
const SAMPLES = 5;
const MEASURED_SLOTS = 1_000;
/** Block times are whole seconds: over a shorter range they are too inexact. */
const SHORTEST_STRETCH_MS = 20_000;

/** Calls all methods that the daemon depends on. Errors: those of the first calls, which everything else depends on. */
async function probeUpstream(
  label: string,
  config: UpstreamConfig,
  options: { readonly clock: Clock; readonly transactionVersion: number },
): Promise<UpstreamFacts> {
  const upstream = createAskUpstream(label, config, options.clock);
  try {
    const genesisHash = text(await upstream.ask('getGenesisHash'), 'getGenesisHash');
    const slotAt = async (commitment: Commitment) => ({
      commitment,
      slot: integer(await upstream.ask('getSlot', [{ commitment }]), 'getSlot'),
    });
    // Nodes that no longer know `confirmed` refuse it.
    const { commitment, slot } = await slotAt('confirmed').catch(() => slotAt('finalized'));
    const askedAtMs = options.clock.now();
    const first = await firstBlock(upstream);
    const consensus = askConsensus((method, params) => upstream.ask(method, params).catch(() => undefined));
    const [version, trouble, recent, slotMs, hasSocket] = await Promise.all([
      upstream.ask('getVersion').then(versionIn, () => 'unknown'),
      upstream.ask('getHealth').then(() => null, inWords),
      recentBlock(upstream, slot, { commitment }, options.transactionVersion),
      slotLength(upstream, slot, { commitment }, first),
      opensSocket(config, options.clock),
    ]);
    return {
      genesisHash,
      version,
      consensus: await consensus,
      trouble,
      slot,
      ...first,
      ...recent,
      slotMs,
      hasSocket,
      askedAtMs,
    };
  } finally {
    await upstream.close();
  }
}

async function firstBlock(upstream: AskUpstream): Promise<Pick<UpstreamFacts, 'firstSlot' | 'firstTimeMs'>> {
  const firstSlot = await upstream
    .ask('getFirstAvailableBlock')
    .then((found) => integer(found, ''))
    .catch(() => null);
  return { firstSlot, firstTimeMs: firstSlot === null ? null : await blockTimeMs(upstream, firstSlot) };
}

const blockTimeMs = ({ ask }: AskUpstream, slot: number): Promise<number | null> =>
  ask('getBlockTime', [slot])
    .then((seconds) => integer(seconds, '') * 1_000)
    .catch(() => null);

/** From the performance samples of the node, else from the times of two blocks; these are whole seconds, so the blocks must be far apart. */
async function slotLength(
  upstream: AskUpstream,
  slot: number,
  commitment: { readonly commitment: Commitment },
  first: Pick<UpstreamFacts, 'firstSlot' | 'firstTimeMs'>,
): Promise<number | null> {
  const samples = await upstream.ask('getRecentPerformanceSamples', [SAMPLES]).catch(() => []);
  let [slots, seconds] = [0, 0];
  for (const sample of Array.isArray(samples) ? samples : []) {
    const { numSlots, samplePeriodSecs } = isPlainObject(sample) ? sample : {};
    if (typeof numSlots !== 'number' || typeof samplePeriodSecs !== 'number' || numSlots <= 0) continue;
    slots += numSlots;
    seconds += samplePeriodSecs;
  }
  if (slots > 0 && seconds > 0) return (seconds * 1_000) / slots;
  try {
    const lastBlock = async (from: number) => {
      const listed = await upstream.ask('getBlocks', [Math.max(0, from - RECENT_SLOTS), from, commitment]);
      const found = integer(Array.isArray(listed) ? listed.at(-1) : null, 'getBlocks');
      return { slot: found, timeMs: await blockTimeMs(upstream, found) };
    };
    // A younger chain starts at its first block.
    const isYoung = first.firstSlot !== null && first.firstSlot > slot - MEASURED_SLOTS;
    const early = isYoung
      ? { slot: first.firstSlot, timeMs: first.firstTimeMs }
      : await lastBlock(slot - MEASURED_SLOTS);
    const late = await lastBlock(slot);
    if (early.slot === null || early.timeMs === null || late.timeMs === null) return null;
    if (late.timeMs - early.timeMs < SHORTEST_STRETCH_MS) return null;
    return (late.timeMs - early.timeMs) / (late.slot - early.slot);
  } catch {
    return null;
  }
}

async function recentBlock(
  { ask }: AskUpstream,
  slot: number,
  commitment: { readonly commitment: Commitment },
  maxSupportedTransactionVersion: number,
): Promise<Pick<UpstreamFacts, 'block' | 'blockTrouble'>> {
  try {
    const slots = await ask('getBlocks', [Math.max(0, slot - RECENT_SLOTS), slot, commitment]);
    const last = Array.isArray(slots) ? slots.at(-1) : undefined;
    if (!Number.isInteger(last)) return { block: null, blockTrouble: `getBlocks lists none of ${RECENT_SLOTS} slots` };
    const what = { ...commitment, transactionDetails: 'none', rewards: false, maxSupportedTransactionVersion };
    const block = await ask('getBlock', [last, what]);
    const seconds = isPlainObject(block) ? block['blockTime'] : undefined;
    if (!isPlainObject(block)) return { block: null, blockTrouble: 'getBlock has no block that getBlocks lists' };
    const timeMs = typeof seconds === 'number' ? seconds * 1_000 : null;
    return { block: { slot: last as number, timeMs }, blockTrouble: null };
  } catch (error) {
    return { block: null, blockTrouble: inWords(error) };
  }
}

/** Opens the same websocket addresses as the daemon. */
async function opensSocket(config: UpstreamConfig, clock: Clock): Promise<boolean> {
  const member = makeMember(config, 'doctor', { label: 'doctor', clock });
  try {
    for (const _ of member.socketUrls) {
      const socket = openSocket(member, 'doctor');
      const opened = await new Promise<boolean>((resolve) => {
        socket.on('error', () => resolve(false));
        socket.once('open', () => resolve(true));
      });
      socket.terminate();
      if (opened) return true;
    }
    return false;
  } finally {
    await member.transport.close();
  }
}

function inWords(error: unknown): string {
  return error instanceof CodedError ? messageOf(error) : (codeOf(error) ?? 'error');
}

function versionIn(result: unknown): string {
  const version = isPlainObject(result) ? result['solana-core'] : undefined;
  return typeof version === 'string' ? version.slice(0, 32) : 'unknown';
}

function integer(result: unknown, method: string): number {
  if (typeof result === 'number' && Number.isInteger(result)) return result;
  throw new CodedError('CHAIN_BAD_RESPONSE', `${method} did not return a slot`);
}

function text(result: unknown, method: string): string {
  if (typeof result === 'string') return result;
  throw new CodedError('CHAIN_BAD_RESPONSE', `${method} did not return a string`);
}

/** Calls one upstream, without pool, retries and cache. */
interface AskUpstream {
  /** Errors: those of the transport; CHAIN_RPC_ERROR; CHAIN_BAD_RESPONSE. None contains the address. */
  ask(method: string, params?: readonly unknown[]): Promise<unknown>;
  close(): Promise<void>;
}

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 16_777_216;
const MAX_MESSAGE_CHARS = 120;

function createAskUpstream(label: string, config: UpstreamConfig, clock: Clock): AskUpstream {
  const upstream = { label, url: config.url, headers: config.headers ?? {}, archive: false, maxConcurrent: 4 };
  const transport = createTransport(upstream, 'parhelion-doctor', clock);
  return {
    async ask(method, params = []) {
      const body = rpcRequest(method, params);
      const reply = await transport.send({ body, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES, tenant: OWN_WORK });
      const { bytes } = await gather(reply.body, MAX_BYTES);
      return resultOf(bytes, method, reply.status);
    },
    close: () => transport.close(),
  };
}

function resultOf(bytes: Buffer, method: string, status: number): unknown {
  let reply: ReturnType<typeof rpcReplyOf>;
  try {
    reply = rpcReplyOf(JSON.parse(bytes.toString('utf8')));
  } catch {
    reply = null;
  }
  if (reply !== null && 'error' in reply) {
    const text = String(reply.error.message).slice(0, MAX_MESSAGE_CHARS);
    throw new CodedError('CHAIN_RPC_ERROR', `${method}: ${text} (${reply.error.code})`, { facts: { status } });
  }
  if (reply !== null && status < 300) return reply.result;
  const refused = status === 401 || status === 403 ? ': the upstream refuses the key' : '';
  throw new CodedError('CHAIN_BAD_RESPONSE', `${method}: HTTP status ${status} without a JSON-RPC answer${refused}`);
}
