import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { runCli } from './run.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-bare-'));
after(() => rmSync(dir, { recursive: true, force: true }));

/** Without a local chain, `serve` refuses to start, which shows that it was what ran. */
const NO_CHAIN = { PARHELION_UPSTREAM__LOCAL__MODE: 'off', PARHELION_LOG__FORMAT: 'pretty' };

async function bare(env: Readonly<Record<string, string>>) {
  const printed: string[] = [];
  const write = (text: string) => void printed.push(text);
  const io = { env, cwd: dir, out: write, err: write, isTerminal: true, program: 'parhelion' };
  return { code: await runCli([], io), text: printed.join('\n') };
}

test('without a command and a configuration it is `serve`', async () => {
  const { code, text } = await bare({ ...NO_CHAIN, PARHELION_CONFIG: '' });
  assert.match(text, /no upstream is configured/);
  assert.equal(code, 78);
});

test('where there is a configuration, or in production, it is the help', async () => {
  const file = join(dir, 'parhelion.yaml');
  writeFileSync(file, 'upstream: { urls: [] }\n');
  for (const env of [{ PARHELION_CONFIG: file }, {}, { PARHELION_CONFIG: '', NODE_ENV: 'production' }]) {
    const { code, text } = await bare({ ...NO_CHAIN, ...env });
    assert.match(text, /^Usage: parhelion .*^ {2}serve /ms);
    assert.equal(code, 64);
  }
});
