/** Processes of two versions on one store: the older one goes on beside a step that does not break it, and ends with 57 at one that does. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { codeOf } from '../../../src/lib/coded-error.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { eachStore } from '../../helpers/store.ts';

const KEY = 'key-of-the-first-project';
const STEPS = [
  "{ version: 1, name: 'create notes', breaking: false, up: ({ db }) => db.schema.createTable('notes').addColumn('text', 'text').execute() }",
  "{ version: 2, name: 'add authors', breaking: false, up: ({ db }) => db.schema.alterTable('notes').addColumn('author', 'text').execute() }",
  "{ version: 3, name: 'rename the table', breaking: true, up: ({ db }) => db.schema.alterTable('notes').renameTo('remarks').execute() }",
];

/** A plugin as its versions 1, 2 and 3 are: each has one step more. Its route writes a row and counts all. */
function writePlugin(home: string, version: number): string {
  const folder = join(home, `v${version}`);
  mkdirSync(folder);
  const table = version < 3 ? 'notes' : 'remarks';
  writeFileSync(
    join(folder, 'index.js'),
    `import { API_VERSION, definePlugin, json, Type } from 'parhelion/plugin';
    export default definePlugin({
      id: 'notes', apiVersion: API_VERSION, summary: 'notes', config: Type.Object({}, { additionalProperties: false, default: {} }),
      migrations: [${STEPS.slice(0, version).join(', ')}],
      provision({ store, http }) {
        http.route({
          method: 'POST', path: '/v0/notes', summary: 'A note', tag: 'notes', auth: 'key', errors: 'plain', replies: { 200: Type.Any() },
          async handler() {
            await store.write((tx) => tx.insertMany('${table}', ['text'], [['note']]));
            const { n } = await store.read.selectFrom('${table}').select(({ fn }) => fn.countAll().as('n')).executeTakeFirst();
            return json({ n: Number(n) });
          },
        });
      },
    });`,
  );
  return folder;
}

interface Load {
  readonly good: () => number;
  /** Ends it; the answers that were none. */
  end(): Promise<readonly string[]>;
}

/** Writes notes one after the other. */
function startLoad({ apiUrl }: DaemonInProcess): Load {
  const bad: string[] = [];
  let good = 0;
  let isDone = false;
  const running = (async () => {
    while (!isDone) {
      const response = await fetch(`${apiUrl}/v0/notes`, { method: 'POST', headers: { 'x-api-key': KEY } });
      const text = await response.text();
      if (response.status === 200) good += 1;
      else bad.push(`${response.status} ${text}`);
    }
  })();
  return {
    good: () => good,
    async end() {
      isDone = true;
      await running;
      return bad;
    },
  };
}

const until = async (what: string, check: () => boolean): Promise<void> => {
  for (let round = 0; round < 1_200; round += 1) {
    if (check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`${what} did not come`);
};

eachStore('a rolling upgrade', ({ database }) => {
  test('requests of both versions are answered; a breaking step ends the older ones with 57', async (t: TestContext) => {
    const home = mkdtempSync(join(tmpdir(), 'parhelion-rolling-'));
    t.after(() => rmSync(home, { recursive: true, force: true }));
    const { url } = await database(t);
    const start = async (version: number) => {
      const config = { plugins: ['access', writePlugin(home, version)], log: { level: 'silent' } };
      const daemon = await startDaemon({ store: url, key: KEY, config });
      t.after(() => daemon.stop());
      return daemon;
    };
    const older = await start(1);
    const ended = older.daemon.failed.then((error) => codeOf(error));
    const load = startLoad(older);
    const newer = await start(2);
    const beside = startLoad(newer);
    const [before, own] = [load.good(), beside.good()];
    // Longer than a process takes to notice a step.
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    await until('answers of both', () => load.good() > before + 10 && beside.good() > own + 10);
    assert.deepEqual([await load.end(), await beside.end()], [[], []]);
    assert.equal(await Promise.race([ended, 'goes on']), 'goes on');

    const breaking = newer.daemon.failed;
    await start(3);
    assert.equal(await ended, 'STORE_SCHEMA_NEWER');
    const error = (await breaking) as { exitCode?: number; message: string };
    assert.equal(error.exitCode, 57);
    assert.match(error.message, /notes has step 3 "rename the table"/);
  });
});
