/**
 * Lists behind two nodes of which one has pruned its past, and which take turns: what one node lists, and what another one says that it has,
 * say nothing together. Each answer is that of the complete node, or an error, or one that says what it lacks.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import {
  createBlock,
  grown,
  MODEL_PROGRAMS,
  type ModelBlock,
  type ModelChain,
  modelAddress,
  type NodeView,
  nodeAnswer,
} from '../../helpers/list-model.ts';
import { answerBy } from '../../helpers/model-node.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const LISTS: readonly string[] = ['getSignaturesForAddress', 'getBlocks', 'getBlocksWithLimit'];
const STARTS: readonly string[] = ['getFirstAvailableBlock', 'minimumLedgerSlot'];
const FIRST_SLOT = 1_000;
const BLOCKS = 60;
const FINAL = 40;
const PRUNED = 20;
/** The address of a program has no index: its history is read from the nodes page by page, by a scan. */
const PROGRAM = 1;

/** Who refuses what: the complete node has no lists; the pruned one does not say where it begins; both take turns at random. */
const TURNS = ['the complete node does not list', 'the pruned node does not say its first slot', 'at random'] as const;

interface Bed {
  readonly daemon: DaemonInProcess;
  readonly chain: ModelChain;
}

for (const turns of TURNS)
  for (const hasLedger of [false, true])
    test(`two nodes, one of them pruned; ${turns}; ${hasLedger ? 'a ledger' : 'no ledger'}`, async (t) => {
      const bed = await startBed(t, turns, hasLedger);
      const counts = new Map<string, number>();
      for (let round = 0; round < (turns === 'at random' ? 2 : 1); round += 1)
        for (const look of looks(bed, hasLedger)) {
          const { name, verdict } = await look();
          assert.notEqual(verdict, 'short', name);
          counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
        }
      t.diagnostic(JSON.stringify(Object.fromEntries(counts)));
    });

async function startBed(t: TestContext, turns: (typeof TURNS)[number], hasLedger: boolean): Promise<Bed> {
  const random = createSfc32(43);
  const blocks: ModelBlock[] = [];
  while (blocks.length < BLOCKS) blocks.push(createBlock(random, blocks.at(-1) ?? null, { firstSlot: FIRST_SLOT }));
  const now = {
    chain: {
      blocks,
      confirmedSlot: blocks.at(-1)!.slot,
      finalSlot: blocks[FINAL]!.slot,
    } satisfies ModelChain as ModelChain,
    isReady: false,
  };
  const [complete, pruned] = [await startUpstream(), await startUpstream()];
  t.after(() => Promise.all([complete.stop(), pruned.stop()]));
  const programs = [modelAddress(PROGRAM)];
  const atRandom = () => turns === 'at random' && random.below(2) === 0;
  const views: readonly NodeView[] = [{ kind: 'complete' }, { kind: 'pruned', first: blocks[PRUNED]!.slot }];
  answerBy(complete, () => ({ chain: now.chain, view: views[0]! }), {
    programs,
    refuses: (method) =>
      now.isReady &&
      [...LISTS, ...STARTS].includes(method) &&
      (LISTS.includes(method) ? turns === TURNS[0] || atRandom() : atRandom()),
  });
  answerBy(pruned, () => ({ chain: now.chain, view: views[1]! }), {
    programs,
    refuses: (method) =>
      now.isReady &&
      [...LISTS, ...STARTS].includes(method) &&
      (STARTS.includes(method) ? turns === TURNS[1] || atRandom() : atRandom()),
  });
  const urls = turns === TURNS[1] ? [pruned.url, complete.url] : [complete.url, pruned.url];
  const daemon = await startDaemon({
    chain: { rpcUrl: urls[0]! },
    config: {
      plugins: ['access', 'proxy', 'token-metadata', 'wallet', 'history', 'enhanced', 'parsed'],
      ledger: { retain: { hours: hasLedger ? 24 : 0 } },
      proxy: { cache: { enabled: false } },
      follow: { pollMs: 20, auditIntervalMs: 50 },
      wallet: { readThroughMs: 200 },
      upstream: { urls },
    },
  });
  t.after(() => daemon.stop());
  const state = async () => {
    const { chain } = (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as {
      chain: { tipSlot: number | null; cursorSlot: number | null; finalizedSlot: number | null }[];
    };
    return chain[0]!;
  };
  await until(async () => (await state()).tipSlot === now.chain.confirmedSlot, 'the daemon sees the tip');
  now.chain = grown(now.chain, random, 50);
  await until(async () => {
    const { cursorSlot, finalizedSlot } = await state();
    return cursorSlot === now.chain.confirmedSlot && finalizedSlot === now.chain.finalSlot;
  }, 'the daemon follows');
  now.isReady = true;
  return { daemon, chain: now.chain };
}

/** A scan for all transactions of the program at `confirmed`; null: 503. */
async function scan(daemon: DaemonInProcess, time: object, sortOrder = 'desc'): Promise<Reply | null> {
  const response = await fetch(`${daemon.apiUrl}/v1/parsed-events/scan`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': daemon.key },
    body: JSON.stringify({
      address: modelAddress(PROGRAM),
      match: { programs: MODEL_PROGRAMS.map((programId) => ({ programId, scope: 'transaction' })) },
      returnShape: 'signatures',
      status: 'any',
      commitment: 'confirmed',
      sortOrder,
      time,
    }),
  });
  const body = (await response.json()) as { data: { signature: string }[]; paginationToken?: string };
  if (response.status === 503) return null;
  assert.equal(response.status, 200, JSON.stringify(body));
  const rows = body.data.map((row) => (typeof row === 'string' ? row : row.signature));
  return { rows, firstSlot: null, hasMore: body.paginationToken !== undefined };
}

type Verdict = 'equal' | 'error' | 'says where it begins' | 'says that more follows' | 'short';
type Look = () => Promise<{ readonly name: string; readonly verdict: Verdict }>;

/** A list, and what its answer says of what is not in it. */
interface Reply {
  readonly rows: readonly unknown[];
  readonly firstSlot: number | null;
  readonly hasMore: boolean;
}

function* looks(bed: Bed, hasLedger: boolean): Generator<Look> {
  const { chain, daemon } = bed;
  const judged =
    (name: string, ask: () => Promise<Reply | null>, wanted: (from: number) => readonly unknown[]): Look =>
    async () => {
      const reply = await ask();
      if (reply === null) return { name, verdict: 'error' };
      const [found, all] = [JSON.stringify(reply.rows), wanted(0)];
      if (found === JSON.stringify(all)) return { name, verdict: 'equal' };
      const { firstSlot } = reply;
      if (firstSlot !== null && found === JSON.stringify(wanted(firstSlot)))
        return { name, verdict: 'says where it begins' };
      if (reply.hasMore && found === JSON.stringify(all.slice(0, reply.rows.length)))
        return { name, verdict: 'says that more follows' };
      return { name: `${name}: ${reply.rows.length} rows of ${all.length}`, verdict: 'short' };
    };
  const headers = { 'content-type': 'application/json', 'x-api-key': daemon.key };
  const firstSlotOf = (response: Response) => {
    const first = response.headers.get('x-first-slot');
    return first === null ? null : Number(first);
  };
  const rpc = async (
    method: string,
    params: unknown,
    read: (result: never) => Omit<Reply, 'firstSlot'>,
  ): Promise<Reply | null> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(daemon.apiUrl, { method: 'POST', headers, body });
    const { result, error } = (await response.json()) as { result?: unknown; error?: { code: number } };
    if (error !== undefined) return null;
    return { ...read(result as never), firstSlot: firstSlotOf(response) };
  };
  const rest = async (path: string, read: (body: never) => Omit<Reply, 'firstSlot'>): Promise<Reply | null> => {
    const response = await fetch(`${daemon.apiUrl}${path}`, { headers });
    const body: unknown = await response.json();
    if (response.status !== 200) return null;
    return { ...read(body as never), firstSlot: firstSlotOf(response) };
  };
  const signatures = (rows: readonly { readonly signature: string }[]) => rows.map(({ signature }) => signature);
  const whole = (rows: readonly unknown[]) => ({ rows, hasMore: false });

  const listed = (at: number, from: number, commitment = 'confirmed') =>
    chain.blocks
      .filter(
        ({ slot }) => slot >= from && slot <= (commitment === 'confirmed' ? chain.confirmedSlot : chain.finalSlot),
      )
      .flatMap(({ transactions }) => transactions)
      .filter(({ addresses }) => addresses.includes(at))
      .reverse();
  const moved = (at: number, from: number, commitment?: string) =>
    listed(at, from, commitment).filter(({ lamports }) => lamports !== null);
  const ordered = (rows: readonly { readonly signature: string }[], order: string) =>
    order === 'asc' ? signatures(rows).toReversed() : signatures(rows);

  for (const at of [0, 3]) {
    const address = modelAddress(at);
    for (const [commitment, sortOrder] of [
      ['confirmed', 'desc'],
      ['finalized', 'asc'],
    ] as const) {
      const page = ({ data, paginationToken }: { data: { signature: string }[]; paginationToken: string | null }) => ({
        rows: signatures(data),
        hasMore: paginationToken !== null,
      });
      for (const tokenAccounts of ['none', 'all']) {
        const params = [address, { commitment, sortOrder, filters: { tokenAccounts } }];
        yield judged(
          `getTransactionsForAddress ${JSON.stringify(params)}`,
          () => rpc('getTransactionsForAddress', params, page),
          (from) => ordered(listed(at, from, commitment), sortOrder),
        );
      }
      yield judged(
        `getTransfersByAddress ${address} ${commitment} ${sortOrder}`,
        () => rpc('getTransfersByAddress', [address, { commitment, sortOrder }], page),
        (from) => ordered(moved(at, from, commitment), sortOrder),
      );
      const path = `/v0/addresses/${address}/transactions?limit=100&commitment=${commitment}&sort-order=${sortOrder}`;
      yield judged(
        path,
        () => rest(path, (rows: { signature: string }[]) => whole(signatures(rows))),
        (from) => ordered(listed(at, from, commitment), sortOrder).slice(0, 100),
      );
    }
    for (const what of ['history', 'transfers']) {
      const path = `/v1/wallet/${address}/${what}?limit=100`;
      yield judged(
        path,
        () =>
          rest(path, ({ data, pagination }: { data: { signature: string }[]; pagination: { hasMore: boolean } }) => ({
            rows: signatures(data),
            hasMore: pagination.hasMore,
          })),
        (from) => signatures(what === 'history' ? listed(at, from) : moved(at, from)),
      );
    }
    const funded = `/v1/wallet/${address}/funded-by`;
    yield judged(
      funded,
      () => rest(funded, ({ signature }: { signature: string }) => whole([signature])),
      (from) => signatures(moved(at, from).filter(({ addresses }) => addresses[1] === at)).slice(-1),
    );
    // Without a ledger, lists of nodes are passed on as they are.
    if (!hasLedger) continue;
    for (const commitment of ['confirmed', 'finalized']) {
      const params = [address, { commitment }];
      yield judged(
        `getSignaturesForAddress ${JSON.stringify(params)}`,
        () => rpc('getSignaturesForAddress', params, (rows: { signature: string }[]) => whole(signatures(rows))),
        (from) => signatures(listed(at, from, commitment)),
      );
    }
  }
  for (const sortOrder of ['desc', 'asc'])
    yield judged(
      `scan ${sortOrder}`,
      () => scan(daemon, {}, sortOrder),
      (from) => ordered(listed(PROGRAM, from), sortOrder),
    );
  if (!hasLedger) return;
  for (const [method, params] of [
    ['getBlocks', [FIRST_SLOT, { commitment: 'confirmed' }]],
    ['getBlocks', [FIRST_SLOT + 5, chain.confirmedSlot, { commitment: 'finalized' }]],
    ['getBlocksWithLimit', [FIRST_SLOT, 1_000, { commitment: 'confirmed' }]],
  ] as const)
    yield judged(
      `${method} ${JSON.stringify(params)}`,
      () => rpc(method, params, (rows: number[]) => whole(rows)),
      (from) => (nodeAnswer(chain, { kind: 'complete' }, method, params) as number[]).filter((slot) => slot >= from),
    );
}

const SLOT_SECONDS = 1_000;
/** Further from a time than this, blocks are not searched. */
const SLACK_S = 7_200;

test('two nodes, of which the one that lists blocks is behind: times are found where they are', async (t) => {
  const view: NodeView = { kind: 'behind', slots: 60 };
  const random = createSfc32(43);
  const blocks: ModelBlock[] = [];
  const options = { firstSlot: FIRST_SLOT, slotSeconds: SLOT_SECONDS };
  while (blocks.length < 2 * BLOCKS) blocks.push(createBlock(random, blocks.at(-1) ?? null, options));
  const [newest, final] = [blocks.at(-1)!.slot, blocks.at(-30)!.slot];
  const chain: ModelChain = { blocks, confirmedSlot: newest, finalSlot: final };
  const [complete, other] = [await startUpstream(), await startUpstream()];
  t.after(() => Promise.all([complete.stop(), other.stop()]));
  const programs = [modelAddress(PROGRAM)];
  const refuses = (method: string) => method === 'getBlocks';
  answerBy(complete, () => ({ chain, view: { kind: 'complete' } }), { refuses, programs });
  answerBy(other, () => ({ chain, view }), { programs });
  const daemon = await startDaemon({
    chain: { rpcUrl: complete.url },
    config: {
      plugins: ['access', 'proxy', 'token-metadata', 'wallet', 'history', 'enhanced', 'parsed'],
      follow: { unhealthyLagSeconds: 7_200, unhealthyLagSlots: 1_000 },
      wallet: { readThroughMs: 300 },
      upstream: { urls: [complete.url, other.url] },
    },
  });
  t.after(() => daemon.stop());
  let answers = 0;
  for (let slot = FIRST_SLOT; slot < newest; slot += 18)
    for (const bound of ['lte', 'gte']) {
      const time = 1_700_000_000 + slot * SLOT_SECONDS + (bound === 'lte' ? -SLACK_S : SLACK_S);
      const reply = await scan(daemon, { [bound]: time });
      if (reply === null) continue;
      const wanted = blocks
        .filter((block) => block.time !== null && (bound === 'lte' ? block.time <= time : block.time >= time))
        .flatMap(({ transactions }) => transactions)
        .filter(({ addresses }) => addresses.includes(PROGRAM))
        .map(({ signature }) => signature)
        .reverse();
      assert.deepEqual(reply.rows, wanted, `${bound} slot ${slot}`);
      answers += 1;
    }
  assert.ok(answers > 0);
});
