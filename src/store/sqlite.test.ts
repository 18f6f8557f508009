/** The writer of the embedded database on a connection that fails like a disk, and the resulting errors. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { createStoreCheck } from '../daemon/daemon.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import { postgresError } from './postgres.ts';
import { createWriter } from './sqlite.ts';
import { type SqliteConnection, sqliteError } from './sqlite-connection.ts';
import { createWriteQueue } from './write-lock.ts';

const WAIT = { timeout: 20_000 };
const coded = (code: string) => Object.assign(new Error(code), { code });

/** `fails` is called before each statement. */
function makeWriter(fails: (statement: string) => Error | null, isTaken = () => false, busyTimeoutMs = 40) {
  const ran: string[] = [];
  const db = {
    inTransaction: false,
    prepare: (statement: string) => ({
      run() {
        ran.push(statement);
        const error = fails(statement);
        if (error !== null) throw error;
        db.inTransaction = statement.startsWith('begin');
      },
    }),
  };
  const turn = { isTaken, take: () => true, release() {}, close() {} };
  const connection = { db } as unknown as SqliteConnection;
  return { writer: createWriter({ connection, busyTimeoutMs, turn, afterCommit() {} }), ran };
}

/** One transaction; the error of whichever step failed. */
async function writeOnce({ writer }: ReturnType<typeof makeWriter>): Promise<string | undefined> {
  try {
    await writer.begin();
    try {
      writer.commit();
    } catch (error) {
      writer.rollback(error);
      throw error;
    }
    return undefined;
  } catch (error) {
    return codeOf(error);
  }
}

describe('after a failure', () => {
  for (const [sqlite, code] of [
    ['SQLITE_IOERR_FSYNC', 'STORE_IO'],
    ['SQLITE_CORRUPT', 'STORE_CORRUPT'],
  ] as const)
    test(`${sqlite} ends all writing: what is on disk is unknown`, WAIT, async () => {
      let isFailing = true;
      const made = makeWriter((statement) => (isFailing && statement === 'commit' ? coded(sqlite) : null));
      assert.equal(await writeOnce(made), code);
      isFailing = false;
      const before = made.ran.length;
      for (let again = 0; again < 3; again += 1) assert.equal(await writeOnce(made), code);
      assert.equal(made.ran.length, before);
    });
  test('writing recovers from a full disk', WAIT, async () => {
    let isFull = true;
    const made = makeWriter((statement) => (isFull && statement === 'commit' ? coded('SQLITE_FULL') : null));
    assert.equal(await writeOnce(made), 'STORE_FULL');
    isFull = false;
    assert.equal(await writeOnce(made), undefined);
  });
  test('a transaction that could not be rolled back is the last one', WAIT, async () => {
    let isFailing = true;
    const made = makeWriter((statement) => (isFailing && !statement.startsWith('begin') ? new Error('odd') : null));
    await writeOnce(made);
    isFailing = false;
    assert.equal(await writeOnce(made), 'STORE_IO');
  });
});

describe('another process', () => {
  test('that keeps the lock is waited for, but not forever', WAIT, async () => {
    const made = makeWriter((statement) => (statement === 'begin immediate' ? coded('SQLITE_BUSY') : null));
    assert.equal(await writeOnce(made), 'STORE_BUSY');
    assert.ok(made.ran.length > 1);
  });
  test('that already waits has precedence, but not forever', WAIT, async () => {
    let looks = 0;
    const made = makeWriter(
      () => null,
      () => {
        looks += 1;
        return looks < 4;
      },
      10_000,
    );
    assert.equal(await writeOnce(made), undefined);
    assert.equal(looks, 4);
    assert.equal(
      await writeOnce(
        makeWriter(
          () => null,
          () => true,
        ),
      ),
      undefined,
    );
  });
});

describe('writers of one process', () => {
  const never = () => new Promise<never>(() => undefined);
  test('wait in a bounded queue', WAIT, async () => {
    const queue = createWriteQueue({ maxWaiting: 3, timeoutMs: 60_000 });
    const held = new AbortController();
    const first = queue.run(() => once(held.signal, 'abort'));
    const waiting = [1, 2, 3].map((n) => queue.run(async () => n));
    await assert.rejects(
      queue.run(async () => 4),
      { code: 'STORE_BUSY' },
    );
    held.abort();
    await first;
    assert.deepEqual(await Promise.all(waiting), [1, 2, 3]);
  });
  test('wait for a limited time, and do not run afterwards', WAIT, async () => {
    const queue = createWriteQueue({ maxWaiting: 3, timeoutMs: 30 });
    const held = new AbortController();
    const first = queue.run(() => once(held.signal, 'abort'));
    let ran = false;
    await assert.rejects(
      queue.run(async () => {
        ran = true;
      }),
      { code: 'STORE_BUSY' },
    );
    held.abort();
    await first;
    assert.equal(await queue.run(async () => 'next'), 'next');
    assert.equal(ran, false);
  });
  test('finish before the queue is closed, and none starts after that', WAIT, async () => {
    const queue = createWriteQueue({ maxWaiting: 3, timeoutMs: 60_000 });
    let isDone = false;
    void queue.run(async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      isDone = true;
    });
    await queue.close();
    assert.ok(isDone);
    await assert.rejects(queue.run(never), { code: 'STORE_CLOSED' });
  });
});

test('errors of a broken or full disk end the daemon with 75, of damaged data with 78, on both engines', () => {
  for (const [translate, code, expected] of [
    [sqliteError, 'SQLITE_FULL', 'STORE_FULL'],
    [sqliteError, 'SQLITE_READONLY_DBMOVED', 'STORE_READ_ONLY'],
    [sqliteError, 'SQLITE_PERM', 'STORE_READ_ONLY'],
    [sqliteError, 'SQLITE_IOERR_WRITE', 'STORE_IO'],
    [sqliteError, 'SQLITE_CANTOPEN', 'STORE_IO'],
    [postgresError, '53100', 'STORE_FULL'],
    [postgresError, '25006', 'STORE_READ_ONLY'],
    [postgresError, '58030', 'STORE_IO'],
    [postgresError, 'XX000', 'STORE_IO'],
    [postgresError, 'EMFILE', 'STORE_DESCRIPTORS'],
    [postgresError, 'ECONNREFUSED', 'STORE_UNREACHABLE'],
  ] as const) {
    const error = translate(coded(code), '/data/x.db');
    assert.ok(error instanceof CodedError, code);
    assert.deepEqual([error.code, error.exitCode], [expected, 75], code);
  }
  // Starting again does not repair a file.
  for (const [translate, code] of [
    [sqliteError, 'SQLITE_CORRUPT'],
    [sqliteError, 'SQLITE_CORRUPT_INDEX'],
    [sqliteError, 'SQLITE_NOTADB'],
    [postgresError, 'XX001'],
  ] as const) {
    const error = translate(coded(code), '/data/x.db');
    assert.ok(error instanceof CodedError, code);
    assert.deepEqual([error.code, error.exitCode, error.retryable], ['STORE_CORRUPT', 78, false], code);
    if (translate === sqliteError) assert.match(error.message, /\/data\/x\.db/);
  }
  for (const [translate, code] of [
    [sqliteError, 'SQLITE_CONSTRAINT_UNIQUE'],
    [postgresError, '23505'],
  ] as const) {
    const error = translate(coded(code), '/data/x.db');
    assert.ok(error instanceof CodedError);
    assert.deepEqual([error.code, error.exitCode], ['STORE_CONFLICT', undefined]);
  }
});

test('the check of the store is a write, and says why it failed where that may be said', async () => {
  let probes = 0;
  const fine = createStoreCheck(async () => {
    probes += 1;
  });
  assert.deepEqual(await fine.run(new AbortController().signal), { ok: true, detail: 'takes writes' });
  assert.equal(probes, 1);
  const full = createStoreCheck(() => Promise.reject(new CodedError('STORE_FULL', '/secret/path is full')));
  const { ok, detail } = await full.run(new AbortController().signal);
  assert.deepEqual([ok, detail], [false, 'STORE_FULL: the disk or the database is full']);
  // The text of an unknown error may contain an address: the caller logs it.
  const unknown = createStoreCheck(() => Promise.reject(new Error('postgres://user:password@host')));
  await assert.rejects(unknown.run(new AbortController().signal), /postgres/);
});
