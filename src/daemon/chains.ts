import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import { OWN_WORK } from '../ports/access.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Clock } from '../ports/clock.ts';
import type { Bus } from '../ports/processes.ts';
import type { Migration, Queries, Store } from '../ports/store.ts';
import type { Log } from '../ports/telemetry.ts';
import type { UpstreamPool } from '../ports/upstream.ts';
import type { AssembledChain } from './assemble.ts';
import type { FollowerView } from './parts.ts';
import { TOPICS } from './remote.ts';

const ASK_TIMEOUT_MS = 5_000;
const RETRY_MS = 2_000;

/** The part of a follower that `ChainRun` drives. */
export interface FollowerRun {
  start(): Promise<void> | void;
  drain(): Promise<void> | void;
  stop(): Promise<void> | void;
}

interface ChainRunOptions {
  readonly chain: AssembledChain;
  readonly store: Store;
  /** Null if this chain is not followed here. */
  readonly follower: FollowerRun | null;
  readonly clock: Clock;
  readonly log: Log;
  /** Reports a fatal error, which ends the daemon. */
  readonly fatal: (error: unknown) => void;
}

/** Starts following a chain once it is certain that the store belongs to it. */
export interface ChainRun {
  /**
   * Asks the upstreams which chain they serve. If none answers, it retries in the background while the daemon serves what it can.
   * Errors: STORE_WRONG_CHAIN.
   */
  start(): Promise<void>;
  drain(): Promise<void>;
  stop(): Promise<void>;
}

export function createChainRun({ chain, store, follower, clock, log, fatal }: ChainRunOptions): ChainRun {
  const stopped = new AbortController();
  let following = false;
  let background: Promise<void> = Promise.resolve();

  async function begin(): Promise<void> {
    const options = { timeoutMs: ASK_TIMEOUT_MS, signal: stopped.signal, tenant: OWN_WORK };
    const genesisHash = await chain.reader.call<string>('getGenesisHash', [], options);
    await bindStoreToChain(store, chain.setup.id, genesisHash);
    // The upstream that answered serves our chain; the others may not.
    chain.pool.bind(genesisHash);
    await chain.pool.identify();
    if (stopped.signal.aborted || follower === null) return;
    following = true;
    await follower.start();
  }

  async function keepAsking(): Promise<void> {
    while (!stopped.signal.aborted) {
      try {
        await clock.sleep(RETRY_MS, stopped.signal);
        return await begin();
      } catch (error) {
        if (stopped.signal.aborted) return;
        if (isFinal(error)) return fatal(error);
        log.debug({ chain: chain.setup.id, code: codeOf(error) }, 'upstream has still not reported its chain');
      }
    }
  }

  return {
    async start() {
      try {
        await begin();
      } catch (error) {
        if (isFinal(error)) throw error;
        const about = { chain: chain.setup.id, code: codeOf(error), error: messageOf(error) };
        // All roles of a process see the same outage: the one that waits for its end warns.
        if (follower === null) log.info(about, 'no upstream reports its chain');
        else log.warn(about, 'no upstream reports its chain; the follower starts when one does');
        background = keepAsking();
      }
    },
    async drain() {
      if (following) await follower?.drain();
    },
    async stop() {
      stopped.abort(new Error('stopped'));
      await background;
      if (following) await follower?.stop();
    },
  };
}

/** All errors except those of a silent or failing upstream. */
function isFinal(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  return !(error instanceof CodedError) || !(code.startsWith('CHAIN_') || code.startsWith('UPSTREAM_'));
}

interface AnnounceOptions {
  readonly chain: ChainId;
  readonly follower: FollowerView;
  readonly bus: Bus;
  readonly clock: Clock;
}

export interface Announcer {
  start(): void;
  stop(): void;
}

const INTERVAL_MS = 1_000;
/** Minimum interval of the statuses that follow releases. */
const SHORTEST_MS = 100;
/** Keeps messages small. */
const MAX_GAPS = 10;

/** Publishes the status of this thread's follower to the other roles. */
export function createAnnouncer({ chain, follower, bus, clock }: AnnounceOptions): Announcer {
  let toldAt = Number.NEGATIVE_INFINITY;
  let cancel = (): void => undefined;
  let offReleased = (): void => undefined;

  const tellStatus = () => {
    toldAt = clock.monotonic();
    const { gaps, ...status } = follower.status();
    const cut = gaps === undefined ? {} : { gaps: gaps.slice(0, MAX_GAPS) };
    bus.publish(TOPICS.status, { chain, status: { ...status, ...cut } });
  };
  const repeat = () => {
    tellStatus();
    cancel = clock.timeout(INTERVAL_MS, repeat);
  };
  return {
    start() {
      offReleased = follower.onReleased((header) => {
        bus.publish(TOPICS.released, { chain, header });
        if (clock.monotonic() - toldAt >= SHORTEST_MS) tellStatus();
      });
      repeat();
    },
    stop() {
      cancel();
      offReleased();
    },
  };
}

interface IdentityTables {
  chain_identity: { chain: string; genesis_hash: string };
}

export const identityMigrations: readonly Migration[] = [
  {
    version: 1,
    name: 'create chain identity',
    breaking: false,
    async up(tx) {
      await tx.db.schema
        .createTable('chain_identity')
        .addColumn('chain', 'text', (column) => column.primaryKey())
        .addColumn('genesis_hash', 'text', (column) => column.notNull())
        .execute();
    },
  },
];

/**
 * Binds a store to the first chain it is used with, and refuses every other chain later, so that data of two chains never mixes.
 * Errors: STORE_WRONG_CHAIN, exit 78.
 */
export async function bindStoreToChain(store: Store, chain: ChainId, genesisHash: string): Promise<void> {
  const known = await store.write(async (tx) => {
    await tx.insertMany('chain_identity', ['chain', 'genesis_hash'], [[chain, genesisHash]], 'ignore');
    const row = await (tx.db as Queries<IdentityTables>)
      .selectFrom('chain_identity')
      .select('genesis_hash')
      .where('chain', '=', chain)
      .executeTakeFirstOrThrow();
    return row.genesis_hash;
  });
  if (known !== genesisHash) throw wrongChain(chain, known, genesisHash);
}

/** The genesis hash of the chain that the store is bound to; null: not bound yet. */
export async function readChainIdentity(store: Store, chain: ChainId): Promise<string | null> {
  const row = await (store.read as Queries<IdentityTables>)
    .selectFrom('chain_identity')
    .select('genesis_hash')
    .where('chain', '=', chain)
    .executeTakeFirst();
  return row?.genesis_hash ?? null;
}

/** Errors: STORE_WRONG_CHAIN, exit 78, if every upstream serves another chain than the one that the pool is bound to. */
export function refuseOtherChain(pool: UpstreamPool, chain: ChainId, known: string): void {
  const others = pool.states().map(({ otherChain }) => otherChain);
  const [first] = others;
  if (first !== undefined && first !== null && others.every((other) => other !== null))
    throw wrongChain(chain, known, first);
}

const wrongChain = (chain: ChainId, known: string, genesisHash: string) =>
  new CodedError(
    'STORE_WRONG_CHAIN',
    `the database holds data of the ${chain} chain with genesis hash ${known}, the upstream serves ${genesisHash}: ` +
      'use another dataDir (or store.url), or the upstream of that chain',
    { exitCode: EXIT.config, facts: { chain, known, genesisHash } },
  );
