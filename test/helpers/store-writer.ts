/**
 * A process that writes blocks, one transaction each, and says so after each commit: `store-writer.ts FILE [--report]`. It is there
 * to be killed. With `--report` it says how a write failed, tries once more, and ends.
 */
import { sql } from 'kysely';
import { openSqliteStore } from '../../src/adapters/store/sqlite/index.ts';
import type { CodedError } from '../../src/lib/coded-error.ts';

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
