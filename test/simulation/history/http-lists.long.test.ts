/**
 * Lists of a whole daemon over HTTP, behind nodes that lack a part of the chain: the standard ones, the histories and transfers of addresses,
 * those of wallets, and enhanced ones. Each answer is that of the complete node, or an error, or a page that says what it lacks.
 * `PARHELION_LIST_SEEDS=20 PARHELION_TEST_TIMEOUT_MS=7200000 npm test -- http-lists` runs more of them than the long tier.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import {
  asFinal,
  createBlock,
  forked,
  grown,
  isLate,
  MODEL_ADDRESSES,
  type ModelBlock,
  type ModelChain,
  type ModelTransaction,
  modelAddress,
  type NodeView,
  nodeAnswer,
} from '../../helpers/list-model.ts';
import { answerBy } from '../../helpers/model-node.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const SEEDS = Number(process.env['PARHELION_LIST_SEEDS'] ?? 1);
const CALLS_PER_VIEW = 36;
/** Calls in flight. */
const WIDTH = 12;
/** A wallet may be answered from a read that is as old as this. */
const READ_THROUGH_MS = 300;
/** What the daemon heard of a node, its tip among it, counts no longer than this. */
const HEARD_MS = 500;
/** A node that is behind by less is one that moments ago answered the same. */
const MAX_LAG_SLOTS = 8;
const FIRST_SLOT = 1_000;
const BLOCKS = 60;
const DEEPEST_FORK = 31;
type Commitment = 'confirmed' | 'finalized';

interface Bed {
  readonly daemon: DaemonInProcess;
  readonly node: TestUpstream;
  readonly random: Sfc32;
  readonly hasLedger: boolean;
  readonly index: 'none' | 'followed' | 'window';
  /** The tip when the daemon started, which follows what is above. */
  readonly startSlot: number;
  /** First slot of the ledger. */
  readonly heldFrom: number;
  /** Whether an archive node, which is complete, stands beside the node. */
  readonly hasArchive: boolean;
  chain: ModelChain;
  view: NodeView;
  /** Chains that the daemon may still see a part of: what was there before the chain moved. */
  earlier: readonly ModelChain[];
  readonly counts: Map<string, number>;
}

for (let seed = 1; seed <= SEEDS; seed += 1)
  test(`lists over HTTP behind nodes that lack a part, seed ${seed}`, async (t) => {
    const bed = await startBed(t, createSfc32(seed * 104_729));
    const { random } = bed;
    await views(bed, 'young ledger');
    await grow(bed, 30 + random.below(30));
    await views(bed, 'at rest');
    for (let turn = 0; turn < 2; turn += 1) {
      await fork(bed);
      await views(bed, 'fork followed');
    }
    await views(bed, 'moving', () => move(bed));
    t.diagnostic(JSON.stringify(Object.fromEntries(bed.counts)));
    assert.ok((bed.counts.get('equal') ?? 0) > 300, 'many answers are complete');
  });

async function startBed(t: TestContext, random: Sfc32): Promise<Bed> {
  const blocks: ModelBlock[] = [];
  while (blocks.length < BLOCKS) blocks.push(createBlock(random, blocks.at(-1) ?? null, { firstSlot: FIRST_SLOT }));
  const chain: ModelChain = {
    blocks,
    confirmedSlot: blocks.at(-1)!.slot,
    finalSlot: blocks[BLOCKS - 26 - random.below(7)]!.slot,
  };
  const hasLedger = random.below(5) > 0;
  const index = (['window', 'window', 'window', 'followed', 'none'] as const)[random.below(5)]!;
  const hasArchive = random.below(4) === 0;
  const [node, archive] = [await startUpstream(), hasArchive ? await startUpstream() : null];
  t.after(() => Promise.all([node.stop(), archive?.stop()]));
  const seen: { chain: ModelChain; view: NodeView } = { chain, view: { kind: 'complete' } };
  answerBy(node, () => seen);
  if (archive !== null) answerBy(archive, () => ({ chain: seen.chain, view: { kind: 'complete' } }));
  const daemon = await startDaemon({
    chain: { rpcUrl: node.url },
    config: {
      plugins: ['access', 'proxy', 'token-metadata', 'wallet', 'history', 'enhanced', 'parsed'],
      ledger: { retain: { hours: hasLedger ? 24 : 0 }, index },
      proxy: { cache: { enabled: false } },
      follow: { pollMs: 20, auditIntervalMs: 50 },
      wallet: { readThroughMs: READ_THROUGH_MS },
      upstream: { urls: [node.url, ...(archive === null ? [] : [{ url: archive.url, archive: true }])] },
    },
  });
  t.after(() => daemon.stop());
  const bed: Bed = Object.assign(seen, {
    daemon,
    node,
    random,
    hasLedger,
    index,
    hasArchive,
    startSlot: chain.confirmedSlot,
    heldFrom: 0,
    earlier: [],
    counts: new Map<string, number>(),
  });
  await until(async () => (await readiness(daemon)).chain[0]?.tipSlot === bed.startSlot, 'the daemon sees the tip');
  await grow(bed, 1 + random.below(4));
  const oldest = /^parhelion_ledger_oldest_slot (\d+)/m.exec(
    await (await fetch(`${daemon.adminUrl}/metrics`)).text(),
  )?.[1];
  return Object.assign(bed, { heldFrom: hasLedger ? Number(oldest) : Number.MAX_SAFE_INTEGER });
}

interface Readiness {
  readonly chain: readonly {
    readonly tipSlot: number | null;
    readonly cursorSlot: number | null;
    readonly finalizedSlot: number | null;
  }[];
}

/** What is final is learned from the first followed block on. */
async function followed({ daemon, chain, startSlot }: Bed): Promise<void> {
  await until(async () => {
    const { cursorSlot = null, finalizedSlot = null } = (await readiness(daemon)).chain[0] ?? {};
    const isFinal = finalizedSlot === chain.finalSlot || chain.finalSlot <= startSlot;
    return cursorSlot === chain.confirmedSlot && isFinal;
  }, 'the daemon follows');
}

const readiness = async ({ adminUrl }: DaemonInProcess): Promise<Readiness> =>
  (await (await fetch(`${adminUrl}/readyz`)).json()) as Readiness;

/** A few blocks at a time, as the follower sees them. */
async function grow(bed: Bed, count: number): Promise<void> {
  for (let left = count; left > 0; ) {
    const some = Math.min(left, 1 + bed.random.below(12));
    bed.chain = grown(bed.chain, bed.random, some, String(bed.random.next()));
    await followed(bed);
    left -= some;
  }
}

/** Another branch. It is followed as soon as it is longer than the one before. */
function branched(chain: ModelChain, random: Sfc32): ModelChain {
  let next = forked(chain, random, 1 + random.below(DEEPEST_FORK));
  while (next.confirmedSlot <= chain.confirmedSlot) next = grown(next, random, 1, String(random.next()));
  return next;
}

async function fork(bed: Bed): Promise<void> {
  bed.chain = branched(bed.chain, bed.random);
  await followed(bed);
}

/** The chain goes on, or with another branch, while a part of it is missing; the daemon follows as far as it can. */
function move(bed: Bed): void {
  const { chain, random } = bed;
  bed.earlier = [chain];
  const next = random.below(2) === 0 ? branched(chain, random) : chain;
  bed.chain = grown(next, random, 1 + random.below(8), String(random.next()));
}

/** Calls behind each kind of node. */
async function views(bed: Bed, name: string, before: () => void = () => undefined): Promise<void> {
  const { chain, random } = bed;
  const final = chain.blocks.findIndex(({ slot }) => slot === chain.finalSlot);
  const kinds: readonly NodeView[] = [
    { kind: 'complete' },
    // No node prunes what it has not made final.
    { kind: 'pruned', first: chain.blocks[1 + random.below(final - 1)]!.slot },
    { kind: 'pruned', first: chain.blocks[Math.max(1, final - random.below(10))]!.slot },
    { kind: 'no-history' },
    { kind: 'behind', slots: 1 + random.below(60) },
    { kind: 'gone' },
  ];
  for (const view of kinds.toSorted(() => random.below(2) - 0.5)) {
    bed.view = view;
    before();
    await sleep(HEARD_MS);
    let left = CALLS_PER_VIEW;
    const work = async () => {
      while (left-- > 0) {
        const call = randomCall(bed);
        const verdict = await call.run(name);
        for (const what of ['calls', verdict, `${view.kind} ${verdict}`])
          bed.counts.set(what, (bed.counts.get(what) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: WIDTH }, work));
    if (bed.earlier.length === 0) continue;
    // The next node begins where the daemon has come to.
    bed.view = { kind: 'complete' };
    await followed(bed);
    bed.earlier = [];
  }
  bed.view = { kind: 'complete' };
  await followed(bed);
}

interface Call {
  run(phase: string): Promise<string>;
}

const pick = <T>(random: Sfc32, list: readonly T[]): T => list[random.below(list.length)]!;

function randomCall(bed: Bed): Call {
  const makers = [
    standardCall,
    standardCall,
    transactionsCall,
    transactionsCall,
    transfersCall,
    walletCall,
    enhancedCall,
  ];
  return pick(bed.random, makers)(bed);
}

type Reply =
  | { readonly kind: 'error' }
  | { readonly kind: 'answer'; readonly body: unknown; readonly headers: Headers };

/** Refusals that say that something is missing, or not there yet. */
const RPC_REFUSALS: readonly unknown[] = [-32001, -32002, -32004, -32007, -32009, -32011, -32014, -32016, -32020];
const HTTP_REFUSALS: readonly number[] = [502, 503, 504];

async function rpc({ daemon }: Bed, method: string, params: unknown): Promise<Reply> {
  const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as { result?: unknown; error?: { code: number } };
  if (error === undefined) return { kind: 'answer', body: result, headers: response.headers };
  assert.ok(RPC_REFUSALS.includes(error.code), `${method} ${JSON.stringify(params)}: ${JSON.stringify(error)}`);
  return { kind: 'error' };
}

async function rest({ daemon }: Bed, path: string, post?: unknown): Promise<Reply> {
  const response = await fetch(`${daemon.apiUrl}${path}`, {
    headers: { 'x-api-key': daemon.key, 'content-type': 'application/json' },
    ...(post === undefined ? {} : { method: 'POST', body: JSON.stringify(post) }),
  });
  const body: unknown = await response.json();
  if (response.status === 200) return { kind: 'answer', body, headers: response.headers };
  assert.ok(HTTP_REFUSALS.includes(response.status), `${path}: ${response.status} ${JSON.stringify(body)}`);
  return { kind: 'error' };
}

/** A transaction of the model with its place. */
interface Placed {
  readonly block: ModelBlock;
  readonly index: number;
  readonly tx: ModelTransaction;
}

/** Transactions of an address, newest first, up to a slot. */
function listed({ blocks }: ModelChain, address: number, newest: number): readonly Placed[] {
  return blocks
    .filter(({ slot }) => slot <= newest)
    .flatMap((block) => block.transactions.map((tx, index) => ({ block, index, tx })))
    .filter(({ tx }) => tx.addresses.includes(address))
    .reverse();
}

/** A block without a time has that of the nearest earlier one. */
const timeNear = ({ blocks }: ModelChain, slot: number): number =>
  blocks.findLast((block) => block.slot <= slot && block.time !== null)!.time!;

/** Chains that an answer may be of: the newest one, and while it moves, all that is between it and the one before, to any final slot. */
function* moments({ chain, earlier }: Bed): Generator<ModelChain> {
  yield chain;
  for (const before of earlier) {
    const finals = chain.blocks.filter(({ slot }) => slot >= before.finalSlot && slot <= chain.finalSlot);
    for (const { blocks, confirmedSlot } of [before, chain]) {
      const from = blocks === chain.blocks ? forkOf(before, chain) : confirmedSlot;
      for (const { slot: top } of blocks)
        if (top >= from)
          for (const { slot: finalSlot } of finals)
            yield { blocks: blocks.filter(({ slot }) => slot <= top), confirmedSlot: top, finalSlot };
    }
  }
}

/** The newest slot that two chains share. */
function forkOf(one: ModelChain, other: ModelChain): number {
  const hashes = new Set(other.blocks.map(({ blockhash }) => blockhash));
  return one.blocks.findLast(({ blockhash }) => hashes.has(blockhash))!.slot;
}

/** Whether an answer is that of a complete node at any moment. */
function isComplete(bed: Bed, found: string, wanted: (chain: ModelChain) => string): boolean {
  for (const chain of moments(bed)) if (found === wanted(chain)) return true;
  return false;
}

function fail(bed: Bed, facts: object, found: unknown, wanted: unknown): never {
  const { view, chain, heldFrom, index, hasLedger, hasArchive, earlier } = bed;
  const tips = [chain.blocks[0]!.slot, chain.finalSlot, chain.confirmedSlot];
  const before = earlier.map((one) => [forkOf(one, chain), one.finalSlot, one.confirmedSlot]);
  const [ours, theirs] = differing(found, wanted);
  assert.fail(
    `${JSON.stringify({ ...facts, view, heldFrom, index, hasLedger, hasArchive, tips, before })}\nours:   ${brief(ours)}\nwanted: ${brief(theirs)}`,
  );
}

/** From shortly before the place where two texts differ. */
function differing(found: unknown, wanted: unknown): readonly [string, string] {
  const texts = [found, wanted].map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  const [ours = '', theirs = ''] = texts;
  let at = 0;
  while (at < ours.length && ours[at] === theirs[at]) at += 1;
  return [ours, theirs].map((text) => `(${text.length}) ${text.slice(Math.max(0, at - 200))}`) as [string, string];
}

const brief = (value: unknown): string => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > 1_500 ? `${text.slice(0, 1_500)}… (${text.length})` : text;
};

/** Lists that nodes have too. */
function standardCall(bed: Bed): Call {
  const { chain, random } = bed;
  const commitment: Commitment | undefined = pick(random, [undefined, 'confirmed', 'finalized']);
  const config = commitment === undefined ? {} : { commitment };
  const slot = () => FIRST_SLOT - 3 + random.below(chain.confirmedSlot - FIRST_SLOT + 8);
  const signature = (): string => pick(random, chain.blocks).transactions[0]?.signature ?? signature();
  const method = pick(random, [
    'getSignaturesForAddress',
    'getSignaturesForAddress',
    'getBlocks',
    'getBlocksWithLimit',
  ]);
  const paramsOf = (): readonly unknown[] => {
    if (method === 'getBlocks') {
      const [from, to] = [slot(), slot()].sort((a, b) => a - b);
      return random.below(3) === 0 ? [from, config] : [from, to, config];
    }
    if (method === 'getBlocksWithLimit') return [slot(), 1 + random.below(120), config];
    const bounds = {
      ...(random.below(2) === 0 ? { limit: pick(random, [1, 2, 5, 20, 60, 1_000]) } : {}),
      ...(random.below(3) === 0 ? { before: signature() } : {}),
      ...(random.below(3) === 0 ? { until: signature() } : {}),
    };
    return [modelAddress(random.below(MODEL_ADDRESSES.length)), { ...config, ...bounds }];
  };
  const params = paramsOf();
  return {
    async run(phase) {
      const reply = await rpc(bed, method, params);
      if (reply.kind === 'error') return 'error';
      // Nothing that the daemon holds is final yet: what the node does not call final is not known as final.
      const isYoung = bed.view.kind === 'behind' && chain.finalSlot <= bed.startSlot && commitment === 'confirmed';
      const isLateToo = isYoung && method === 'getSignaturesForAddress';
      const found = JSON.stringify(reply.body);
      const text = isLateToo ? asFinal(found, chain.finalSlot) : found;
      const wanted = (of: ModelChain) => nodeText(of, { kind: 'complete' }, method, params);
      if (isComplete(bed, text, wanted)) return 'equal';
      const first = reply.headers.get('x-first-slot');
      const isOfNode = (found: string, of: ModelChain) => {
        const theirs = nodeText(of, bed.view, method, params);
        if (!theirs.startsWith('[')) return false;
        return asFinal(found, chain.finalSlot) === asFinal(theirs, chain.finalSlot) && !isLate(found, of.finalSlot);
      };
      if (
        first !== null &&
        Number(first) <= bed.heldFrom &&
        isComplete(bed, text, (of) => wanted(from(of, Number(first))))
      )
        return 'says its first slot';
      const end = method === 'getBlocks' && typeof params[1] === 'number' ? params[1] : undefined;
      if (mayPassOn(bed, method, commitment ?? 'finalized', end))
        for (const of of moments(bed)) if (isOfNode(text, of)) return 'passed on';
      return fail(bed, { phase, method, params, first }, text, wanted(bed.chain));
    },
  };
}

/** Whether the list of a node that lacks a part may be passed on: the daemon holds nothing that helps. */
function mayPassOn(bed: Bed, method: string, commitment: Commitment, end = Number.MAX_SAFE_INTEGER): boolean {
  const { view, hasLedger, index, heldFrom } = bed;
  const isBare = !hasLedger || (method === 'getSignaturesForAddress' && index !== 'window');
  if (view.kind === 'behind') return !hasLedger || (isBare && lagOf(bed, view.slots, commitment) <= MAX_LAG_SLOTS);
  return view.kind === 'pruned' && (isBare || heldFrom >= Math.min(view.first, end + 1));
}

/** By how much a node is behind the daemon, which has seen nothing newer since the chain moved. */
function lagOf({ chain, earlier }: Bed, slots: number, commitment: Commitment): number {
  return Math.min(slots, ...earlier.map((before) => slots - (tipOf(chain, commitment) - tipOf(before, commitment))));
}

function nodeText(chain: ModelChain, view: NodeView, method: string, params: readonly unknown[]): string {
  try {
    return JSON.stringify(nodeAnswer(chain, view, method, params));
  } catch (error) {
    return `${error}`;
  }
}

/** Walks on from page to page sometimes: together they are the list. */
interface Paged {
  readonly facts: object;
  /** Null: an error. `next` null: the list ends here. */
  page(token: string | null): Promise<{ readonly rows: readonly string[]; readonly next: string | null } | null>;
  /** All rows, in order. */
  wanted(chain: ModelChain): readonly string[];
  readonly limit: number;
}

function pagedCall(bed: Bed, { facts, page, wanted, limit }: Paged): Call {
  const pages = bed.random.below(3) === 0 ? 4 : 1;
  return {
    async run(phase) {
      const found: string[] = [];
      let token: string | null = null;
      let isShort = false;
      for (let turn = 0; turn < (bed.earlier.length > 0 ? 1 : pages); turn += 1) {
        const got = await page(token);
        if (got === null && turn === 0) return 'error';
        if (got === null) break;
        isShort ||= got.next !== null && got.rows.length < limit;
        found.push(...got.rows);
        token = got.next;
        if (token === null) break;
      }
      const isSame = (of: ModelChain) => {
        const all = wanted(of);
        const own = token === null ? all : all.slice(0, found.length);
        return JSON.stringify(own) === JSON.stringify(found);
      };
      for (const of of moments(bed)) if (isSame(of)) return isShort ? 'says that more follows' : 'equal';
      return fail(bed, { phase, ...facts, token }, found, wanted(bed.chain));
    },
  };
}

const statusOf = ({ finalSlot }: ModelChain, slot: number): string => (slot <= finalSlot ? 'finalized' : 'confirmed');
const tipOf = (chain: ModelChain, commitment: Commitment): number =>
  commitment === 'confirmed' ? chain.confirmedSlot : chain.finalSlot;

interface HistoryRow {
  readonly signature: string;
  readonly slot: number;
  readonly transactionIndex: number;
  readonly err: unknown;
  readonly memo: string | null;
  readonly blockTime: number | null;
  readonly confirmationStatus: string;
}

interface FullRow {
  readonly slot: number;
  readonly transactionIndex: number;
  readonly blockTime: number | null;
  readonly transaction: readonly string[];
}

function transactionsCall(bed: Bed): Call {
  const { random, chain } = bed;
  const address = random.below(MODEL_ADDRESSES.length);
  const commitment = pick<Commitment>(random, ['confirmed', 'finalized']);
  const sortOrder = pick(random, ['desc', 'desc', 'asc']);
  const limit = pick(random, [1, 3, 10, 40, 1_000]);
  const status = pick(random, ['any', 'any', 'succeeded', 'failed']);
  const isFull = random.below(4) === 0;
  const least = random.below(3) === 0 ? FIRST_SLOT + random.below(chain.confirmedSlot - FIRST_SLOT) : 0;
  const tokenAccounts = pick(random, ['none', 'none', 'balanceChanged', 'all']);
  const filters = { status, tokenAccounts, ...(least === 0 ? {} : { slot: { gte: least } }) };
  const details = isFull
    ? { transactionDetails: 'full', encoding: 'base64', maxSupportedTransactionVersion: 0 }
    : { transactionDetails: 'signatures' };
  const params = [modelAddress(address), { commitment, sortOrder, limit, filters, ...details }] as const;
  return pagedCall(bed, {
    facts: { method: 'getTransactionsForAddress', params },
    limit,
    async page(paginationToken) {
      const reply = await rpc(bed, 'getTransactionsForAddress', [params[0], { ...params[1], paginationToken }]);
      if (reply.kind === 'error') return null;
      const { data, paginationToken: next } = reply.body as { data: unknown[]; paginationToken: string | null };
      const rows = data.map((row) => {
        if (isFull) {
          const { slot, transactionIndex, blockTime, transaction } = row as FullRow;
          return JSON.stringify([transaction[0], slot, transactionIndex, blockTime]);
        }
        const { signature, slot, transactionIndex, err, memo, blockTime, confirmationStatus } = row as HistoryRow;
        return JSON.stringify([signature, slot, transactionIndex, err, memo, blockTime, confirmationStatus]);
      });
      return { rows, next };
    },
    wanted(of) {
      const all = listed(of, address, tipOf(of, commitment)).filter(
        ({ block, tx }) => block.slot >= least && (status === 'any' || (tx.err === null) === (status === 'succeeded')),
      );
      const rows = all.map(({ block: { slot, time }, index, tx }) => {
        const wire = (tx.entry as { readonly transaction: readonly string[] }).transaction[0];
        return JSON.stringify(
          isFull ? [wire, slot, index, time] : [tx.signature, slot, index, tx.err, tx.memo, time, statusOf(of, slot)],
        );
      });
      return sortOrder === 'asc' ? rows.reverse() : rows;
    },
  });
}

function transfersCall(bed: Bed): Call {
  const { random } = bed;
  const address = random.below(MODEL_ADDRESSES.length);
  const commitment = pick<Commitment>(random, ['confirmed', 'finalized']);
  const sortOrder = pick(random, ['desc', 'asc']);
  const direction = pick(random, ['any', 'any', 'in', 'out']);
  const limit = pick(random, [1, 3, 10, 100]);
  const params = [modelAddress(address), { commitment, sortOrder, limit, direction }] as const;
  return pagedCall(bed, {
    facts: { method: 'getTransfersByAddress', params },
    limit,
    async page(paginationToken) {
      const reply = await rpc(bed, 'getTransfersByAddress', [params[0], { ...params[1], paginationToken }]);
      if (reply.kind === 'error') return null;
      const { data, paginationToken: next } = reply.body as {
        readonly data: readonly Readonly<Record<string, unknown>>[];
        readonly paginationToken: string | null;
      };
      const rows = data.map((row) =>
        JSON.stringify(
          ['signature', 'slot', 'transactionIdx', 'blockTime', 'amount', 'toUserAccount', 'confirmationStatus'].map(
            (name) => row[name],
          ),
        ),
      );
      return { rows, next };
    },
    wanted(of) {
      const rows = moves(of, address, tipOf(of, commitment))
        .filter(({ isOut }) => direction === 'any' || isOut === (direction === 'out'))
        .map(({ block: { slot }, index, tx: { signature, lamports, addresses } }) =>
          JSON.stringify([
            signature,
            slot,
            index,
            timeNear(of, slot),
            String(lamports),
            modelAddress(addresses[1]!),
            statusOf(of, slot),
          ]),
        );
      return sortOrder === 'asc' ? rows.reverse() : rows;
    },
  });
}

/** Transactions that move lamports from or to an address. */
const moves = (chain: ModelChain, address: number, newest: number) =>
  listed(chain, address, newest).flatMap((one) =>
    one.tx.lamports === null ? [] : [{ ...one, isOut: one.tx.addresses[0] === address }],
  );

/** Histories and transfers of a wallet, at `confirmed`. */
function walletCall(bed: Bed): Call {
  const { random } = bed;
  const address = random.below(MODEL_ADDRESSES.length);
  const limit = pick(random, [1, 3, 10, 100]);
  const isOfTransfers = random.below(2) === 0;
  const path = `/v1/wallet/${modelAddress(address)}/${isOfTransfers ? 'transfers' : 'history'}?limit=${limit}`;
  const columns = isOfTransfers
    ? ['signature', 'timestamp', 'direction', 'amountRaw']
    : ['signature', 'timestamp', 'slot', 'feePayer'];
  return pagedCall(bed, {
    facts: { path },
    limit,
    async page(token) {
      const reply = await rest(bed, token === null ? path : `${path}&${isOfTransfers ? 'cursor' : 'before'}=${token}`);
      if (reply.kind === 'error') return null;
      const { data, pagination } = reply.body as {
        readonly data: readonly Readonly<Record<string, unknown>>[];
        readonly pagination: { readonly hasMore: boolean; readonly nextCursor: string | null };
      };
      assert.equal(pagination.hasMore, pagination.nextCursor !== null);
      return { rows: data.map((row) => JSON.stringify(columns.map((name) => row[name]))), next: pagination.nextCursor };
    },
    wanted: (of) =>
      isOfTransfers
        ? moves(of, address, of.confirmedSlot).map(({ block: { slot }, isOut, tx }) =>
            JSON.stringify([tx.signature, timeNear(of, slot), isOut ? 'out' : 'in', String(tx.lamports)]),
          )
        : listed(of, address, of.confirmedSlot).map(({ block: { slot, time }, tx }) =>
            JSON.stringify([tx.signature, time, slot, modelAddress(tx.addresses[0]!)]),
          ),
  });
}

/** Enhanced transactions. Their lists have no token: a short one is the end, or names its first slot. */
function enhancedCall(bed: Bed): Call {
  const { random } = bed;
  const address = random.below(MODEL_ADDRESSES.length);
  const commitment = pick<Commitment>(random, ['confirmed', 'finalized']);
  const limit = pick(random, [1, 3, 10, 100]);
  const isAscending = random.below(3) === 0;
  const order = isAscending ? '&sort-order=asc' : '';
  const path = `/v0/addresses/${modelAddress(address)}/transactions?limit=${limit}&commitment=${commitment}${order}`;
  return {
    async run(phase) {
      const reply = await rest(bed, path);
      if (reply.kind === 'error') return 'error';
      const text = JSON.stringify((reply.body as readonly Placing[]).map(({ signature, slot }) => [signature, slot]));
      const wanted = (of: ModelChain) => {
        const rows = listed(of, address, tipOf(of, commitment)).map(({ block: { slot }, tx }) => [tx.signature, slot]);
        return JSON.stringify((isAscending ? rows.reverse() : rows).slice(0, limit));
      };
      if (isComplete(bed, text, wanted)) return 'equal';
      const first = reply.headers.get('x-first-slot');
      if (
        first !== null &&
        Number(first) <= bed.heldFrom &&
        isComplete(bed, text, (of) => wanted(from(of, Number(first))))
      )
        return 'says its first slot';
      const isPassed = mayPassOn(bed, 'getSignaturesForAddress', commitment);
      if (isPassed && isComplete(bed, text, (of) => wanted(seenBy(of, bed.view)))) return 'passed on';
      return fail(bed, { phase, path, first }, text, wanted(bed.chain));
    },
  };
}

type Placing = Pick<HistoryRow, 'signature' | 'slot'>;

const from = ({ blocks, ...of }: ModelChain, first: number): ModelChain => ({
  ...of,
  blocks: blocks.filter(({ slot }) => slot >= first),
});

/** The part of a chain that a node has. */
function seenBy(chain: ModelChain, view: NodeView): ModelChain {
  const lag = view.kind === 'behind' ? view.slots : 0;
  const seen = { ...chain, confirmedSlot: chain.confirmedSlot - lag, finalSlot: chain.finalSlot - lag };
  return view.kind === 'pruned' ? from(seen, view.first) : seen;
}
