/**
 * Inside a root of its own, as root: starts the command of the image as a container would, and uses it from the host's side. image.json beside
 * it says how; image.long.test.ts makes the root.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { startReceiver, until, use } from './smoke.mjs';

const scene = JSON.parse(readFileSync(new URL('image.json', import.meta.url), 'utf8'));
const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/home/node', ...scene.env };
const USER = [
  '--reuid=1000',
  '--regid=1000',
  '--clear-groups',
  '--inh-caps=-all',
  '--bounding-set=-all',
  '--no-new-privs',
];
/** The published ports. */
const ADDRESSES = { api: 'http://127.0.0.1:8787', admin: 'http://127.0.0.1:8790' };
const options = { cwd: scene.folder, env };
const run = (command) => spawnSync('setpriv', [...USER, ...command], { ...options, encoding: 'utf8' });

async function start() {
  const began = performance.now();
  const child = spawn('setpriv', [...USER, ...scene.command], { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  const gone = once(child, 'exit');
  const isHealthy = () => {
    assert.equal(child.exitCode, null, output);
    return run(scene.health).status === 0;
  };
  await until('health', isHealthy, (found) => found);
  await until(
    'the addresses',
    () => output.includes(' API  '),
    (found) => found,
  );
  const seconds = `${((performance.now() - began) / 1_000).toFixed(1)} s`;
  const stop = async () => {
    child.kill('SIGTERM');
    const [code] = await gone;
    assert.equal(code, 0, output);
  };
  return { output: () => output, seconds, stop };
}

/** The first answer to a key. */
async function slotFor(key) {
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}';
  const response = await fetch(`${ADDRESSES.api}/?api-key=${key}`, { method: 'POST', body });
  const { result } = await response.json();
  assert.equal(typeof result, 'number');
  return result;
}

assert.throws(() => writeFileSync('/opt/parhelion/new', ''), { code: 'EROFS' });
const first = await start();
assert.match(first.output(), /LOCAL CHAIN/);
const key = /API key +(\S+) /.exec(first.output())[1];
assert.match(first.output(), /Operator +op_\S+ /);
const slot = await slotFor(key);
const receiver = await startReceiver();
await use(ADDRESSES, key, receiver);
receiver.close();
const listed = run(['parhelion', 'projects', 'list']);
assert.equal(listed.status, 0, listed.stderr);
await first.stop();
console.log(`first start: healthy after ${first.seconds}, answered, delivered`);

const second = await start();
assert.match(second.output(), /The chain of your last start goes on/);
assert.ok((await slotFor(key)) > slot);
await second.stop();
console.log(`second start: healthy after ${second.seconds}, with chain and key of the first`);
process.exit(0);
