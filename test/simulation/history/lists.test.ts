/**
 * Lists of the chain behind nodes that lack a part of it. A model of the chain says what a complete node answers; the standard methods answer
 * the same over a ledger, an archive and a node that is complete, pruned, without history, behind or gone, or they say what is missing. A
 * list that is shorter without a word never occurs. Also while forks are followed, and as soon as a gap is filled.
 * `PARHELION_LIST_ARCHIVE=chdb npm run test:file -- test/simulation/history/lists.test.ts` keeps what is archived in chdb, through the writer
 * and the reader of the archive (`npm --prefix test/helpers/chdb ci`); else a ledger stands for the archive.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createArchiveReader } from '../../../plugins/archive/reader.ts';
import { createStandardAnswers } from '../../../plugins/history/standard.ts';
import { createArchiveEngine, parseArchive } from '../../../src/adapters/clickhouse/index.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createJoinedHistory, createPastReader } from '../../../src/joined-history/index.ts';
import { createLedgerMeter, type Ledger, openLedger } from '../../../src/ledger/index.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { RpcError } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { AskAgain, KeptAnswer, UpstreamResult } from '../../../src/ports/address-history.ts';
import type { ChainReader } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { ArchiveReader } from '../../../src/ports/ledger.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { startWriter, waitFor } from '../../helpers/archive.ts';
import { CHDB_DIR } from '../../helpers/clickhouse.ts';
import {
  asFinal,
  blockJson,
  createBlock,
  forked,
  grown,
  isLate,
  listOf,
  MODEL_ADDRESSES,
  type ModelBlock,
  type ModelChain,
  modelAddress,
  NodeError,
  NodeGone,
  type NodeView,
  nodeAnswer,
} from '../../helpers/list-model.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';

const SEEDS = 20;
const CALLS_PER_PHASE = 90;
const FIRST_SLOT = 1_000;
const BLOCKS = 110;
const FORKS = 4;
const DEEPEST_FORK = 31;
/** All depths, in another order. */
const depthOf = (fork: number): number => 1 + ((fork * 12) % DEEPEST_FORK);
const ARCHIVE = process.env['PARHELION_LIST_ARCHIVE'] ?? 'ledger';
assert.ok(ARCHIVE === 'ledger' || ARCHIVE === 'chdb', `PARHELION_LIST_ARCHIVE=${ARCHIVE} is neither ledger nor chdb`);

type IndexMode = 'none' | 'followed' | 'window';

/** A daemon: a ledger from some block on, with a gap, and an archive of a part of the blocks. */
interface Daemon {
  readonly ledger: Ledger;
  readonly index: IndexMode;
  /** Blocks that the archive has, which `reader` answers from; null without one. */
  readonly archived: Archived | null;
  isArchiveDown: boolean;
  view: NodeView;
  chain: ModelChain;
  /** The branch that the ledger follows. */
  released: readonly ModelBlock[];
  readonly counts: Map<string, number>;
}

interface Archived {
  readonly ledger: Ledger;
  readonly from: number;
  readonly to: number;
  readonly reader: ArchiveReader;
}

bySeed(SEEDS, (seeds) => {
  for (const seed of seeds)
    test(`lists behind nodes that lack a part, seed ${seed}`, async (t) => {
      const random = createSfc32(seed * 7_919);
      const daemon = await createDaemon(t, random);
      await phase(daemon, random, 'at rest');
      await fillGap(daemon);
      await phase(daemon, random, 'gap filled');
      for (let turn = 0; turn < FORKS; turn++) {
        const depth = depthOf((seed - 1) * FORKS + turn);
        await openUp(daemon, random, depth);
        const before = { ...daemon.chain };
        daemon.chain = forked(daemon.chain, random, depth);
        assert.equal(before.blocks.filter((block) => !daemon.chain.blocks.includes(block)).length, depth);
        await phase(daemon, random, 'fork not followed', before);
        await follow(daemon, random);
        await phase(daemon, random, 'fork followed');
        daemon.chain = grown(daemon.chain, random, 1 + random.below(12));
        await phase(daemon, random, 'node ahead');
        await follow(daemon, random);
        await phase(daemon, random, 'caught up');
      }
      // What became final since is above all that the ledger has.
      daemon.chain = grown(daemon.chain, random, 40 + random.below(40));
      await phase(daemon, random, 'node far ahead');
      t.diagnostic(JSON.stringify(Object.fromEntries(daemon.counts)));
      assert.ok((daemon.counts.get('equal') ?? 0) > 200, 'most answers are complete');
    });
});

async function createDaemon(t: TestContext, random: Sfc32): Promise<Daemon> {
  const blocks: ModelBlock[] = [];
  while (blocks.length < BLOCKS) blocks.push(createBlock(random, blocks.at(-1) ?? null, { firstSlot: FIRST_SLOT }));
  const finalAt = BLOCKS - 1 - (random.below(3) === 0 ? 0 : 20 + random.below(12));
  const chain: ModelChain = { blocks, confirmedSlot: blocks.at(-1)!.slot, finalSlot: blocks[finalAt]!.slot };
  const index = (['window', 'window', 'window', 'window', 'followed', 'none'] as const)[random.below(6)]!;
  const ledgerFrom = random.below(3) === 0 ? 0 : 5 + random.below(50);
  const hasGap = random.below(2) === 0;
  const gapFrom = ledgerFrom + 3 + random.below(8);
  const gapTo = hasGap ? gapFrom + random.below(12) : gapFrom - 1;
  const ledger = await emptyLedger(t, index);
  for (const [at, block] of blocks.entries())
    if (at >= ledgerFrom && (at < gapFrom || at > gapTo)) await append(ledger, block);
  await ledger.finalize(blocks[Math.max(gapTo + 1, finalAt - random.below(6))]!.slot);
  const archivedFrom = random.below(10);
  const archivedTo = archivedFrom + random.below(Math.max(1, ledgerFrom + 12 - archivedFrom));
  const hasArchive = random.below(2) === 0;
  const archive = hasArchive ? await emptyLedger(t, 'window') : null;
  if (archive !== null) for (const block of blocks.slice(archivedFrom, archivedTo + 1)) await append(archive, block);
  await archive?.finalize(blocks[archivedTo]!.slot);
  const [from, to] = [blocks[archivedFrom]!.slot, blocks[archivedTo]!.slot];
  return {
    ledger,
    index,
    chain,
    released: blocks,
    isArchiveDown: false,
    view: { kind: 'complete' },
    counts: new Map(),
    archived: archive === null ? null : { ledger: archive, from, to, reader: await readerOver(t, archive, [from, to]) },
  };
}

/** Reads what is archived: from the engine, into which the writer has copied the blocks of this ledger, or from the ledger itself. */
async function readerOver(t: TestContext, ledger: Ledger, range: readonly [number, number]): Promise<ArchiveReader> {
  if (ARCHIVE === 'ledger')
    return {
      ranges: async () => [range],
      states: async (low, high) => ledger.states(low, high),
      header: (slot) => ledger.header(slot),
      text: (slot) => ledger.text(slot),
      find: (signature) => ledger.find(signature),
      transaction: (place) => ledger.transaction(place),
      addressPage: (query) => ledger.addressPage(query),
    };
  const folder = mkdtempSync(join(tmpdir(), 'chdb-'));
  const address = parseArchive(`chdb:${folder}`, 'main', '/');
  const engine = createArchiveEngine({ address, packages: CHDB_DIR, owns: true });
  t.after(async () => {
    await engine.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const run = startWriter(engine, ledger);
  await waitFor('the archive', () => run.slot === ledger.finalSlot);
  await run.stop();
  const reader = createArchiveReader(engine, createSystemClock());
  // The slots without a block below the first one are known too.
  const [[from, to] = [-1, -1], ...others] = await reader.ranges();
  assert.ok(from >= 0 && from <= range[0] && to === range[1] && others.length === 0, `${from} to ${to}`);
  return reader;
}

async function emptyLedger(t: TestContext, index: IndexMode): Promise<Ledger> {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-lists-'));
  const ledger = await openLedger({
    dir,
    chain: 'main',
    retainHours: 24,
    retainBytes: 1e9,
    index,
    clock: createSystemClock(),
    log: createMemoryLog(),
    flushBlocks: 16,
    meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
  });
  t.after(async () => {
    await ledger.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return ledger;
}

async function append(ledger: Ledger, block: ModelBlock): Promise<void> {
  const answer = Buffer.from(JSON.stringify({ jsonrpc: '2.0', result: blockJson(block), id: 1 }));
  await ledger.append(decodeBlock(block.slot, scanBlockAnswer(answer)!));
}

/** Missing blocks below the final slot, as a backfill writes them. */
async function fillGap({ ledger, chain }: Daemon): Promise<void> {
  const first = chain.blocks.find(({ slot }) => ledger.state(slot) === 'block')!.slot;
  for (const block of chain.blocks)
    if (block.slot > first && block.slot <= ledger.finalSlot && ledger.state(block.slot) !== 'block')
      await append(ledger, block);
}

/** As the follower does it: cut at the common ancestor, append the other branch, and mark what an audit finds final. */
async function follow(daemon: Daemon, random: Sfc32): Promise<void> {
  const { ledger, chain, released } = daemon;
  const hashes = new Map(chain.blocks.map(({ slot, blockhash }) => [slot, blockhash]));
  const ancestor = released.findLast(({ slot, blockhash }) => hashes.get(slot) === blockhash)!;
  if (ledger.newest() > ancestor.slot) await ledger.cut(ancestor.slot);
  for (const block of chain.blocks) if (block.slot > ancestor.slot) await append(ledger, block);
  daemon.released = chain.blocks;
  if (random.below(2) === 0) await ledger.finalize(chain.finalSlot);
}

/** So many blocks are not final, at least: finality is late. */
async function openUp(daemon: Daemon, random: Sfc32, count: number): Promise<void> {
  const { finalSlot } = daemon.chain;
  const lacking = count - daemon.chain.blocks.filter(({ slot }) => slot > finalSlot).length;
  if (lacking <= 0) return;
  daemon.chain = { ...grown(daemon.chain, random, lacking), finalSlot };
  await follow(daemon, random);
}

const readerOf = (daemon: Daemon): ChainReader =>
  ({
    call: async (method: string, params: readonly unknown[]) => ask(daemon, method, params),
    callText: async (method: string, params: readonly unknown[]) => JSON.stringify(ask(daemon, method, params)),
  }) as unknown as ChainReader;

/** Errors: as those of the pool of upstreams. */
function ask({ chain, view }: Daemon, method: string, params: readonly unknown[]): unknown {
  try {
    return nodeAnswer(chain, view, method, params);
  } catch (error) {
    if (error instanceof NodeError)
      throw new CodedError('CHAIN_RPC_ERROR', `${method}: ${error.message}`, {
        facts: { method, rpcCode: error.code },
      });
    if (error instanceof NodeGone)
      throw new CodedError('CHAIN_UNREACHABLE', 'no upstream answers', { retryable: true });
    throw error;
  }
}

function archiveOf({ archived }: Daemon, isDown: () => boolean): ArchiveReader | null {
  if (archived === null) return null;
  const { reader } = archived;
  const up = async <T>(work: () => T | Promise<T>): Promise<T> => {
    if (isDown()) throw new CodedError('ARCHIVE_UNREACHABLE', 'the archive does not answer', { retryable: true });
    return await work();
  };
  return {
    ranges: () => up(() => reader.ranges()),
    states: (low, high) => up(() => reader.states(low, high)),
    header: (slot) => up(() => reader.header(slot)),
    text: (slot) => up(() => reader.text(slot)),
    find: (signature) => up(() => reader.find(signature)),
    transaction: (place) => up(() => reader.transaction(place)),
    addressPage: (query) => up(() => reader.addressPage(query)),
  };
}

type Outcome =
  | { readonly kind: 'result'; readonly text: string; readonly firstSlot: number | null; readonly isPassedOn: boolean }
  | { readonly kind: 'error' };

/** What a caller of the daemon gets, as the proxy asks for it. */
async function ours(
  daemon: Daemon,
  { answers, clock }: { readonly answers: Answers; readonly clock: Clock },
  method: string,
  params: readonly unknown[],
): Promise<Outcome> {
  const question = { method, params: () => JSON.stringify(params), tenant: OWN_WORK };
  const shown = (kept: KeptAnswer | UpstreamResult, isPassedOn = false): Outcome => {
    if ('errorText' in kept) return { kind: 'error' };
    const first = 'headers' in kept ? kept.headers?.['x-first-slot'] : undefined;
    return { kind: 'result', text: kept.resultText, firstSlot: first === undefined ? null : Number(first), isPassedOn };
  };
  try {
    const kept = await answers.answer(question);
    if (kept !== null) return shown(kept);
    const said = (asked: string, given: readonly unknown[]) => ({
      resultText: JSON.stringify(ask(daemon, asked, given)),
      upstream: 'upstream-0',
      sentAt: clock.monotonic(),
    });
    let first: ReturnType<typeof said>;
    try {
      first = said(method, params);
    } catch (error) {
      const alone =
        error instanceof CodedError && error.code !== 'CHAIN_RPC_ERROR' ? await answers.alone(question) : null;
      return alone === null ? { kind: 'error' } : shown(alone);
    }
    const again: AskAgain = async (_, asked, given) => {
      try {
        return said(asked, JSON.parse(given ?? '[]') as unknown[]);
      } catch (error) {
        if (error instanceof CodedError) return null;
        throw error;
      }
    };
    const checked = answers.checks(method) ? await answers.check(question, first, again) : null;
    const text = checked === null ? first.resultText : null;
    return text !== null ? { kind: 'result', text, firstSlot: null, isPassedOn: true } : shown(checked!, true);
  } catch (error) {
    if (error instanceof RpcError) return { kind: 'error' };
    throw error;
  }
}

type Answers = ReturnType<typeof createStandardAnswers>;

async function phase(daemon: Daemon, random: Sfc32, name: string, before?: ModelChain): Promise<void> {
  const past = createPastReader({
    ledger: () => daemon.ledger,
    archive: () => archiveOf(daemon, () => daemon.isArchiveDown),
  });
  const { views, calls } = { views: viewsOf(daemon, random), calls: CALLS_PER_PHASE };
  for (const view of views) {
    daemon.view = view;
    daemon.isArchiveDown = random.below(5) === 0;
    const hasLedger = random.below(8) > 0;
    let now = 0;
    // Tips of an upstream are at most a moment old: each call comes a second later.
    const clock = { ...createSystemClock(), monotonic: () => now, sleep: async () => undefined };
    const chain = readerOf(daemon);
    const joined = createJoinedHistory({ past, chain, clock });
    const answers = createStandardAnswers({
      past: () => (hasLedger ? past : null),
      joined,
      finalizedSlot: () => daemon.ledger.finalSlot,
      clock,
      log: createMemoryLog(),
      answered: () => undefined,
    });
    for (let call = 0; call < Math.ceil(calls / views.length); call++) {
      now += 1_000;
      const [method, params] = randomCall(daemon, random);
      const outcome = await ours(daemon, { answers, clock }, method, params);
      const verdict = judge(daemon, { method, params, outcome, name, hasLedger }, before);
      for (const what of ['calls', verdict]) daemon.counts.set(what, (daemon.counts.get(what) ?? 0) + 1);
    }
  }
}

function viewsOf({ chain }: Daemon, random: Sfc32): readonly NodeView[] {
  const { blocks, finalSlot } = chain;
  const final = blocks.findIndex(({ slot }) => slot === finalSlot);
  return [
    { kind: 'complete' },
    // No node prunes what it has not made final.
    { kind: 'pruned', first: blocks[1 + random.below(final - 1)]!.slot },
    { kind: 'pruned', first: blocks[Math.max(1, final - random.below(10))]!.slot },
    { kind: 'no-history' },
    { kind: 'behind', slots: 1 + random.below(60) },
    { kind: 'gone' },
  ];
}

function randomCall({ chain, released }: Daemon, random: Sfc32): readonly [string, readonly unknown[]] {
  const commitment = random.below(3) === 0 ? {} : { commitment: random.below(2) === 0 ? 'confirmed' : 'finalized' };
  const slot = () => FIRST_SLOT - 3 + random.below(chain.confirmedSlot - FIRST_SLOT + 8);
  const block = () => {
    const list = random.below(4) === 0 ? released : chain.blocks;
    return list[random.below(list.length)]!;
  };
  const signature = (): string => block().transactions[0]?.signature ?? signature();
  const method = [
    'getSignaturesForAddress',
    'getSignaturesForAddress',
    'getSignaturesForAddress',
    'getBlocks',
    'getBlocks',
    'getBlocksWithLimit',
    'getSignatureStatuses',
    'getTransaction',
    'getSlot',
    'getBlockHeight',
  ][random.below(10)]!;
  if (method === 'getSlot' || method === 'getBlockHeight') {
    const config = { ...commitment, ...(random.below(5) === 0 ? { minContextSlot: slot() } : {}) };
    return [method, random.below(5) === 0 ? [] : [config]];
  }
  if (method === 'getBlocks') {
    const [from, to] = [slot(), slot()].sort((a, b) => a - b);
    return [method, random.below(3) === 0 ? [from, commitment] : [from, to, commitment]];
  }
  if (method === 'getBlocksWithLimit') return [method, [slot(), 1 + random.below(120), commitment]];
  if (method === 'getTransaction')
    return [method, [signature(), { ...commitment, maxSupportedTransactionVersion: 0, encoding: 'base64' }]];
  if (method === 'getSignatureStatuses') {
    const list = Array.from({ length: 1 + random.below(4) }, signature);
    return [method, [list, { searchTransactionHistory: random.below(2) === 0 }]];
  }
  const config = {
    ...commitment,
    ...(random.below(2) === 0 ? { limit: [1, 2, 5, 20, 60, 1_000][random.below(6)]! } : {}),
    ...(random.below(3) === 0 ? { before: signature() } : {}),
    ...(random.below(3) === 0 ? { until: signature() } : {}),
    ...(random.below(9) === 0 ? { minContextSlot: slot() } : {}),
  };
  return [method, [modelAddress(random.below(MODEL_ADDRESSES.length)), config]];
}

interface Judged {
  readonly method: string;
  readonly params: readonly unknown[];
  readonly outcome: Outcome;
  readonly name: string;
  readonly hasLedger: boolean;
}

/** What an answer is. Throws where it is neither that of a complete node, nor says what is missing. */
function judge(daemon: Daemon, { method, params, outcome, name, hasLedger }: Judged, before?: ModelChain): string {
  if (outcome.kind === 'error') return 'error';
  const { view, chain, ledger } = daemon;
  const text = comparable(method, outcome.text);
  const complete = (of: ModelChain) => answerText(of, { kind: 'complete' }, method, params);
  const wanted = complete(chain);
  if (text === wanted) return 'equal';
  for (const of of momentsOf(daemon, method, params, before)) if (text === complete(of)) return 'equal at its moment';
  if (method === 'getTransaction' || method === 'getSignatureStatuses') {
    // A node that lacks it says that it has no such transaction, and this daemon has not either.
    const isDenied = (one: string, at: number) => one === 'null' && !knows(daemon, hasLedger, method, params, at);
    const moments = [chain, ...momentsOf(daemon, method, params, before)].map((of) => listOf(complete(of)));
    const theirs = listOf(answerText(chain, view, method, params));
    const isTheirs = (one: string, at: number) =>
      asFinal(one, chain.finalSlot) === asFinal(theirs[at] ?? 'null', chain.finalSlot) &&
      !isHeld(daemon, params, at) &&
      !isLate(one, ledger.finalSlot);
    if (
      listOf(text).every(
        (one, at) => isDenied(one, at) || isTheirs(one, at) || moments.some((list) => list[at] === one),
      )
    )
      return 'not known to anybody';
  }
  const held = (slot: number) =>
    hasLedger && (ledger.state(slot) === 'block' || (daemon.archived?.ledger.state(slot) ?? 'unknown') === 'block');
  const isHeldBelow = (slot: number) => chain.blocks.some((block) => block.slot < slot && held(block.slot));
  // Short as that of a node, and said so: nobody has anything older.
  if (outcome.firstSlot !== null && !isHeldBelow(outcome.firstSlot)) {
    for (const of of momentsOf(daemon, method, params, before))
      if (text === complete({ ...of, blocks: of.blocks.filter(({ slot }) => slot >= outcome.firstSlot!) }))
        return 'says its first slot';
  }
  const theirText = answerText(chain, view, method, params);
  const isTheirs =
    theirText.startsWith('[') && asFinal(text, chain.finalSlot) === asFinal(theirText, chain.finalSlot)
      ? !isLate(text, ledger.finalSlot)
      : text === theirText;
  if (outcome.isPassedOn && isTheirs) {
    const isLists = method === 'getSignaturesForAddress';
    const end = method === 'getBlocks' && typeof params[1] === 'number' ? params[1] : Number.MAX_SAFE_INTEGER;
    const isHeld = isLists
      ? daemon.index === 'window' && view.kind === 'pruned' && isHeldBelow(view.first)
      : view.kind === 'pruned' && isHeldBelow(Math.min(view.first, end + 1));
    if (!isHeld) return 'passed on';
  }
  const facts = {
    name,
    view,
    ledger: [ledger.newest(), ledger.finalSlot, ledger.firstOfRun()],
    index: daemon.index,
    hasLedger,
  };
  const archive = daemon.archived === null ? null : [daemon.archived.from, daemon.archived.to, daemon.isArchiveDown];
  const tips = [chain.blocks[0]!.slot, chain.finalSlot, chain.confirmedSlot];
  assert.fail(
    `${method} ${JSON.stringify(params)}: ${JSON.stringify({ ...facts, archive, tips, firstSlot: outcome.firstSlot, isPassedOn: outcome.isPassedOn })}\nours:   ${brief(text)}\nwanted: ${brief(wanted)}`,
  );
}

/** Whether a transaction that was asked for is on the branch that the ledger follows, in a block that the ledger or the archive has. */
function isHeld({ released, ledger, archived }: Daemon, [first]: readonly unknown[], at: number): boolean {
  const signature = typeof first === 'string' ? first : (first as string[])[at]!;
  const block = released.find(({ transactions }) => transactions.some((one) => one.signature === signature));
  if (block === undefined) return false;
  return [ledger, archived?.ledger].some((one) => one?.state(block.slot) === 'block');
}

/** Whether the daemon holds a transaction that was asked for. */
function knows(daemon: Daemon, hasLedger: boolean, method: string, [first, second]: readonly unknown[], at: number) {
  const signature = typeof first === 'string' ? first : (first as string[])[at]!;
  const { searchTransactionHistory, commitment } = second as Readonly<Record<string, unknown>>;
  const isOfTransaction = method === 'getTransaction';
  if (!isOfTransaction && searchTransactionHistory !== true) return false;
  const newest = isOfTransaction && commitment !== 'confirmed' ? daemon.ledger.finalSlot : Number.MAX_SAFE_INTEGER;
  const block = daemon.released.find(({ transactions }) => transactions.some((one) => one.signature === signature));
  return hasLedger && block !== undefined && block.slot <= newest && daemon.ledger.state(block.slot) === 'block';
}

/**
 * Moments at which a node with the blocks of this daemon would answer so: what the ledger follows, and what the node says, with any block
 * final that either of them knows as final.
 */
function* momentsOf(
  daemon: Daemon,
  method: string,
  params: readonly unknown[],
  before?: ModelChain,
): Generator<ModelChain> {
  const { chain, released, ledger, view } = daemon;
  const newest = ledger.newest();
  const blocks = released;
  const isDark = view.kind === 'gone' || view.kind === 'behind' || view.kind === 'no-history';
  const isConfirmed = method === 'getSignatureStatuses' || JSON.stringify(params).includes('"confirmed"');
  const lag = isConfirmed ? chain.confirmedSlot - newest : chain.finalSlot - ledger.finalSlot;
  const isFar = lag > 8 && view.kind === 'no-history';
  // A node that has nothing of what is held proves nothing of it as final.
  const isUnproven = view.kind === 'no-history' || (view.kind === 'pruned' && view.first > newest);
  if (isUnproven && (method === 'getSignatureStatuses' || JSON.stringify(params).includes('"before"')))
    yield { blocks: blocks.filter(({ slot }) => slot <= newest), confirmedSlot: newest, finalSlot: ledger.finalSlot };
  const tips = isDark && !isFar ? [newest] : before === undefined ? [] : [before.confirmedSlot];
  for (const confirmedSlot of tips)
    for (const { slot } of blocks)
      if (slot >= ledger.finalSlot && slot <= Math.min(confirmedSlot, chain.finalSlot))
        yield { blocks: blocks.filter((block) => block.slot <= confirmedSlot), confirmedSlot, finalSlot: slot };
  // What a node that is behind, but ahead of the ledger, knows. The ledger may know more of it as final.
  if (view.kind === 'behind' && chain.confirmedSlot - view.slots > newest)
    for (const finalSlot of [chain.finalSlot - view.slots, Math.max(ledger.finalSlot, chain.finalSlot - view.slots)])
      yield { ...chain, confirmedSlot: chain.confirmedSlot - view.slots, finalSlot };
  yield chain;
}

function answerText(chain: ModelChain, view: NodeView, method: string, params: readonly unknown[]): string {
  try {
    return comparable(method, JSON.stringify(nodeAnswer(chain, view, method, params)));
  } catch (error) {
    return `${error}`;
  }
}

/** Members that are the same from every source. */
function comparable(method: string, text: string): string {
  const value = JSON.parse(text) as { slot: number; transactionIndex: number; value: unknown } | null;
  if (method === 'getTransaction') return JSON.stringify(value === null ? null : [value.slot, value.transactionIndex]);
  return method === 'getSignatureStatuses' ? JSON.stringify(value!.value) : text;
}

const brief = (text: string): string => (text.length > 1_200 ? `${text.slice(0, 1_200)}… (${text.length})` : text);
