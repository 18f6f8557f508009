/** Counts outcomes, and stores groups of differences with the newest examples of each; everything is bounded. */
import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { maskNamedKeys } from '../../src/lib/mask-keys.ts';
import type { Clock, Random, Store, StoreTx } from '../../src/plugin/plugin.ts';
import { dayOf } from './budget.ts';
import type { AnswerText, Difference } from './compare.ts';
import { shownValue } from './compare.ts';
import type { ShadowConfig } from './config.ts';
import type { CountRow, DifferenceRow, GroupRow } from './tables.ts';
import { tables } from './tables.ts';

export type Outcome = 'equal' | 'explained' | 'different' | 'unanswered';

/** A difference with its explanation; an empty one: unexplained. */
export interface ExplainedDifference extends Difference {
  readonly reason: string;
}

export interface Compared {
  readonly method: string;
  readonly product: string;
  readonly question: string;
  readonly ours: AnswerText;
  readonly theirs: AnswerText;
  readonly differences: readonly ExplainedDifference[];
}

export interface Results {
  count(method: string, product: string, outcome: Outcome): void;
  /** Keeps the differences of two answers. */
  note(compared: Compared): void;
  /** Writes what is not stored yet, and deletes what is beyond the bounds. */
  flush(): Promise<void>;
}

/** Examples that wait for the next flush; further ones are only counted. */
const MAX_EXAMPLES = 100;
/** Methods and groups that wait for it. */
const MAX_NAMES = 5_000;
const KEPT_DAYS = 40;
/** Methods that are counted by name on a day: clients may call any name. */
const MAX_METHODS = 500;
const METHOD_LETTERS = 100;
const QUESTION_LETTERS = 4_096;
const PATH_LETTERS = 200;
/** Name of what is beyond the bounds. */
const OTHER = 'other';

interface ResultsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly config: ShadowConfig;
}

export function createResults({ store, clock, random, config }: ResultsParts): Results {
  let counts = new Map<string, CountRow>();
  let groups = new Map<string, GroupRow>();
  let examples: DifferenceRow[] = [];
  /** Day on which old rows were last looked for. */
  let cleanedDay = -1;

  const cut = (text: string): string => {
    const { apiKey } = config.reference;
    const named = apiKey === null ? text : text.replaceAll(apiKey, '***');
    return maskNamedKeys(named).slice(0, config.keep.bodyBytes);
  };

  function groupOf(one: Compared, { path, kind, reason }: ExplainedDifference, at: number): GroupRow {
    const shortPath = path.slice(0, PATH_LETTERS);
    const method = methodOf(one.method);
    const id = idOf([method, shortPath, kind, reason]);
    const known = groups.get(id);
    if (known !== undefined) return known;
    const made = {
      id,
      method,
      product: one.product,
      path: shortPath,
      kind,
      reason,
      count: 0,
      first_at: at,
      last_at: at,
    };
    if (groups.size < MAX_NAMES) groups.set(id, made);
    return made;
  }

  return {
    count(given, product, outcome) {
      const method = methodOf(given);
      const day = dayOf(clock.now());
      const key = `${day} ${method}`;
      const row = counts.get(key) ?? {
        day,
        method: counts.size < MAX_NAMES ? method : OTHER,
        product,
        equal: 0,
        explained: 0,
        different: 0,
        unanswered: 0,
      };
      row[outcome] += 1;
      counts.set(`${day} ${row.method}`, row);
    },
    note(compared) {
      const at = clock.now();
      const noted = new Set<string>();
      for (const difference of compared.differences) {
        const group = groupOf(compared, difference, at);
        // A group counts once per answer: a list of a hundred items is one difference.
        if (noted.has(group.id)) continue;
        noted.add(group.id);
        group.count += 1;
        group.last_at = at;
        if (examples.length >= MAX_EXAMPLES) continue;
        examples.push({
          id: random.uuid(),
          group_id: group.id,
          at,
          question: cut(compared.question).slice(0, QUESTION_LETTERS),
          our_value: cut(shownValue(difference.ours)),
          their_value: cut(shownValue(difference.theirs)),
          our_status: compared.ours.status,
          their_status: compared.theirs.status,
          ours: cut(compared.ours.text),
          theirs: cut(compared.theirs.text),
        });
      }
    },
    async flush() {
      const written = { counts: [...counts.values()], groups: [...groups.values()], examples };
      if (written.counts.length + written.groups.length + written.examples.length === 0) return;
      counts = new Map();
      groups = new Map();
      examples = [];
      const today = dayOf(clock.now());
      await store.write(async (tx) => {
        await writeCounts(tx, written.counts);
        const stored = await writeGroups(tx, written.groups, config.keep.groups);
        const kept = written.examples.filter(({ group_id }) => stored.has(group_id));
        for (const row of kept) await tables(tx.db).insertInto('shadow_differences').values(row).execute();
        if (kept.length > 0) await dropSurplus(tx, config.keep);
        if (cleanedDay !== today) await dropOld(tx, today);
      });
      cleanedDay = today;
    },
  };
}

const methodOf = (name: string): string => (name.length <= METHOD_LETTERS ? name : OTHER);
const idOf = (names: readonly string[]): string =>
  createHash('sha256').update(names.join('\n')).digest('hex').slice(0, 24);

async function writeCounts(tx: StoreTx, rows: readonly CountRow[]): Promise<void> {
  const days = new Map<number, Set<string>>();
  for (const given of rows) {
    const known = days.get(given.day) ?? (await methodsOf(tx, given.day));
    days.set(given.day, known);
    const row = known.has(given.method) || known.size < MAX_METHODS ? given : { ...given, method: OTHER };
    known.add(row.method);
    await tables(tx.db)
      .insertInto('shadow_counts')
      .values(row)
      .onConflict((on) =>
        on.columns(['day', 'method']).doUpdateSet({
          equal: sql<number>`shadow_counts.equal + ${row.equal}`,
          explained: sql<number>`shadow_counts.explained + ${row.explained}`,
          different: sql<number>`shadow_counts.different + ${row.different}`,
          unanswered: sql<number>`shadow_counts.unanswered + ${row.unanswered}`,
        }),
      )
      .execute();
  }
}

async function methodsOf(tx: StoreTx, day: number): Promise<Set<string>> {
  const rows = await tables(tx.db).selectFrom('shadow_counts').select('method').where('day', '=', day).execute();
  return new Set(rows.map(({ method }) => method));
}

/** Returns the ids of the groups that are stored. */
async function writeGroups(tx: StoreTx, rows: readonly GroupRow[], max: number): Promise<ReadonlySet<string>> {
  const stored = new Set<string>();
  if (rows.length === 0) return stored;
  const { total } = await tables(tx.db)
    .selectFrom('shadow_groups')
    .select(({ fn }) => fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow();
  let room = max - Number(total);
  for (const row of rows) {
    const { numUpdatedRows } = await tables(tx.db)
      .updateTable('shadow_groups')
      .set({ count: sql<number>`count + ${row.count}`, last_at: row.last_at })
      .where('id', '=', row.id)
      .executeTakeFirst();
    if (Number(numUpdatedRows) === 0) {
      if (room <= 0) continue;
      room -= 1;
      // Another process may have stored it since.
      await tables(tx.db)
        .insertInto('shadow_groups')
        .values(row)
        .onConflict((on) => on.column('id').doUpdateSet({ count: sql<number>`shadow_groups.count + ${row.count}` }))
        .execute();
    }
    stored.add(row.id);
  }
  return stored;
}

async function dropSurplus(tx: StoreTx, keep: ShadowConfig['keep']): Promise<void> {
  const db = tables(tx.db);
  const rows = await db
    .selectFrom('shadow_differences')
    .select(['id', 'group_id'])
    .orderBy('at', 'desc')
    .orderBy('id')
    .execute();
  const perGroup = new Map<string, number>();
  const surplus = rows.filter(({ group_id }, at) => {
    const before = perGroup.get(group_id) ?? 0;
    perGroup.set(group_id, before + 1);
    return before >= keep.perGroup || at >= keep.differences;
  });
  for (const { id } of surplus) await db.deleteFrom('shadow_differences').where('id', '=', id).execute();
}

async function dropOld(tx: StoreTx, today: number): Promise<void> {
  const db = tables(tx.db);
  const oldest = today - KEPT_DAYS;
  await db.deleteFrom('shadow_counts').where('day', '<', oldest).execute();
  await db.deleteFrom('shadow_spent').where('day', '<', oldest).execute();
}
