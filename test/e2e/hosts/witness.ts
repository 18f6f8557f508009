/** Clients that go on calling through all drills, and what is checked once a drill is over and everything has come to rest. */
import assert from 'node:assert/strict';
import type { Store } from '../../../src/ports/store.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { countedOf } from '../../helpers/usage-bounds.ts';
import { eventually, metricsOf, sampleOf } from '../roles/harness.ts';
import { createCallsBook, PRODUCTS } from './calls-book.ts';
import { type Client, createClient } from './client.ts';
import type { HostsBed, Seat } from './harness.ts';
import { createHistoryRules } from './history-rules.ts';
import { type Leaves, startLeaves } from './leaves.ts';
import { createWallets } from './wallets.ts';
import { createWork } from './work.ts';
import { createWriteHistory } from './write-history.ts';

export interface Witness {
  readonly client: Client;
  /** A process has ended without its last write: what it counted since the one before may be gone, but nothing from before `sinceMs`. */
  ended(seat: Seat, sinceMs: number): void;
  /** Takes a look at what was written until now. */
  look(): Promise<void>;
  /** Clients and compressed accounts wait until `resume`. */
  pause(): Promise<void>;
  resume(): void;
  /** While all is at rest: writes, credits, proofs, wallets and outputs are as they have to be. Gives small figures for people. */
  check(seats: readonly Seat[]): Promise<Figures>;
  /** The same of what is left in the store once all processes have ended. */
  checkEnd(): Promise<Figures>;
}

export type Figures = Readonly<Record<string, number>>;

interface WitnessParts {
  readonly bed: HostsBed;
  readonly draw: Sfc32;
  /** Whether the chain has the Light programs. */
  readonly hasLight: boolean;
  api(): string;
}

const EVERY_MS = 100;
/** A call is counted when its answer has gone out, a little after a client has it, and collected a little before the write begins. */
const COUNTED_MS = 500;

const monotonic = (unixMs: number) => unixMs - Date.now() + performance.now();

export async function startWitness({ bed, draw, hasLight, api }: WitnessParts): Promise<Witness> {
  const book = createCallsBook();
  const client = createClient(api, book);
  const rules = createHistoryRules();
  const history = createWriteHistory(bed.query);
  await history.install();
  const faults: unknown[] = [];
  let ends: { readonly seat: Seat; readonly sinceMs: number; readonly atMs: number }[] = [];
  const failed = (error: unknown) => void faults.push(error);
  const wallets = createWallets(bed.payments, client);
  const leaves = hasLight ? await startLeaves({ chain: bed.chain, client, draw, failed }) : null;
  const works = [...callers({ bed, draw, client, wallets, leaves, failed }), ...(leaves === null ? [] : [leaves])];

  async function look(): Promise<void> {
    const fault = rules.take(await history.read());
    assert.equal(fault, null, fault ?? '');
  }

  /** Everything that was delivered is in the history, however long another transaction was open beside it. */
  async function readHistory(store: Store): Promise<void> {
    const delivered = async () =>
      (await store.read.selectFrom('outbox').select('id').where('kind', '=', 'webhooks.deliver').execute()).length;
    const isWhole = async () => {
      await look();
      return rules.deliveries === (await delivered());
    };
    await eventually('the history is whole', isWhole, bed.said);
  }

  async function checkStore(): Promise<Figures> {
    const store = await bed.openStore();
    try {
      await readHistory(store);
      const counted = new Map<string, Awaited<ReturnType<typeof countedOf>>>();
      for (const product of PRODUCTS) counted.set(product, await countedOf(store, product));
      for (const { seat, sinceMs, atMs } of ends) {
        // Where writing failed, a write that came through may be one that was collected long before.
        const isKilled = seat.daemon.child.signalCode === 'SIGKILL';
        const writtenAt = isKilled ? rules.writtenUntil(seat.name) : null;
        const writtenMs = writtenAt === null ? sinceMs : monotonic(writtenAt) - COUNTED_MS;
        book.ended(seat.role, Math.max(sinceMs, writtenMs), atMs);
      }
      ends = [];
      const delivered = rules.takeFirstAttempts().map(monotonic);
      const { fault, ...figures } = book.check(counted, delivered);
      assert.equal(fault, null, `${fault} (${JSON.stringify(figures)})\n${bed.said()}`);
      return { ...figures, delivered: delivered.length, blocks: rules.blocks, deliveries: rules.deliveries };
    } finally {
      await store.close();
    }
  }

  return {
    client,
    look,
    ended: (seat, sinceMs) => void ends.push({ seat, sinceMs, atMs: performance.now() }),
    async pause() {
      await Promise.all(works.map((work) => work.pause()));
    },
    resume() {
      for (const work of works) work.resume();
    },
    async check(seats) {
      await leaves?.check();
      await wallets.check();
      // An answer was wrong.
      if (faults.length > 0) throw faults[0];
      assert.deepEqual(bed.leaks(), [], 'a secret was told');
      await eventually('usage is written', () => isWritten(seats), bed.said);
      const figures = await checkStore();
      return { ...figures, proofs: leaves?.proofs ?? 0, wallets: wallets.answers };
    },
    checkEnd: checkStore,
  };
}

/** Nothing of what was counted waits. */
async function isWritten(seats: readonly Seat[]): Promise<boolean> {
  for (const { admin, endedMs } of seats)
    if (endedMs === null && sampleOf(await metricsOf(admin), 'parhelion_access_unwritten_projects') !== 0) return false;
  return true;
}

interface CallerParts {
  readonly bed: HostsBed;
  readonly draw: Sfc32;
  readonly client: Client;
  readonly wallets: ReturnType<typeof createWallets>;
  readonly leaves: Leaves | null;
  failed(error: unknown): void;
}

/** Calls whose prices differ, of what plugins answer and of what is passed on. */
function callers({ bed, draw, client, wallets, leaves, failed }: CallerParts) {
  const pick = () => bed.payments.addresses[draw.below(bed.payments.addresses.length)] as string;
  const rounds = [
    async () => {
      await client.get('list', '/v0/webhooks');
      await wallets.ask(pick());
    },
    async () => {
      await client.rpc('standard', 'getBalance', [pick()]);
      await client.rpc('historical', 'getSignaturesForAddress', [pick(), { limit: 2 }]);
    },
    async () => await leaves?.ask(),
  ];
  return rounds.map((round) => createWork(EVERY_MS, round, failed));
}
