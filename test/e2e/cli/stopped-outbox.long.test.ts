import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runCommand } from '../../helpers/daemon.ts';

/** A plugin whose command makes rows of the outbox pending, as a replay does. */
const plugin = (api: string, outboxPort: string) => `
import { API_VERSION, definePlugin, Type } from ${JSON.stringify(api)};
import { kernelOutbox } from ${JSON.stringify(outboxPort)};
export default definePlugin({
  id: 'replayer', apiVersion: API_VERSION, summary: 'test',
  config: Type.Object({}, { additionalProperties: false, default: {} }),
  uses: [kernelOutbox],
  provision({ use, command }) {
    command({
      path: ['replayer', 'run'], summary: 'test', options: [],
      async run(_options, io) {
        await io.store.write(async ({ db }) => db.insertInto('outbox').values({
          kind: 'k', key: 'a', grp: 'g', payload: '{}', state: 'failed', lane: 0, attempts: 8, claims: 8, lost: 0,
          run_at: 0, created_at: 0, finished_at: 1 }).execute());
        const changed = await io.store.write((tx) => use(kernelOutbox).requeue(tx, { kind: 'k' }));
        const row = await use(kernelOutbox).get('k', 'a');
        io.line(JSON.stringify({ changed, state: row.state, attempts: row.attempts }));
      },
    });
  },
});`;

test('a command on a stopped daemon may make rows of the outbox due', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-outbox-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const source = (path: string) => fileURLToPath(new URL(`../../../src/${path}`, import.meta.url));
  writeFileSync(join(dir, 'replayer.ts'), plugin(source('plugin/plugin.ts'), source('ports/outbox.ts')));
  const config = join(dir, 'config.yaml');
  const upstream = { urls: ['http://127.0.0.1:9'] };
  writeFileSync(config, JSON.stringify({ dataDir: dir, upstream, plugins: ['access', './replayer.ts'] }));
  const migrated = await runCommand(['migrate', '--config', config]);
  assert.equal(migrated.code, 0, migrated.err);
  const { code, out, err } = await runCommand(['replayer', 'run', '--config', config]);
  assert.equal(code, 0, err);
  assert.deepEqual(JSON.parse(out), { changed: 1, state: 'pending', attempts: 0 });
});
