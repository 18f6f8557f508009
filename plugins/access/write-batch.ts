import { sql } from 'kysely';
import type { StoreTx } from '../../src/ports/store.ts';
import {
  addCredits,
  billingDayOf,
  countOf,
  cycleOf,
  type DayCount,
  fromMicro,
  type ProjectAccount,
  type ProjectState,
  type Spent,
  split,
  toCredits,
  toMicro,
} from './account.ts';
import type { Plans } from './plans.ts';
import { type AccessTables, type CycleRow, type DayRow, tables } from './tables.ts';

/** Rows per statement; far below the parameter limits of both engines. */
const ROWS = 1_000;

/** State of the store after a write. */
export interface Written {
  readonly states: ReadonlyMap<string, ProjectState>;
  /** Tokens taken by all processes, by project and rate group. */
  readonly taken: ReadonlyMap<string, number>;
}

interface WriteParts {
  readonly plans: Plans;
  /** Name of this process. */
  readonly writerId: string;
  readonly nowMs: number;
}

export const takenKey = (projectId: string, group: string) => `${projectId} ${group}`;

/**
 * Adds a batch to the store exactly once: a batch whose number was already written only reads. All changes are increments under a lock of
 * the projects, so that no process loses the usage of another, and all agree on which credits are spent first.
 */
export async function writeBatch(tx: StoreTx, batch: WriteBatch, parts: WriteParts): Promise<Written> {
  const isNew = await claim(tx, batch.seq, parts);
  const projects = await lockProjects(tx, batch);
  const cycles = await readCycles(tx, batch);
  const spending = new Spending(projects, cycles);
  for (const entry of batch.entries) {
    const state = projects.get(entry.account.projectId);
    if (state === undefined) continue;
    const limits = parts.plans.limitsOf(state.plan, state.overrides) ?? entry.account.limits;
    if (isNew) for (const [cycle, days] of byCycle(entry)) spending.add(state.id, cycle, sumOf(days), limits);
  }
  if (isNew) {
    await addCycles(tx, spending.rows());
    await addDays(tx, batch, projects);
    await addPrepaid(tx, spending.prepaid);
  }
  const taken = await addTaken(tx, batch, isNew);
  const states = new Map<string, ProjectState>();
  for (const [id, project] of projects) {
    const limits = parts.plans.limitsOf(project.plan, project.overrides);
    if (limits === null) continue;
    const billingDay = project.billing_day ?? billingDayOf(project.created_at);
    const cycleStart = cycleOf(billingDay, parts.nowMs).start;
    const isDisabled = project.disabled_at !== null;
    states.set(id, { projectId: id, isDisabled, limits, billingDay, cycleStart, spent: spending.of(id, cycleStart) });
  }
  return { states, taken };
}

type ProjectPart = Awaited<ReturnType<typeof lockProjects>> extends Map<string, infer Row> ? Row : never;

async function claim(tx: StoreTx, seq: number, { writerId, nowMs }: WriteParts): Promise<boolean> {
  const done = await tables(tx.db)
    .insertInto('usage_writers')
    .values({ id: writerId, seq, seen_at: nowMs })
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet({ seq, seen_at: nowMs }).where('usage_writers.seq', '<', seq),
    )
    .returning('seq')
    .executeTakeFirst();
  return done !== undefined;
}

async function lockProjects(tx: StoreTx, { entries }: WriteBatch) {
  const ids = entries.map(({ account }) => account.projectId);
  let query = tables(tx.db)
    .selectFrom('projects')
    .select([
      'id',
      'plan',
      'overrides',
      'billing_day',
      'created_at',
      'prepaid_granted',
      'prepaid_used',
      'prepaid_used_micro',
      'disabled_at',
    ])
    .where('id', 'in', ids)
    // All processes lock in the same order, to avoid deadlocks.
    .orderBy('id');
  if (tx.dialect === 'postgres') query = query.forNoKeyUpdate();
  return new Map((await query.execute()).map((row) => [row.id, row]));
}

async function readCycles(tx: StoreTx, { entries }: WriteBatch): Promise<CycleRow[]> {
  const ids = entries.map(({ account }) => account.projectId);
  const starts = entries.flatMap(({ account, days }) => [account.cycle.start, ...days.map((day) => day.cycleStart)]);
  const first = starts.sort()[0] as string;
  return await tables(tx.db)
    .selectFrom('usage_cycles')
    .selectAll()
    .where('project_id', 'in', ids)
    .where('cycle_start', '>=', first)
    .execute();
}

function byCycle({ days }: BatchEntry): Map<string, BatchEntry['days']> {
  const found = new Map<string, BatchEntry['days']>();
  for (const day of days) found.set(day.cycleStart, [...(found.get(day.cycleStart) ?? []), day]);
  return found;
}

async function addCycles(tx: StoreTx, rows: readonly CycleRow[]): Promise<void> {
  for (const part of parts(rows))
    await tables(tx.db)
      .insertInto('usage_cycles')
      .values([...part])
      .onConflict((conflict) =>
        conflict.columns(['project_id', 'cycle_start']).doUpdateSet({
          regular: plus('usage_cycles', 'regular'),
          regular_micro: plus('usage_cycles', 'regular_micro'),
          prepaid: plus('usage_cycles', 'prepaid'),
          prepaid_micro: plus('usage_cycles', 'prepaid_micro'),
        }),
      )
      .execute();
}

async function addDays(tx: StoreTx, { entries }: WriteBatch, projects: ReadonlyMap<string, unknown>): Promise<void> {
  const byKey = new Map<string, DayRow>();
  for (const { account, days } of entries) {
    if (!projects.has(account.projectId)) continue;
    for (const { day, products } of days)
      for (const [product, { credits, requests, bytes }] of products) {
        const key = `${account.projectId} ${day} ${product}`;
        // One statement may touch a row only once.
        const before = byKey.get(key);
        byKey.set(key, {
          project_id: account.projectId,
          day,
          product,
          credits: credits.whole + (before?.credits ?? 0),
          credits_micro: credits.micro + (before?.credits_micro ?? 0),
          requests: requests + (before?.requests ?? 0),
          bytes: bytes + (before?.bytes ?? 0),
        });
      }
  }
  for (const part of parts([...byKey.values()]))
    await tables(tx.db)
      .insertInto('usage_days')
      .values([...part])
      .onConflict((conflict) =>
        conflict.columns(['project_id', 'day', 'product']).doUpdateSet({
          credits: plus('usage_days', 'credits'),
          credits_micro: plus('usage_days', 'credits_micro'),
          requests: plus('usage_days', 'requests'),
          bytes: plus('usage_days', 'bytes'),
        }),
      )
      .execute();
}

async function addPrepaid(tx: StoreTx, used: ReadonlyMap<string, bigint>): Promise<void> {
  for (const [id, micro] of used) {
    const { whole, micro: rest } = fromMicro(micro);
    await tables(tx.db)
      .updateTable('projects')
      .set((eb) => ({
        prepaid_used: eb('prepaid_used', '+', whole),
        prepaid_used_micro: eb('prepaid_used_micro', '+', rest),
      }))
      .where('id', '=', id)
      .execute();
  }
}

/** Adds the tokens that were taken here and returns the totals of all processes. */
async function addTaken(tx: StoreTx, { entries }: WriteBatch, isNew: boolean): Promise<Map<string, number>> {
  const byKey = new Map<string, { project_id: string; rate_group: string; taken: number }>();
  for (const { account, taken } of entries)
    for (const [group, count] of taken) {
      const key = takenKey(account.projectId, group);
      const before = byKey.get(key)?.taken ?? 0;
      byKey.set(key, { project_id: account.projectId, rate_group: group, taken: before + (isNew ? count : 0) });
    }
  const sums = new Map<string, number>();
  for (const part of parts([...byKey.values()])) {
    const found = await tables(tx.db)
      .insertInto('rate_taken')
      .values([...part])
      .onConflict((conflict) =>
        conflict.columns(['project_id', 'rate_group']).doUpdateSet({ taken: plus('rate_taken', 'taken') }),
      )
      .returning(['project_id', 'rate_group', 'taken'])
      .execute();
    for (const row of found) sums.set(takenKey(row.project_id, row.rate_group), row.taken);
  }
  return sums;
}

function plus(table: keyof AccessTables, column: string) {
  return sql<number>`${sql.ref(`${table}.${column}`)} + ${sql.ref(`excluded.${column}`)}`;
}

function* parts<T>(rows: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < rows.length; at += ROWS) yield rows.slice(at, at + ROWS);
}

/** Spent credits of the projects of a batch, including the batch. */
class Spending {
  readonly prepaid = new Map<string, bigint>();
  readonly #left = new Map<string, bigint>();
  readonly #before = new Map<string, { regular: bigint; prepaid: bigint }>();
  readonly #added = new Map<string, { id: string; cycle: string; regular: bigint; prepaid: bigint }>();

  constructor(projects: ReadonlyMap<string, ProjectPart>, cycles: readonly CycleRow[]) {
    for (const [id, row] of projects)
      this.#left.set(id, toMicro(row.prepaid_granted, 0) - toMicro(row.prepaid_used, row.prepaid_used_micro));
    for (const row of cycles)
      this.#before.set(`${row.project_id} ${row.cycle_start}`, {
        regular: toMicro(row.regular, row.regular_micro),
        prepaid: toMicro(row.prepaid, row.prepaid_micro),
      });
  }

  of(id: string, cycle: string): Spent {
    const key = `${id} ${cycle}`;
    const before = this.#before.get(key);
    const added = this.#added.get(key);
    return {
      regular: (before?.regular ?? 0n) + (added?.regular ?? 0n),
      prepaid: (before?.prepaid ?? 0n) + (added?.prepaid ?? 0n),
      prepaidLeft: this.#left.get(id) ?? 0n,
    };
  }

  add(id: string, cycle: string, amount: bigint, limits: { creditsLimit: number; overageCredits: number }): void {
    const { regular, prepaid } = split(amount, this.of(id, cycle), limits);
    const key = `${id} ${cycle}`;
    const added = this.#added.get(key) ?? { id, cycle, regular: 0n, prepaid: 0n };
    this.#added.set(key, { id, cycle, regular: added.regular + regular, prepaid: added.prepaid + prepaid });
    if (prepaid === 0n) return;
    this.#left.set(id, (this.#left.get(id) ?? 0n) - prepaid);
    this.prepaid.set(id, (this.prepaid.get(id) ?? 0n) + prepaid);
  }

  rows(): CycleRow[] {
    return [...this.#added.values()].map(({ id, cycle, regular, prepaid }) => {
      const [ofPlan, ofPrepaid] = [fromMicro(regular), fromMicro(prepaid)];
      return {
        project_id: id,
        cycle_start: cycle,
        regular: ofPlan.whole,
        regular_micro: ofPlan.micro,
        prepaid: ofPrepaid.whole,
        prepaid_micro: ofPrepaid.micro,
      };
    });
  }
}

/** Usage of one project in a batch. */
export interface BatchEntry {
  readonly account: ProjectAccount;
  /** Its last change that was noticed before the write. */
  readonly changedAt: number;
  readonly days: readonly DayCount[];
  /** Taken tokens by rate group that are not yet written. */
  readonly taken: ReadonlyMap<string, number>;
}

/** One write. Its number shows whether it was committed, even if the connection was lost. */
export interface WriteBatch {
  readonly seq: number;
  readonly entries: readonly BatchEntry[];
}

/** Moves the unwritten usage of accounts into a batch and resets it. */
export function collect(seq: number, accounts: readonly ProjectAccount[]): WriteBatch {
  return { seq, entries: accounts.map(collectOne) };
}

function collectOne(account: ProjectAccount): BatchEntry {
  const days = [...account.closed];
  if (account.today.products.size > 0) {
    days.push(account.today);
    account.today = { ...account.today, products: new Map() };
  }
  account.closed = [];
  account.isDirty = false;
  account.revision += 1;
  const taken = new Map<string, number>();
  for (const [group, bucket] of account.buckets) {
    if (bucket.unwritten === 0) continue;
    taken.set(group, bucket.unwritten);
    bucket.unwritten = 0;
  }
  return { account, changedAt: account.changedAt, days, taken };
}

/** Millionths of a credit of some days. */
function sumOf(days: readonly DayCount[]): bigint {
  let sum = 0n;
  for (const { products } of days)
    for (const { credits } of products.values()) sum += toMicro(credits.whole, credits.micro);
  return sum;
}

/** All credits of an entry. */
export const creditsOf = ({ days }: BatchEntry): number => toCredits(sumOf(days));

/** Credits of an entry that belong to the current cycle of the account. */
export function creditsOfCycle({ account, days }: BatchEntry): number {
  return toCredits(sumOf(days.filter(({ cycleStart }) => cycleStart === account.cycle.start)));
}

/** Counts one charged call. */
export function countCall(
  account: ProjectAccount,
  product: Parameters<typeof countOf>[1],
  call: { readonly credits: number; readonly bytes: number; readonly isRequest: boolean },
): void {
  const count = countOf(account.today, product);
  if (call.isRequest) count.requests += 1;
  count.bytes += call.bytes;
  addCredits(count.credits, call.credits);
  account.spentCredits += call.credits;
}
