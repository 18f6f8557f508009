import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { runCommand, startDaemon } from '../../helpers/daemon.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-addresses-'));
test.after(() => rmSync(dir, { recursive: true, force: true }));

async function check(content: string) {
  const file = join(dir, 'config.yaml');
  writeFileSync(file, content);
  return await runCommand(['check-config', '--config', file]);
}

test('an upstream address that cannot be used is named by its place, never quoted', async () => {
  for (const url of ['ftp://x/?k=hush', 'hush', 'http://hu sh/', '//hush', 'localhost:8899', 'http://[hush']) {
    const { code, err } = await check(JSON.stringify({ upstream: { urls: ['http://127.0.0.1:9', url] } }));
    assert.equal(code, 78, `${url}: ${err}`);
    assert.match(err, /CONFIG_INVALID: main upstreams: address 2 is not an http or https address/);
    assert.equal(/hush|\bat \//.test(err), false, err);
  }
  const sockets = [{ url: 'http://127.0.0.1:9', websocketUrl: 'http://127.0.0.1:9/hush' }, 'x'];
  const both = await check(JSON.stringify({ upstream: { urls: sockets } }));
  assert.match(both.err, /2 problems\n.*websocketUrl 1 is not a ws or wss address\n.*address 2/);
  const sender = { upstream: { urls: ['http://127.0.0.1:9'] }, sender: { urls: ['hush'] } };
  const { code, err } = await check(JSON.stringify(sender));
  assert.equal(code, 78, err);
  assert.equal(err.includes('hush'), false, err);
});

test('a syntax error says its line, also when it is the only one', async () => {
  const { code, err } = await check('http:\n  port: 1\n port: 2\n');
  assert.equal(code, 78);
  assert.match(err, /line 3/);
});

test('credentials in front of the host reach the upstream as a header', async (t) => {
  const seen: (string | undefined)[] = [];
  const node = createServer((request, response) => {
    seen.push(request.headers.authorization);
    response.setHeader('content-type', 'application/json').end('{"jsonrpc":"2.0","id":1,"result":"G"}');
  });
  await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    node.close();
    node.closeAllConnections();
  });
  const rpcUrl = `http://ada:p%40ss@127.0.0.1:${(node.address() as AddressInfo).port}`;
  const daemon = await startDaemon({ chain: { rpcUrl }, config: { follow: { enabled: false } } });
  t.after(() => daemon.stop());
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getGenesisHash' });
  const answer = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
  assert.equal(answer.status, 200);
  assert.ok(seen.length > 0);
  for (const header of seen) assert.equal(header, `Basic ${Buffer.from('ada:p@ss').toString('base64')}`);
});
