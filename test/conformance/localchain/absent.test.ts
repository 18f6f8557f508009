import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

/** Makes every load of the engine fail, as in an install without optional packages. */
const refuse = `import Module from 'node:module';
const load = Module._load;
Module._load = function (name, ...rest) {
  if (name.startsWith('litesvm')) throw new Error('undefined symbol: made up for this test');
  return load.call(this, name, ...rest);
};`;

test('without its engine the chain says what to do, with the loader’s own words and exit code 78', () => {
  const entry = new URL('../../../packages/local-chain/index.ts', import.meta.url).href;
  const script = `const { startLocalChain } = await import(${JSON.stringify(entry)});
    await startLocalChain().catch(({ code, exitCode, message }) => console.log(JSON.stringify({ code, exitCode, message })));`;
  const run = spawnSync(
    process.execPath,
    [
      '--import',
      'tsx',
      '--import',
      `data:text/javascript,${encodeURIComponent(refuse)}`,
      '--input-type=module',
      '-e',
      script,
    ],
    { cwd: fileURLToPath(new URL('../../../', import.meta.url)), encoding: 'utf8' },
  );
  const { code, exitCode, message } = JSON.parse(run.stdout) as { code: string; exitCode: number; message: string };
  assert.deepEqual([code, exitCode], ['LOCAL_ENGINE_MISSING', 78]);
  for (const part of ['undefined symbol', 'npm install litesvm', '@1.5.0', 'SOLANA_RPC_URL'])
    assert.ok(message.includes(part), message);
});
