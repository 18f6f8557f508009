/** The conformance suite of the protocol against /mcp. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startDaemon } from '../../helpers/daemon.ts';
import { packageAbsent, packageFolder } from '../../helpers/packages.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const SUITE = '@modelcontextprotocol/conformance';
const folder = packageFolder(SUITE);
const skip = folder === null ? packageAbsent('the conformance suite', [SUITE]) : false;

/** What a server without the tools of the suite can show. */
const SCENARIOS = [
  'server-initialize',
  'logging-set-level',
  'ping',
  'completion-complete',
  'tools-list',
  'resources-list',
  'prompts-list',
  'dns-rebinding-protection',
];

test('every scenario passes that needs no tool made for the suite', { skip }, async (t) => {
  const upstream = await startUpstream();
  const daemon = await startDaemon({ chain: { rpcUrl: upstream.url }, config: { follow: { enabled: false } } });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const child = spawn(
    process.execPath,
    [
      '--import',
      new URL('../../helpers/glob-less-fs.mjs', import.meta.url).href,
      `${folder}/dist/index.js`,
      'server',
      '--url',
      `${daemon.apiUrl}/mcp?api-key=${daemon.key}`,
      '--expected-failures',
      fileURLToPath(new URL('demonstrations.yml', import.meta.url)),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const out = await text(child.stdout);
  // 1: a scenario failed that is not in the list, or one passed that is.
  assert.equal(await exited, 0, out.slice(-4_000));
  for (const scenario of SCENARIOS) assert.match(out, new RegExp(`✓ ${scenario}: \\d+ passed, 0 failed`));
});
