import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { sql } from 'kysely';
import { type CodedError, codeOf } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { openStore } from '../../../src/store/index.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { byCase } from '../../helpers/run-part.ts';
import { Database } from '../../helpers/sqlite.ts';

const WRITER = new URL('../../helpers/store-writer.ts', import.meta.url).pathname;
const isCode = (code: string) => (error: unknown) => codeOf(error) === code;
const mode = (path: string) => statSync(path).mode & 0o777;

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'parhelion-sqlite-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function open(
  t: TestContext,
  path: string,
  more: { walLimitBytes?: number; busyTimeoutMs?: number; queueTimeoutMs?: number } = {},
): Store {
  const store = openSqliteStore({ path, busyTimeoutMs: 200, ...more });
  t.after(() => store.close());
  return store;
}

const fill = (store: Store, bytes: number) =>
  store.write(async ({ db }) => {
    await sql`create table if not exists filler (id integer primary key, b blob)`.execute(db);
    await sql`insert into filler (b) values (${Buffer.alloc(bytes, 7)})`.execute(db);
  });
const integrity = (path: string) => {
  const db = new Database(path, { readonly: true });
  try {
    return db.pragma('integrity_check', { simple: true });
  } finally {
    db.close();
  }
};

test('files belong to this user alone, whatever the mask and the mode before', async (t) => {
  const before = process.umask(0);
  t.after(() => process.umask(before));
  const dir = folder(t);
  const path = join(dir, 'new', 'deep', 'a.db');
  await fill(open(t, path), 10);
  assert.equal(mode(join(dir, 'new')), 0o700);
  assert.equal(mode(path), 0o600);
  assert.equal(mode(`${path}-wal`), 0o600);
  assert.equal(mode(`${path}-shm`), 0o600);
  const loose = join(dir, 'loose.db');
  writeFileSync(loose, '');
  chmodSync(loose, 0o644);
  await fill(open(t, loose), 10);
  assert.equal(mode(loose), 0o600);
});

test('addresses choose the engine and the file', async (t) => {
  const dir = folder(t);
  const config = { poolSize: 2, busyTimeoutMs: 100, statementTimeoutMs: 1_000 };
  for (const [url, file] of [
    ['sqlite:', join(dir, 'parhelion.db')],
    [`sqlite:${dir}/one.db`, join(dir, 'one.db')],
    [`sqlite://${dir}/two.db`, join(dir, 'two.db')],
  ] as const) {
    const store = await openStore({ ...config, url }, dir);
    assert.equal(store.dialect, 'sqlite');
    await store.close();
    assert.ok(statSync(file).isFile());
  }
  await assert.rejects(openStore({ ...config, url: 'mysql://user:hunter2@x/y' }, dir), (error: CodedError) => {
    assert.equal(error.code, 'CONFIG_INVALID');
    assert.equal(error.exitCode, 78);
    return !JSON.stringify([error.message, error.facts]).includes('hunter2');
  });
  await assert.rejects(
    openStore({ ...config, url: 'postgres://u:hunter2@127.0.0.1:9/y' }, dir),
    (error: CodedError) => {
      assert.equal(error.code, 'STORE_UNREACHABLE');
      assert.equal(error.exitCode, 75);
      return !JSON.stringify([error.message, error.facts]).includes('hunter2');
    },
  );
});

test('a file that is no database, or a path where none can be, is refused with a code', (t) => {
  const dir = folder(t);
  const text = join(dir, 'text.db');
  writeFileSync(text, 'this is no database, and it is long enough to be taken for a header of one'.repeat(20));
  assert.throws(() => open(t, text), isCode('STORE_CORRUPT'));
  mkdirSync(join(dir, 'folder.db'));
  assert.throws(() => open(t, join(dir, 'folder.db')), isCode('STORE_IO'));
  assert.throws(() => open(t, join(text, 'below-a-file.db')), isCode('STORE_IO'));
});

test('out of file descriptors: reads share what is open, a start says what is missing, and all of it passes', async (t) => {
  const path = join(folder(t), 'a.db');
  const limited = ['-c', 'ulimit -n 256; exec "$@"', 'sh', process.execPath, '--import', 'tsx', WRITER, path];
  const child = spawn('sh', [...limited, '--descriptors'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.on('data', (data: Buffer) => {
    out += data.toString();
  });
  await once(child, 'close');
  assert.deepEqual(out.trim().split('\n'), [
    'read 1',
    'write true',
    'first read of a store STORE_DESCRIPTORS 75 true',
    'start STORE_DESCRIPTORS 75 true',
    'afterwards 1',
  ]);
});

test('a full disk is reported, loses nothing that was committed, and heals when there is room', async (t) => {
  const dir = folder(t);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', dir], { stdio: 'ignore' });
  } catch {
    return t.skip('needs the right to mount a tmpfs');
  }
  const ballast = join(dir, 'ballast');
  writeFileSync(ballast, Buffer.alloc(400_000));
  const path = join(dir, 'a.db');
  const store = openSqliteStore({ path, busyTimeoutMs: 200 });
  try {
    let committed = 0;
    const error = await (async () => {
      for (;;) {
        try {
          await fill(store, 50_000);
          committed += 1;
        } catch (failure) {
          return failure as CodedError;
        }
      }
    })();
    assert.ok(['STORE_FULL', 'STORE_IO'].includes(error.code), error.code);
    assert.equal(error.exitCode, 75);
    assert.ok(committed > 3);
    const count = async () =>
      (await sql<{ n: number }>`select count(*) as n from filler`.execute(store.read)).rows[0]?.n;
    assert.equal(await count(), committed);
    assert.equal(integrity(path), 'ok');
    rmSync(ballast);
    if (error.code === 'STORE_FULL') {
      await fill(store, 10_000);
      assert.equal(await count(), committed + 1);
    }
  } finally {
    await store.close();
    execFileSync('umount', ['-l', dir]);
  }
});

test('another process that holds the lock is waited for without blocking this one', async (t) => {
  const path = join(folder(t), 'a.db');
  const store = open(t, path, { busyTimeoutMs: 5_000 });
  await fill(store, 10);
  const other = new Database(path);
  t.after(() => other.close());
  other.exec('begin immediate');
  let turns = 0;
  const ticking = setInterval(() => {
    turns += 1;
    if (turns === 10) other.exec('commit');
  }, 2);
  await fill(store, 10);
  clearInterval(ticking);
  assert.ok(turns >= 10, 'the event loop went on');
  const impatient = open(t, path, { busyTimeoutMs: 20 });
  other.exec('begin immediate');
  await assert.rejects(fill(impatient, 10), (error: CodedError) => error.code === 'STORE_BUSY' && error.retryable);
  other.exec('rollback');
  await fill(impatient, 10);
});

test('a writer that waits too long for another one gets an error that says so', async (t) => {
  const store = open(t, join(folder(t), 'a.db'), { queueTimeoutMs: 20 });
  await assert.rejects(
    store.write(() => fill(store, 10)),
    isCode('STORE_BUSY'),
    'a write inside a write would wait for itself',
  );
  await fill(store, 10);
});

test('the log is moved into the database between commits, also past a reader that stays', async (t) => {
  const path = join(folder(t), 'a.db');
  const limit = 200_000;
  const store = open(t, path, { walLimitBytes: limit });
  for (let i = 0; i < 200; i += 1) await fill(store, 8_000);
  assert.ok(statSync(`${path}-wal`).size < 2 * limit, 'the log starts again after each checkpoint');
  assert.ok(statSync(path).size > 1_000_000);
  await store.read.transaction().execute(async (snapshot) => {
    const count = async () => (await sql<{ n: number }>`select count(*) as n from filler`.execute(snapshot)).rows[0]?.n;
    assert.equal(await count(), 200);
    for (let i = 0; i < 100; i += 1) await fill(store, 8_000);
    assert.equal(await count(), 200);
  });
  for (let i = 0; i < 100; i += 1) await fill(store, 8_000);
  assert.equal(integrity(path), 'ok');
});

byCase([7, 0, 1, 2, 3, 4, 5, 6], (rounds) =>
  test('kill -9 at any moment: cursor and rows agree, and nothing that was acknowledged is lost', async (t) => {
    const path = join(folder(t), 'a.db');
    let acknowledged = -1;
    for (const round of rounds) {
      const child = spawn(process.execPath, ['--import', 'tsx', WRITER, path], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      acknowledged = Math.max(acknowledged, await readUntilKilled(child, 20 + round * 37));
      const db = new Database(path);
      const { cursor } = db.prepare('select slot as cursor from cursor').get() as { cursor: number };
      const { n, top } = db.prepare('select count(*) as n, max(slot) as top from block_rows').get() as Record<
        string,
        number
      >;
      assert.ok(cursor >= acknowledged, `${cursor} >= ${acknowledged}`);
      assert.deepEqual({ n, top }, { n: (cursor + 1) * 5, top: cursor });
      assert.equal(db.pragma('integrity_check', { simple: true }), 'ok');
      db.close();
    }
    assert.ok(acknowledged > 20);
  }),
);

/** Returns the last slot that the writer said was committed before it was killed. */
async function readUntilKilled(child: ChildProcess, blocks: number): Promise<number> {
  let last = -1;
  let seen = 0;
  let rest = '';
  child.stdout?.on('data', (data: Buffer) => {
    const lines = (rest + data.toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) last = Number(line);
    seen += lines.length;
    if (seen >= blocks) child.kill('SIGKILL');
  });
  await once(child, 'close');
  return last;
}

test('a failed fsync ends all writing', async (t) => {
  try {
    execFileSync('strace', ['-f', '-o', '/dev/null', '-e', 'trace=fsync', 'true'], { stdio: 'ignore' });
  } catch {
    return t.skip('needs strace, and the right to trace');
  }
  const path = join(folder(t), 'a.db');
  const inject = [
    '-f',
    '-o',
    '/dev/null',
    '-e',
    'trace=fdatasync,fsync',
    '-e',
    'inject=fdatasync,fsync:error=EIO:when=40+',
  ];
  const child = spawn('strace', [...inject, process.execPath, '--import', 'tsx', WRITER, path, '--report'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  child.stdout.on('data', (data: Buffer) => {
    out += data.toString();
  });
  child.stderr.resume();
  await once(child, 'close');
  assert.match(out, /failed STORE_IO 75\nagain STORE_IO 75\n$/);
  assert.equal(integrity(path), 'ok');
});

test('a process that writes without a pause lets others in between', async (t) => {
  const path = join(folder(t), 'a.db');
  const child = spawn(process.execPath, ['--import', 'tsx', WRITER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  let blocks = 0;
  child.stdout.on('data', (data: Buffer) => {
    blocks += data.toString().split('\n').length - 1;
  });
  await once(child.stdout, 'data');
  const store = open(t, path, { busyTimeoutMs: 10_000 });
  const before = blocks;
  // By luck alone some of them would wait for hundreds of blocks, or be told that the database is locked.
  const waits: number[] = [];
  for (let i = 0; i < 40; i += 1) {
    const from = blocks;
    await fill(store, 10);
    waits.push(blocks - from);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(blocks > before, 'it goes on');
  assert.ok(waits.toSorted((a, b) => a - b)[35]! <= 30, `blocks that went before: ${waits.join()}`);
});
