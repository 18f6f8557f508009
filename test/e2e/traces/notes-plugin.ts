import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A plugin that writes a log line within each block and within a job of its own. */
const SOURCE = `
import { API_VERSION, definePlugin, Type } from 'parhelion/plugin';

export default definePlugin({
  id: 'notes',
  apiVersion: API_VERSION,
  summary: 'writes log lines for tests',
  config: Type.Object({}, { additionalProperties: false, default: {} }),
  provision({ log, blocks, jobs }) {
    let made = false;
    blocks.on({
      name: 'notes',
      version: 1,
      chains: ['main'],
      async apply(tx, block) {
        log.info({ slot: block.slot }, 'a block was seen');
        if (made) return;
        await jobs.add(tx, [{ kind: 'notes.run', key: 'k', group: 'g', payload: {} }]);
        tx.onCommit(() => { made = true; });
      },
      async revert() {},
    });
    jobs.define({
      kind: 'notes.run',
      summary: 'a job',
      concurrency: 1,
      timeoutMs: 5000,
      async run() {
        await new Promise((resolve) => setTimeout(resolve, 1));
        log.info({}, 'a job ran');
        return { kind: 'done' };
      },
    });
  },
});
`;

/** Writes the plugin below `dir`; returns the path for the list of plugins. */
export function writeNotesPlugin(dir: string): string {
  const folder = join(dir, 'notes');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'index.js'), SOURCE);
  return folder;
}
