import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runCommand } from '../../test/helpers/daemon.ts';

test('the key of the prover and secrets in its address are hidden', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-secrets-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const config = join(folder, 'parhelion.yaml');
  const compression = { proverUrl: 'https://user:hidden@prover.example/hidden?key=hidden', proverApiKey: 'hidden' };
  writeFileSync(config, JSON.stringify({ dataDir: folder, upstream: { urls: ['http://127.0.0.1:9'] }, compression }));
  for (const format of [[], ['--json']]) {
    const { out, err } = await runCommand(['dump-config', '--config', config, ...format]);
    assert.match(out, /https:\/\/prover\.example\/\*\*\*/, err);
    assert.doesNotMatch(out + err, /hidden/);
  }
  writeFileSync(config, JSON.stringify({ compression: { ...compression, proverUrl: 'ftp://hidden' } }));
  const { code, out, err } = await runCommand(['check-config', '--config', config]);
  assert.equal(code, 78);
  assert.match(err + out, /compression\.proverUrl/);
  assert.doesNotMatch(err + out, /hidden/);
});
