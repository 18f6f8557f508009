/**
 * The budget of a UTC day, shared by all processes: a process takes a part of it in the store before it spends, and never spends more than it
 * has taken. What it has taken and not spent is lost when it stops, so that the day never costs more than the budget.
 */
import type { Clock, Store } from '../../src/plugin/plugin.ts';
import type { ShadowConfig } from './config.ts';
import { tables } from './tables.ts';

export interface Cost {
  readonly requests: number;
  readonly credits: number;
  readonly bytes: number;
}

export interface Budget {
  /** Takes the cost of a request from the budget. False: nothing is left today. */
  take(cost: Cost): Promise<boolean>;
  /** Gives back what a request did not use. */
  giveBack(bytes: number): void;
}

const DAY_MS = 86_400_000;
/** Parts of a day's budget that a process takes at once. */
const PARTS = 50;
const NOTHING: Cost = { requests: 0, credits: 0, bytes: 0 };

export const dayOf = (ms: number): number => Math.floor(ms / DAY_MS);

export function createBudget(store: Store, clock: Clock, { budget }: Pick<ShadowConfig, 'budget'>): Budget {
  let day = -1;
  let left: Cost = NOTHING;
  /** Takings run one after the other, so that a part is not taken twice for one need. */
  let last: Promise<unknown> = Promise.resolve();

  const covers = ({ requests, credits, bytes }: Cost) =>
    left.requests >= requests && left.credits >= credits && left.bytes >= bytes;

  async function refill(cost: Cost): Promise<void> {
    const limits: Cost = {
      requests: budget.requestsPerDay,
      credits: budget.creditsPerDay,
      bytes: budget.bytesPerDay,
    };
    const today = dayOf(clock.now());
    const taken = await store.write((tx) => takePart(tables(tx.db), { day: today, cost, limits, dialect: tx.dialect }));
    if (day !== today) left = NOTHING;
    day = today;
    left = {
      requests: left.requests + taken.requests,
      credits: left.credits + taken.credits,
      bytes: left.bytes + taken.bytes,
    };
  }

  async function takeNow(cost: Cost): Promise<boolean> {
    if (day !== dayOf(clock.now()) || !covers(cost)) await refill(cost);
    if (!covers(cost)) return false;
    left = {
      requests: left.requests - cost.requests,
      credits: left.credits - cost.credits,
      bytes: left.bytes - cost.bytes,
    };
    return true;
  }

  return {
    take(cost) {
      const taken = last.then(() => takeNow(cost));
      last = taken.catch(() => undefined);
      return taken;
    },
    giveBack(bytes) {
      left = { ...left, bytes: left.bytes + Math.max(0, bytes) };
    },
  };
}

interface Part {
  readonly day: number;
  readonly cost: Cost;
  readonly limits: Cost;
  readonly dialect: Store['dialect'];
}

/** Takes a part of what is left of the day, enough for one request if there is so much. */
async function takePart(db: ReturnType<typeof tables>, { day, cost, limits, dialect }: Part): Promise<Cost> {
  const fresh = { day, requests: 0, credits: 0, bytes: 0 };
  await db
    .insertInto('shadow_spent')
    .values(fresh)
    .onConflict((on) => on.column('day').doNothing())
    .execute();
  let query = db.selectFrom('shadow_spent').selectAll().where('day', '=', day);
  if (dialect === 'postgres') query = query.forUpdate();
  const row = await query.executeTakeFirstOrThrow();
  const part = (name: keyof Cost, whole: boolean): number => {
    const wanted = Math.max(cost[name], limits[name] / PARTS);
    const free = Math.max(0, limits[name] - Number(row[name]));
    const taken = Math.min(free, wanted);
    return whole ? Math.floor(taken) : taken;
  };
  const taken: Cost = { requests: part('requests', true), credits: part('credits', false), bytes: part('bytes', true) };
  await db
    .updateTable('shadow_spent')
    .set({
      requests: Number(row.requests) + taken.requests,
      credits: Number(row.credits) + taken.credits,
      bytes: Number(row.bytes) + taken.bytes,
    })
    .where('day', '=', day)
    .execute();
  return taken;
}
