/**
 * A process that writes blocks, one transaction each, and says so after each commit: `store-writer.ts FILE [--report]`. It is there
 * to be killed. With `--report` it says how a write failed, tries once more, and ends. With `--descriptors` it runs out of file descriptors
 * and says what then becomes of a read, a write, a start, and of a read afterwards.
 */
import { closeSync, openSync } from 'node:fs';
import { sql } from 'kysely';
import { type CodedError, codeOf } from '../../src/lib/coded-error.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';

const ROWS_PER_BLOCK = 5;
const [path = '', mode] = process.argv.slice(2);
const store = openSqliteStore({ path, busyTimeoutMs: 5_000, walLimitBytes: 100_000 });

await store.write(async ({ db }) => {
  await sql`create table if not exists cursor (id integer primary key, slot integer not null)`.execute(db);
  await sql`create table if not exists block_rows (slot integer not null, n integer not null, b blob)`.execute(db);
  await sql`insert into cursor (id, slot) values (1, -1) on conflict do nothing`.execute(db);
});

async function writeBlock(): Promise<number> {
  return await store.write(async (tx) => {
    const { rows } = await sql<{ slot: number }>`update cursor set slot = slot + 1 returning slot`.execute(tx.db);
    const slot = rows[0]?.slot ?? 0;
    const block = Array.from({ length: ROWS_PER_BLOCK }, (_, n) => [slot, n, Buffer.alloc(300, n)] as const);
    await tx.insertMany('block_rows', ['slot', 'n', 'b'], block);
    return slot;
  });
}

const tell = (what: string, error: unknown) => {
  const { code, exitCode } = error as CodedError;
  console.log(`${what} ${code} ${exitCode}`);
};

/** Descriptors that the limit of this process still had. */
function takeDescriptors(): number[] {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch (error) {
    if (codeOf(error) !== 'EMFILE') throw error;
    return taken;
  }
}

async function withoutDescriptors(): Promise<void> {
  const count = async () => (await sql<{ n: number }>`select count(*) as n from cursor`.execute(store.read)).rows[0]?.n;
  const fresh = () => openSqliteStore({ path, busyTimeoutMs: 5_000 });
  const other = fresh();
  await count();
  const taken = takeDescriptors();
  const outcome = async (work: () => unknown) => {
    try {
      return String(await work());
    } catch (error) {
      const { code, exitCode, retryable } = error as CodedError;
      return `${code} ${exitCode} ${retryable}`;
    }
  };
  // The only reader is in use: the second read waits for it.
  const held = store.read.transaction().execute(async () => {
    const waiting = count();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return { waiting };
  });
  console.log('read', await outcome(async () => (await held).waiting));
  console.log('write', (await outcome(writeBlock)) === '0');
  console.log('first read of a store', await outcome(() => sql`select 1`.execute(other.read)));
  console.log('start', await outcome(fresh));
  for (const descriptor of taken) closeSync(descriptor);
  console.log('afterwards', await outcome(async () => (await sql`select 1`.execute(other.read)).rows.length));
}

if (mode === '--descriptors') {
  await withoutDescriptors();
  process.exit(0);
}

for (;;) {
  try {
    console.log(await writeBlock());
  } catch (error) {
    if (mode !== '--report') throw error;
    tell('failed', error);
    await writeBlock().catch((again: unknown) => tell('again', again));
    process.exit(0);
  }
}
