/** A backup is of one moment, also of a busy database; and the drill: what was restored goes on as if nothing had happened since. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { sql } from 'kysely';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { copyDatabaseFile } from '../../../src/store/sqlite-backup.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { runCommand, startDaemon } from '../../helpers/daemon.ts';
import { integrityOf } from '../../helpers/delivery-ledger.ts';
import { byCase, bySeed } from '../../helpers/run-part.ts';
import { until } from '../../helpers/until.ts';
import { startWorkBed } from '../../helpers/work-harness.ts';

const skip = (await chainMissing()) ?? false;

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-backup-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

bySeed(5, (copies) =>
  test('a backup holds whole transactions and all that was committed before it began, while others write', async (t) => {
    const dir = folder(t);
    const path = join(dir, 'busy.db');
    const store = openSqliteStore({ path, busyTimeoutMs: 5_000 });
    await store.write(async ({ db }) => {
      await sql`create table one (n bigint primary key, body text)`.execute(db);
      await sql`create table two (n bigint primary key)`.execute(db);
    });
    let written = 0;
    let over = false;
    const writing = (async () => {
      while (!over) {
        const n = written;
        await store.write(async (tx) => {
          await tx.insertMany('one', ['n', 'body'], [[n, 'x'.repeat(2_000)]]);
          await tx.insertMany('two', ['n'], [[n]]);
        });
        written = n + 1;
        // Nothing of a write on SQLite waits: the others would never get their turn.
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await until(() => written >= 300);
    let steps = 0;
    for (const copy of copies) {
      const before = written;
      const to = join(dir, `copy-${copy}.db`);
      await copyDatabaseFile({ from: path, what: 'the database', to, progress: () => (steps += 1) });
      assert.equal(integrityOf(to), 'ok');
      const made = openSqliteStore({ path: to, busyTimeoutMs: 1_000 });
      const { rows } = await sql<{ one: number; two: number; most: number }>`select (select count(*) from one) as one,
      (select count(*) from two) as two, (select max(n) from two) as most`.execute(made.read);
      await made.close();
      const [{ one, two, most }] = rows as [{ one: number; two: number; most: number }];
      assert.equal(one, two);
      assert.equal(most, two - 1);
      assert.ok(two >= before, `${two} of ${before}`);
      await assert.rejects(copyDatabaseFile({ from: path, what: 'the database', to, progress: () => undefined }), {
        code: 'STORE_BACKUP',
      });
    }
    over = true;
    await writing;
    await store.close();
    assert.ok(steps >= copies.length);
    assert.deepEqual(
      readdirSync(dir).filter((name) => name.includes('partial')),
      [],
    );
  }),
);

test('a damaged file or one that is no database is neither backed up nor restored', async (t) => {
  const dir = folder(t);
  const text = join(dir, 'text.db');
  writeFileSync(text, 'this is no database at all, however long it may be'.repeat(200));
  const to = join(dir, 'data', 'parhelion.db');
  await assert.rejects(
    copyDatabaseFile({ from: text, what: 'the database', to: join(dir, 'copy.db'), progress: () => undefined }),
    {
      code: 'STORE_CORRUPT',
      exitCode: 78,
      message: new RegExp(text),
    },
  );
  // A backup that lost its end, and one that lost a page in the middle, of a database with enough in it.
  const whole = join(dir, 'whole.db');
  const store = openSqliteStore({ path: whole, busyTimeoutMs: 1_000 });
  await store.write(async (tx) => {
    await sql`create table filler (id integer primary key, words text not null)`.execute(tx.db);
    const rows = Array.from({ length: 2_000 }, (_, id) => [id, `row ${id} `.repeat(20)]);
    await tx.insertMany('filler', ['id', 'words'], rows);
  });
  await store.close();
  const cut = join(dir, 'cut.db');
  const bytes = readFileSync(whole);
  writeFileSync(cut, bytes.subarray(0, Math.floor(bytes.length / 2)));
  const spoilt = join(dir, 'spoilt.db');
  writeFileSync(spoilt, Buffer.concat([bytes.subarray(0, 8_192), Buffer.alloc(40_960, 0xff), bytes.subarray(49_152)]));
  const config = join(dir, 'parhelion.yaml');
  writeFileSync(config, JSON.stringify({ dataDir: join(dir, 'data'), upstream: { urls: ['http://127.0.0.1:9'] } }));
  const restore = (input: string) => runCommand(['restore', '--input', input, '--config', config]);
  for (const input of [text, cut, spoilt]) {
    const { code, err } = await restore(input);
    assert.equal(code, 78, err);
    assert.match(err, new RegExp(`STORE_BACKUP: the backup ${input} is damaged`));
    assert.equal(existsSync(to), false);
  }
  for (const input of [join(dir, 'absent.db')]) {
    const { code, err } = await restore(input);
    assert.equal(code, 78, err);
    assert.equal(existsSync(to), false);
  }
  assert.match((await restore(join(dir, 'absent.db'))).err, /STORE_BACKUP/);
});

byCase([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], (turns) =>
  test('a backup with a trigger, a view, a table of somebody else or one that only looks like ours is refused', async (t) => {
    let tried = 0;
    const dir = folder(t);
    const daemon = await startDaemon();
    const backup = join(dir, 'backup.db');
    const made = await runCommand(['backup', '--config', daemon.configFile, '--output', backup]);
    assert.equal(made.code, 0, made.err);
    await daemon.stop();
    const config = join(dir, 'parhelion.yaml');
    const dataDir = join(dir, 'data');
    writeFileSync(config, JSON.stringify({ dataDir, upstream: { urls: ['http://127.0.0.1:9'] } }));
    const restore = () => runCommand(['restore', '--config', config, '--input', backup]);
    const change = async (...statements: readonly string[]) => {
      const store = openSqliteStore({ path: backup, busyTimeoutMs: 1_000 });
      await store.write(async ({ db }) => {
        for (const one of statements) await sql.raw(one).execute(db);
      });
      await store.close();
    };
    for (const [what, name, make, undo] of [
      ['trigger', 'more', 'create trigger more after insert on webhooks begin select 1; end', 'drop trigger more'],
      ['view', 'other', 'create view other as select 1', 'drop view other'],
      ['table', 'stranger', 'create table stranger (n int)', 'drop table stranger'],
      ['index', 'odd', 'create index odd on webhooks (1 + 1)', 'drop index odd'],
      ['table', 'webhooks', 'alter table webhooks add column extra int', 'alter table webhooks drop column extra'],
    ] as const) {
      tried += 1;
      if (!turns.includes(tried % 10)) continue;
      await change(make);
      const { code, err } = await restore();
      assert.equal(code, 78, `${what} ${name}: ${err}`);
      assert.match(err, new RegExp(`contains objects that no version of this program creates: ${what} ${name}`));
      assert.deepEqual(readdirSync(dataDir), ['parhelion.db-turn']);
      await change(undo);
    }
    // The list of applied steps belongs to the backup: whatever owner it claims, the tables of ours are known.
    await change("insert into parhelion_migrations (scope, version, name, breaking) values ('stranger', 1, 'x', 0)");
    for (const [what, name, make, undo] of [
      ['table', 'webhooks', 'alter table webhooks add column extra int', 'alter table webhooks drop column extra'],
      ['table', 'stranger', 'create virtual table stranger using fts5(n)', 'drop table stranger'],
      ['index', 'odd', 'create index odd on webhooks (1 + 1)', 'drop index odd'],
      ['trigger', 'more', 'create trigger more after insert on webhooks begin select 1; end', 'drop trigger more'],
    ] as const) {
      tried += 1;
      if (!turns.includes(tried % 10)) continue;
      await change(make);
      const { code, err } = await restore();
      assert.equal(code, 78, `${what} ${name}: ${err}`);
      assert.match(err, new RegExp(`contains objects that no version of this program creates: .*\\b${what} ${name}`));
      await change(undo);
    }
    await change('create table stranger (n int)', 'create index strange on stranger (n)');
    const { code, err } = await restore();
    assert.equal(code, 0, err);
  }),
);

test('drill: a backup of a busy daemon, the loss of its disk, a restore; nothing acknowledged before is missing', {
  skip,
}, async (t) => {
  const bed = await startWorkBed();
  t.after(() => bed.stop());
  const dir = folder(t);
  const file = join(dir, 'backup.db');
  const first = bed.start();
  const { api } = await first.ready();
  const [one, two] = bed.payments.addresses as [string, string];
  assert.equal(await bed.ledger.create(api, [one]), 200);
  assert.equal(await bed.ledger.create(api, [one, two]), 200);
  await bed.receiver.waitFor(10);

  const made = await runCommand(['backup', '--output', file, '--json', '--config', bed.configFile]);
  assert.equal(made.code, 0, made.err);
  assert.equal((JSON.parse(made.out) as { file: string }).file, file);
  const again = await runCommand(['backup', '--output', file, '--config', bed.configFile]);
  assert.equal(again.code, 78, 'a backup never replaces one');
  const restore = () => runCommand(['restore', '--input', file, '--config', bed.configFile]);
  assert.match((await restore()).err, /DAEMON_RUNNING/);

  // More is paid and delivered, and then the disk is lost.
  await bed.receiver.waitFor(bed.receiver.received.length + 10);
  await first.kill('SIGKILL');
  const refused = await restore();
  assert.equal(refused.code, 78);
  assert.match(refused.err, /already exists/);
  for (const name of readdirSync(bed.dataDir))
    if (name.startsWith('parhelion.db')) renameSync(join(bed.dataDir, name), join(dir, `lost-${name}`));
  const restored = await restore();
  assert.equal(restored.code, 0, restored.err);

  const second = bed.start();
  await second.ready();
  await bed.payments.stop();
  await bed.ledger.settle(bed.openStore, 120, second.output);
  await second.kill('SIGTERM');
  assert.equal(second.child.exitCode, 0, second.output());
  const store = await bed.openStore();
  t.after(() => store.close());
  t.diagnostic(`${await bed.ledger.check(store)} deliveries`);
});
