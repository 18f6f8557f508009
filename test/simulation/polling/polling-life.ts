import assert from 'node:assert/strict';
import { balanceAtRoute } from '../../../plugins/wallet/balance-at.ts';
import { createFundingSearches, fundedByRoute } from '../../../plugins/wallet/funded-by.ts';
import { createResponseCache, walletHistoryRoute } from '../../../plugins/wallet/history.ts';
import { mergeTail } from '../../../plugins/wallet/store/rows.ts';
import { migrations, type WalletDb } from '../../../plugins/wallet/store/tables.ts';
import { registerWallet } from '../../../plugins/wallet/store/wallets.ts';
import { backfillWallet } from '../../../plugins/wallet/tracking/backfill.ts';
import { createChainHistory } from '../../../plugins/wallet/tracking/chain-history.ts';
import { createDerivedRows } from '../../../plugins/wallet/tracking/derived-rows.ts';
import { createWalletProcessor } from '../../../plugins/wallet/tracking/processor.ts';
import { createOpenWallet, createTracker } from '../../../plugins/wallet/tracking/tracker.ts';
import { transfersRoute } from '../../../plugins/wallet/transfers.ts';
import { createMintFactsReader } from '../../../plugins/wallet/wallet-route.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { type JsonText, type Reply, RequestError } from '../../../src/plugin/request.ts';
import { tenantOf } from '../../../src/ports/access.ts';
import type { ChainReader, ChainStatus } from '../../../src/ports/chain.ts';
import type { Store } from '../../../src/ports/store.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createSfc32, type Sfc32 } from '../../helpers/sfc32.ts';
import { blockText, createWorld, FIRST_SLOT, type World, type WorldBlock } from '../follower/world.ts';
import {
  type Accounts,
  accountsOf,
  createCalls,
  deedOf,
  lamportsAfter,
  MINT,
  type SkewedNode,
  tokensAfter,
  WALLET,
  writeDeed,
} from './wallet-world.ts';

/** What became of one seed. */
export interface PollingReport {
  readonly seed: number;
  /** What a client was told wrongly; null when nothing. */
  readonly fault: string | null;
  /** Transactions that clients were shown. */
  readonly shown: number;
}

const ADDRESS = encode32(WALLET);
const STEPS = 20;
const MAX_BLOCKS = 22;
const TABLES = ['wallets', 'accounts', 'rows', 'tail', 'transactions', 'bodies', 'times', 'fundings'] as const;
const nothing = () => undefined;

/** Makes the tables; one store serves many lives. */
export const preparePolling = (store: Store): Promise<unknown> => migrate(store, [{ scope: 'wallet', migrations }]);

export async function clear(store: Store): Promise<void> {
  await store.write(async (tx) => {
    const db = tx.db as WalletDb;
    for (const table of TABLES) await db.deleteFrom(`wallet_${table}`).execute();
    await db.updateTable('wallet_state').set({ live_slot: null, full_from: null, version: 0 }).execute();
  });
}

/** What one seed draws. */
interface Kind {
  /** Every address of every block, or those that are followed: from the start, or since they were asked for. */
  readonly index: 'full' | 'pinned' | 'asked';
  readonly hasForks: boolean;
  /** The wallet is a token account, and its own owner. */
  readonly isSelfOwned: boolean;
  readonly nodes: readonly SkewedNode[];
}

function drawKind(random: Sfc32): Kind {
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  const node = (): SkewedNode => ({
    lag: random.below(4),
    pageLimit: pick([9, 20, 1_000]),
    isDown: false,
    order: pick(['block', 'reversed', 'signature']),
  });
  return {
    index: pick(['full', 'pinned', 'asked']),
    hasForks: random.below(4) === 0,
    isSelfOwned: random.below(4) === 0,
    nodes: Array.from({ length: 1 + random.below(3) }, node),
  };
}

/** Real index and real routes over a chain that grows between any two calls of them, and the clients that poll them. */
export class Life {
  readonly random: Sfc32;
  readonly kind: Kind;
  readonly world: World;
  readonly accounts: Accounts;
  readonly store: Store;
  readonly signal = new AbortController().signal;
  /** Blocks that came, oldest first. */
  applied: WorldBlock[] = [];
  applying: Promise<void> | null = null;
  jobs = new Set<number>();
  isWorking = false;
  /** Calls of upstreams so far. */
  calls = 0;
  isQuiet = false;
  /** Blocks that wait while the follower stands still. */
  isStill = false;
  elapsedMs = 0;
  parts: ReturnType<Life['open']>;

  constructor(seed: number, store: Store) {
    this.random = createSfc32(seed);
    this.kind = drawKind(this.random);
    this.store = store;
    // Clients ask again before a fork is final.
    const depth = 3 + this.random.below(8);
    this.accounts = accountsOf(this.kind.isSelfOwned);
    const write = (signature: Uint8Array, text: string) => writeDeed(this.accounts, signature, text);
    this.world = createWorld(this.random, this.kind.hasForks ? 2 * MAX_BLOCKS : depth, '', FIRST_SLOT, write);
    this.parts = this.open();
  }

  readonly clock = {
    now: () => 1_700_000_000_000 + this.elapsedMs,
    monotonic: () => this.elapsedMs,
    sleep: async (ms: number) => {
      this.elapsedMs += ms;
      await this.work();
      await this.goOn();
    },
  };

  status(): ChainStatus {
    const up = this.kind.nodes.filter(({ isDown }) => !isDown);
    const lag = up[0]?.lag ?? 0;
    const tipSlot = this.world.chain.at(-1 - lag)?.slot ?? null;
    const cursorSlot = this.applied.at(-1)?.slot ?? null;
    const lagSlots = tipSlot === null || cursorSlot === null ? null : Math.max(0, tipSlot - cursorSlot);
    return {
      chain: 'main',
      kind: 'rpc',
      cluster: 'unknown',
      genesisHash: null,
      tipSlot,
      cursorSlot,
      lagSlots,
      slotMs: 400,
      finalizedSlot: this.finalSlot(),
      stalled: null,
      openGaps: 0,
    };
  }

  finalSlot(): number {
    return Math.min(this.world.finalizedSlot, this.applied.at(-1)?.slot ?? -1);
  }

  /** What a process has in memory. */
  open() {
    const { store, clock } = this;
    const calls = createCalls(this, this.kind.nodes, this.random, () => {
      this.calls += 1;
      return this.goOn();
    });
    const chain = { ...calls, chain: 'main', status: () => this.status(), onReleased: () => nothing } as ChainReader;
    const upstream = createChainHistory(chain, { concurrency: 8, historyFloorSlot: 1 });
    const schedule = async (_tx: unknown, ids: readonly number[]) => ids.forEach((id) => void this.jobs.add(id));
    const tracker = createTracker({
      store,
      clock: clock as never,
      chain,
      upstream,
      schedule,
      commitment: 'confirmed',
      config: { readThroughMs: 2_000 },
      admission: null,
      cacheBytes: 1_000_000,
    });
    const open = createOpenWallet(chain, tracker);
    const mintFacts = createMintFactsReader(null, createMemoryLog());
    const derivedRows = createDerivedRows(100_000);
    const responses = createResponseCache({ store, chain, mintFacts, maxBytes: 100_000 });
    const random = { bytes: (count: number) => new Uint8Array(count).fill(5) } as never;
    return {
      upstream,
      history: walletHistoryRoute({ open, derivedRows, responses, mintFacts, config: { scanLimit: 1_000 } }),
      transfers: transfersRoute({ open, derivedRows, mintFacts, config: { scanLimit: 1_000 } }),
      fundedBy: fundedByRoute({
        store,
        open,
        log: createMemoryLog(),
        labelOf: () => null,
        config: { explorerTxUrl: '{signature}', fundedBy: { maxPages: 9 } },
        checkAddress: async () => undefined,
        searches: createFundingSearches(
          { store, upstream, config: { fundedBy: { maxPages: 9 } }, log: createMemoryLog() },
          () => new Promise(() => undefined),
          9,
        ),
      }),
      balanceAt: balanceAtRoute({
        open,
        mintFacts,
        clock: clock as never,
        knownSlot: () => this.status().cursorSlot ?? -1,
        newestSlot: (signal) =>
          chain.call<number>('getSlot', [{ commitment: 'confirmed' }], { signal, tenant: tenantOf(signal) }),
      }),
      processor: createWalletProcessor({
        random,
        isFull: this.kind.index === 'full',
        matched: nothing,
        merged: nothing,
      }),
    };
  }

  /** Between any two calls of an upstream. */
  async goOn(): Promise<void> {
    if (this.isQuiet) return;
    const { random, world, kind } = this;
    const node = kind.nodes[random.below(kind.nodes.length)] as SkewedNode;
    switch (random.below(14)) {
      case 0:
      case 1:
        if (world.chain.length < MAX_BLOCKS) world.grow(random.below(4) === 0 ? random.below(3) : 0, random.below(4));
        return;
      case 2:
      case 3:
        return this.isStill || this.applying !== null ? undefined : await this.apply();
      case 4:
        node.lag = random.below(5);
        return;
      case 5:
        if (random.below(3) === 0) node.isDown = !node.isDown;
        return;
      case 6:
        if (!kind.hasForks || random.below(2) === 0) return;
        world.fork(1 + random.below(3));
        // Not in the same slots: what landed again in the same one as before cannot be told from what never moved.
        world.grow(world.highestSlot - world.slot, random.below(4));
        return;
      default:
    }
  }

  /** The next block of the follower, or the roll-back of a fork. */
  async apply(): Promise<void> {
    while (this.applying !== null) await this.applying;
    this.applying = this.applyNext().finally(() => {
      this.applying = null;
    });
    await this.applying;
  }

  private async applyNext(): Promise<void> {
    const { world, store, parts, applied } = this;
    const lost = applied.filter(({ blockhash }) => !world.chain.some((block) => block.blockhash === blockhash));
    if (lost.length > 0) {
      await store.write(async (tx) => {
        for (const block of lost.toReversed()) await parts.processor.revert?.(tx, block, 'main');
      });
      this.applied = applied.slice(0, -lost.length);
      return;
    }
    const last = applied.at(-1)?.slot ?? (this.kind.index === 'asked' ? world.finalizedSlot : -1);
    const next = world.chain.find(({ slot }) => slot > last);
    if (next === undefined) return;
    const block = decodeBlock(next.slot, JSON.parse(blockText(next)));
    await store.write((tx) => parts.processor.apply(tx, block, 'main'));
    this.applied = [...applied, next];
    const finalSlot = this.finalSlot();
    if (this.random.below(4) === 0) await store.write((tx) => mergeTail(tx, finalSlot, 1).then(nothing));
  }

  async work(): Promise<void> {
    if (this.isWorking) return;
    this.isWorking = true;
    const { store, clock, parts } = this;
    for (const id of [...this.jobs]) {
      const job = {
        store,
        clock: clock as never,
        upstream: parts.upstream,
        kept: nothing,
        lane: 'job',
        mayContinue: async () => true,
      };
      const step = await backfillWallet(job, id, this.elapsedMs + 100, this.signal).catch((error) => {
        if (error instanceof CodedError) return 'again';
        throw error;
      });
      if (step === 'done') this.jobs.delete(id);
    }
    this.isWorking = false;
  }

  /** Signatures of an answer; null where it was refused. */
  async get(what: 'history' | 'transfers', query: Readonly<Record<string, unknown>>): Promise<Page | Refusal> {
    const reply = await this.ask(what, query);
    return typeof reply === 'string' ? reply : pageOf(reply);
  }

  async ask(what: 'history' | 'transfers' | 'balanceAt' | 'fundedBy', query: object): Promise<Reply | Refusal> {
    try {
      const request = { params: { wallet: ADDRESS }, query, caller: null, signal: this.signal };
      return await this.parts[what].handler(request as never);
    } catch (error) {
      if (error instanceof RequestError && (error.status === 400 || error.status === 404)) return 'unknown';
      const isLater =
        error instanceof RequestError ? error.status === 503 : error instanceof CodedError && error.retryable;
      if (isLater) return 'later';
      throw error;
    }
  }

  /** History as it is, oldest first. */
  truth(): readonly string[] {
    return this.world.chain.flatMap(({ signatures }) => signatures.filter((one) => deedOf(one).transfers > 0));
  }
}

type Refusal = 'unknown' | 'later';
interface Page {
  readonly signatures: readonly string[];
  readonly hasMore: boolean;
  readonly next: string | null;
}

function pageOf({ json, jsonBytes }: Reply): Page {
  const text = jsonBytes === undefined ? (json as JsonText).text : Buffer.from(jsonBytes).toString();
  const { data, pagination } = JSON.parse(text) as {
    data: { signature: string }[];
    pagination: { hasMore: boolean; nextCursor: string | null };
  };
  const signatures = data.map(({ signature }) => signature);
  return { signatures, hasMore: pagination.hasMore, next: pagination.nextCursor };
}

/** Everything from the newest down, newest first; null where it was refused on the way. */
async function walk(life: Life, what: 'history' | 'transfers', limit: number): Promise<readonly string[] | null> {
  const name = what === 'history' ? 'before' : 'cursor';
  const found: string[] = [];
  let cursor: string | null = null;
  for (;;) {
    const query = { limit, ...(cursor === null ? {} : { [name]: cursor }) };
    const page = await life.get(what, what === 'history' ? { ...query, tokenAccounts: 'balanceChanged' } : query);
    if (typeof page === 'string') return null;
    found.push(...page.signatures);
    if (!page.hasMore) return found;
    cursor = page.next;
  }
}

/** `list` (oldest first) is what the truth has from `from` on, without a hole. */
function checkRun(truth: readonly string[], list: readonly string[], from: number, what: string): void {
  assert.deepEqual(
    list.map((one) => truth.indexOf(one)),
    list.map((_, at) => from + at),
    what,
  );
}

/** A client that asks for what is newer than the newest that it has seen. */
class Poller {
  /** In the order in which it came. */
  readonly seen: string[] = [];
  /** Cursors that are gone with a fork. */
  private cursors: string[] = [];

  async poll(life: Life): Promise<'end' | 'more' | 'refused'> {
    // What landed again may come again: a page has room for all of it.
    const limit = life.kind.hasForks ? 100 : 2 + life.random.below(9);
    const cursor = this.cursors.at(-1);
    if (cursor === undefined) {
      const found = await walk(life, 'history', limit);
      if (found === null) return 'refused';
      if (!life.kind.hasForks) checkRun(life.truth(), found.toReversed(), 0, 'first walk');
      this.take(found.toReversed());
      return found.length === 0 ? 'end' : 'more';
    }
    const page = await life.get('history', { limit, after: cursor, tokenAccounts: 'balanceChanged' });
    if (page === 'unknown' && life.kind.hasForks) this.cursors.pop();
    if (typeof page === 'string') return 'refused';
    const truth = life.truth();
    if (!life.kind.hasForks) checkRun(truth, page.signatures, truth.indexOf(cursor) + 1, 'poll');
    this.take(page.signatures);
    return page.hasMore ? 'more' : 'end';
  }

  private take(list: readonly string[]): void {
    this.seen.push(...list);
    this.cursors.push(...list);
  }
}

async function live(life: Life): Promise<number> {
  const { random, kind, world } = life;
  // Of a fork the daemon knows what it showed last: to one client.
  const pollers = kind.hasForks ? [new Poller()] : [new Poller(), new Poller()];
  if (kind.index === 'pinned')
    await life.store.write(async (tx) => {
      await registerWallet(tx, { key: WALLET, address: ADDRESS, now: 1, isPinned: true });
    });
  for (let count = random.below(12); count > 0; count -= 1) world.grow(0, random.below(4));
  for (let count = random.below(20); count > 0; count -= 1) await life.apply();
  for (let step = 0; step < STEPS; step += 1) {
    life.elapsedMs += 100;
    if (random.below(5) === 0) life.isStill = !life.isStill;
    // A fork that only memory knows of is forgotten with the process.
    if (!kind.hasForks && random.below(15) === 0) life.parts = life.open();
    const what = random.below(10);
    if (what < 5) await pollers[what % pollers.length]!.poll(life);
    else if (kind.hasForks) await life.goOn();
    else if (what === 5) await walkAndCheck(life, 'history');
    else if (what === 6) await walkAndCheck(life, 'transfers');
    else if (what === 7) await life.goOn();
    else await checkBalance(life);
    await life.work();
  }
  return await settle(life, pollers);
}

async function walkAndCheck(life: Life, what: 'history' | 'transfers'): Promise<void> {
  const found = await walk(life, what, 3 + life.random.below(12));
  if (found === null) return;
  const truth = life.truth().flatMap((one) => (what === 'history' ? [one] : Array(deedOf(one).transfers).fill(one)));
  assert.deepEqual(found.toReversed(), truth.slice(0, found.length), `${what}, all pages`);
}

export const SOL = 'So11111111111111111111111111111111111111111';

/** What the wallet has at any slot is what the chain says up to there. */
async function checkBalance(life: Life): Promise<void> {
  const { random, world, kind } = life;
  const slot = world.slot - random.below(12);
  const isNative = random.below(2) === 0;
  const reply = await life.ask('balanceAt', { mint: isNative ? SOL : encode32(MINT), slot });
  if (typeof reply === 'string') return;
  const { balanceRaw, asOf } = reply.json as { balanceRaw: string; asOf: { slot: number; signature: string } | null };
  const done = world.chain.filter((block) => block.slot <= slot).flatMap(({ signatures }) => signatures);
  // As the vault of a pool the wallet is among the keys of what comes into it.
  const named = done.filter((one) => deedOf(one).isNamed || (kind.isSelfOwned && deedOf(one).account === 0));
  const last = [0, 1].map((account) => done.findLast((one) => deedOf(one).account === account));
  const held = last.reduce((sum, one) => sum + (one === undefined ? 0 : tokensAfter(one)), 0);
  const newest = isNative ? named.at(-1) : done.findLast((one) => deedOf(one).account !== null);
  const lamports = newest === undefined ? 0 : lamportsAfter(newest);
  assert.deepEqual([balanceRaw, asOf?.signature], [String(isNative ? lamports : held), newest], `balance at ${slot}`);
}

/** The chain stands still, everything comes: then every client has seen everything. */
async function settle(life: Life, pollers: readonly Poller[]): Promise<number> {
  const { kind, world, random } = life;
  life.isQuiet = true;
  for (const node of kind.nodes) Object.assign(node, { lag: 0, isDown: false });
  const isCaughtUp = kind.hasForks || random.below(2) === 0;
  // Far enough that what is above is read from the nodes.
  for (let count = isCaughtUp ? 0 : 8; count > 0; count -= 1) world.grow();
  // A follower that starts with the newest block has none to apply yet.
  if (isCaughtUp && life.applied.length === 0) world.grow();
  while (isCaughtUp && life.applied.at(-1)?.blockhash !== world.chain.at(-1)?.blockhash) await life.apply();
  const truth = life.truth();
  if (kind.hasForks) for (const poller of pollers) for (let turn = 0; turn < 5; turn += 1) await poller.poll(life);
  if (kind.hasForks) world.finalizeAll();
  for (const poller of pollers) {
    let isAtEnd = false;
    for (let turn = 0; turn < 40 && !isAtEnd; turn += 1) {
      await life.work();
      life.elapsedMs += 3_000;
      isAtEnd = (await poller.poll(life)) === 'end';
    }
    const missing = truth.filter((one) => !poller.seen.includes(one)).length;
    assert.deepEqual([isAtEnd, missing], [true, 0], 'at the end, and transactions that a polling client never saw');
    if (!kind.hasForks) assert.deepEqual(poller.seen, truth, 'a polling client saw twice, or in another order');
  }
  return truth.length;
}

/** Runs a seed on a prepared store, whatever was in it. */
export async function pollingLife(seed: number, store: Store): Promise<PollingReport> {
  await clear(store);
  const life = new Life(seed, store);
  try {
    return { seed, fault: null, shown: await live(life) };
  } catch (error) {
    const { index, hasForks, isSelfOwned } = life.kind;
    const fault = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return {
      seed,
      fault: `${index}${hasForks ? ' with forks' : ''}${isSelfOwned ? ', own account' : ''}: ${fault}`,
      shown: 0,
    };
  }
}
