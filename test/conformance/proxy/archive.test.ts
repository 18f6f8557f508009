/** Calls about data that a node may have pruned go to the upstream with the whole history; others stay where they were. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { type Behaviour, startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { call, post } from './rpc-client.ts';

const TIP = 300_000_000;
const OLD = 1_000;
const METHODS = ['getBlock', 'getBlockTime', 'getTransaction', 'getBlocks', 'getSignaturesForAddress', 'getBalance'];

let node: TestUpstream;
let archive: TestUpstream;
let daemon: DaemonInProcess;
before(async () => {
  [node, archive] = await Promise.all([startUpstream({ slot: TIP }), startUpstream({ slot: TIP })]);
  const urls = [{ url: node.url }, { url: archive.url, archive: true }];
  daemon = await startDaemon({
    config: {
      plugins: ['access', 'proxy'],
      follow: { enabled: false },
      upstream: { urls, healthIntervalMs: 3_600_000, coolDownMs: 1 },
      proxy: { cache: { enabled: false } },
    },
  });
});
after(async () => {
  await daemon.stop();
  await Promise.all([node.stop(), archive.stop()]);
});
beforeEach(() => {
  for (const method of METHODS) {
    node.on(method, { result: '"node"' });
    archive.on(method, { result: '"archive"' });
  }
});

const failing = (code: number, message = String(code)): Behaviour => ({
  chunks: [`{"jsonrpc":"2.0","error":{"code":${code},"message":"${message}"},"id":1}`],
});

/** The result, or the code of the error, and how often each upstream was asked; after a failure it is also asked which chain it has. */
async function ask(method: string, params: readonly unknown[]) {
  const count = () => [node, archive].map((upstream) => upstream.callsOf(method).length);
  const before = count();
  const { status, text } = await post({ daemon }, call(method, params));
  assert.equal(status, 200);
  const { result, error } = JSON.parse(text) as { result?: unknown; error?: { code: number } };
  return { said: error?.code ?? result, asked: count().map((one, at) => one - before[at]!) };
}

test('an answer that reports pruned data is requested again from the archive', async () => {
  for (const code of [-32001, -32007, -32009, -32011]) {
    node.on('getBlock', failing(code));
    // Newer each time: older slots are known to be pruned by then.
    assert.deepEqual(await ask('getBlock', [OLD - code]), { said: 'archive', asked: [1, 1] }, `${code}`);
  }
  node.on('getTransaction', { result: 'null' });
  assert.deepEqual(await ask('getTransaction', ['signature']), { said: 'archive', asked: [1, 1] });
});

test('a refusal for want of history moves a call to the archive before other nodes, whatever its code', async (t) => {
  const other = await startUpstream({ slot: TIP });
  const urls = [{ url: node.url }, { url: other.url }, { url: archive.url, archive: true }];
  const three = await startDaemon({
    config: {
      plugins: ['access', 'proxy'],
      follow: { enabled: false },
      upstream: { urls, healthIntervalMs: 3_600_000, coolDownMs: 1 },
      proxy: { cache: { enabled: false }, stickyMs: 0 },
    },
  });
  t.after(async () => {
    await three.stop();
    await other.stop();
  });
  for (const [code, message] of [
    [-32011, 'x'],
    [-32008, 'x'],
    [-32000, 'Transaction history is not available from this node'],
    [-32603, 'x'],
  ] as const) {
    node.on('getTransaction', failing(code, message));
    other.on('getTransaction', { result: '"other"' });
    const { text } = await post({ daemon: three }, call('getTransaction', ['signature']));
    const isOfHistory = code !== -32603;
    assert.equal((JSON.parse(text) as { result: string }).result, isOfHistory ? 'archive' : 'other', `${code}`);
  }
});

test('other errors and other empty answers are forwarded', async () => {
  node.on('getBlock', failing(-32015));
  assert.deepEqual(await ask('getBlock', [TIP]), { said: -32015, asked: [1, 0] });
  node.on('getBalance', { result: 'null' });
  assert.deepEqual(await ask('getBalance', ['address']), { said: null, asked: [1, 0] });
});

test('slots that the others have pruned are requested from the archive first', async () => {
  node.on('getBlockTime', failing(-32001));
  assert.deepEqual(await ask('getBlockTime', [90_000]), { said: 'archive', asked: [1, 1] });
  node.on('getBlockTime', { result: '"node"' });
  assert.deepEqual(await ask('getBlockTime', [90_000]), { said: 'archive', asked: [0, 1] });
  assert.deepEqual(await ask('getBlock', [89_999, { encoding: 'json' }]), { said: 'archive', asked: [0, 1] });
  assert.deepEqual(await ask('getBlock', [90_001]), { said: 'node', asked: [1, 0] });
});

test('lists that a node would truncate silently come from the archive, new ones from the previous upstream', async () => {
  assert.deepEqual(await ask('getSignaturesForAddress', ['address']), { said: 'archive', asked: [0, 1] });
  assert.deepEqual(await ask('getBlocks', [OLD, OLD + 10]), { said: 'archive', asked: [0, 1] });
  assert.deepEqual(await ask('getBlocks', [TIP - 100]), { said: 'node', asked: [1, 0] });
});

test('a caller whose call went to the archive keeps its upstream for other calls', async () => {
  await ask('getSignaturesForAddress', ['address']);
  assert.deepEqual(await ask('getBalance', ['address']), { said: 'node', asked: [1, 0] });
});

test('when the archive does not answer, the others do', async () => {
  archive.on('getSignaturesForAddress', { status: 502, chunks: ['<html>'] });
  assert.deepEqual(await ask('getSignaturesForAddress', ['address']), { said: 'node', asked: [1, 1] });
  node.on('getTransaction', { result: 'null' });
  archive.on('getTransaction', { fault: 'cut', body: '{"jsonrpc":' });
  assert.deepEqual(await ask('getTransaction', ['signature']), { said: null, asked: [1, 1] });
});
