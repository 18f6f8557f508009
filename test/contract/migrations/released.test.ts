/**
 * A step of a schema never changes once it was released: stores that took it would differ from new ones. `released-steps.json` has the
 * effect of every step on both engines as a hash, and the newest steps of each release. New ones are added by
 * `WRITE_STEPS=1 npx tsx test/run.ts migrations/released`, which never changes what is there; a step that no release has yet is taken out by
 * hand first.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import type { Dialect, Store } from '../../../src/ports/store.ts';
import { migrate } from '../../../src/store/migrate.ts';
import { allScopes, newestVersions, type SchemaVersions, scopesOf } from '../../helpers/migration-steps.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { eachStore } from '../../helpers/store.ts';

interface Step {
  readonly name: string;
  readonly breaking: boolean;
  readonly effect: Readonly<Partial<Record<Dialect, string>>>;
}
interface Released {
  readonly releases: Readonly<Record<string, SchemaVersions>>;
  readonly steps: Readonly<Record<string, readonly Step[]>>;
}

const path = fileURLToPath(new URL('released-steps.json', import.meta.url));
const known = JSON.parse(readFileSync(path, 'utf8')) as Released;
const isWriting = process.env['WRITE_STEPS'] === '1';
const { version } = JSON.parse(readFileSync(`${findProjectRoot()}package.json`, 'utf8')) as { version: string };

/** Tables, columns, indexes, constraints and how many rows there are, a line each. */
async function describeSchema({ dialect, read }: Store): Promise<ReadonlySet<string>> {
  const lines =
    dialect === 'sqlite'
      ? sql<{ line: string }>`select type || ' ' || name || ' ' || coalesce(sql, '') as line from sqlite_master`
      : sql<{ line: string }>`
          select concat_ws(' ', 'column', table_name, column_name, data_type, is_nullable, is_identity, column_default) as line
            from information_schema.columns where table_schema = current_schema()
          union all select concat_ws(' ', 'index', indexdef) from pg_indexes where schemaname = current_schema()
          union all select concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
            from pg_constraint where connamespace = current_schema()::regnamespace and contype <> 'n'`;
  const { rows } = await lines.execute(read);
  const all = rows.map(({ line }) => line.replaceAll(/\s+/g, ' '));
  for (const { name } of await read.introspection.getTables()) {
    const counted = await sql<{ n: number }>`select count(*) as n from ${sql.table(name)}`.execute(read);
    all.push(`rows ${name} ${counted.rows[0]?.n}`);
  }
  // Its rows are the steps themselves.
  return new Set(all.filter((line) => !line.includes('parhelion_migrations')));
}

function difference(before: ReadonlySet<string>, after: ReadonlySet<string>): string {
  const gone = [...before].filter((line) => !after.has(line)).map((line) => `- ${line}`);
  const come = [...after].filter((line) => !before.has(line)).map((line) => `+ ${line}`);
  return createHash('sha256')
    .update([...gone, ...come].sort().join('\n'))
    .digest('hex')
    .slice(0, 16);
}

const found = new Map<string, Step>();

eachStore('effects of the schema steps', ({ dialect, store }) => {
  test('every step does what it did when it was first listed', async (t) => {
    const opened = await store(t);
    const scopes = await allScopes();
    const applied: Record<string, number> = {};
    for (const { scope, migrations } of scopes) {
      for (const { version: step, name, breaking } of migrations) {
        const before = await describeSchema(opened);
        applied[scope] = step;
        await migrate(opened, scopesOf(scopes, applied));
        const effect = difference(before, await describeSchema(opened));
        const key = `${scope} ${step}`;
        found.set(key, { name, breaking, effect: { ...found.get(key)?.effect, [dialect]: effect } });
        const listed = known.steps[scope]?.[step - 1];
        if (listed === undefined && isWriting) continue;
        assert.ok(listed !== undefined, `${key} is not listed yet: see the head of this file`);
        const now = { name, breaking, effect };
        assert.deepEqual(now, { name: listed.name, breaking: listed.breaking, effect: listed.effect[dialect] }, key);
      }
    }
  });
});

test('all migration steps of the release still exist, and the steps of this version are listed', async (t) => {
  const scopes = await allScopes();
  const newest = newestVersions(scopes);
  if (isWriting) {
    const steps = scopes.map(({ scope, migrations }) => [
      scope,
      migrations.map((_, at) => known.steps[scope]?.[at] ?? (found.get(`${scope} ${at + 1}`) as Step)),
    ]);
    const next = { releases: { ...known.releases, [version]: newest }, steps: Object.fromEntries(steps) as object };
    writeFileSync(path, `${JSON.stringify(next, null, 2)}\n`);
    return t.diagnostic(`${path} is written`);
  }
  assert.deepEqual(known.releases[version], newest);
  for (const [release, versions] of Object.entries(known.releases))
    for (const [scope, step] of Object.entries(versions))
      assert.ok((newest[scope] ?? 0) >= step, `${release} had step ${step} of ${scope}`);
});
