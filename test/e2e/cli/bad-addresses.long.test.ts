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
    assert.match(
      err,
      /CONFIG_INVALID: .*upstream\.urls\.1: expected an http or https address or a section, got "[^"]*\*\*\*"/,
    );
    assert.equal(/hush|\bat \//.test(err), false, err);
  }
  const sockets = [{ url: 'http://127.0.0.1:9', websocketUrl: 'http://127.0.0.1:9/hush' }, 'x'];
  const both = await check(JSON.stringify({ upstream: { urls: sockets } }));
  assert.match(both.err, /2 errors\n.*urls\.0\.websocketUrl: expected a ws or wss address.*\n.*urls\.1: expected/);
  const sender = { upstream: { urls: ['http://127.0.0.1:9'] }, sender: { urls: ['hush'] } };
  const { code, err } = await check(JSON.stringify(sender));
  assert.equal(code, 78, err);
  assert.equal(err.includes('hush'), false, err);
});

test('a certificate that cannot be served is told with file, line and key', async () => {
  const none = join(dir, 'none.pem');
  writeFileSync(none, 'hush');
  const config = (cert: string) =>
    `http:\n  tls:\n    keyFile: ${none}\n    certFile: ${cert}\nupstream: {urls: ["http://127.0.0.1:9"]}\n`;
  for (const [cert, text] of [
    [none, `${none} holds no PEM certificate`],
    [join(dir, 'absent.pem'), `${join(dir, 'absent.pem')} cannot be read (ENOENT)`],
  ] as const) {
    const { code, err } = await check(config(cert));
    assert.equal(code, 78, err);
    assert.ok(err.endsWith(`config.yaml has one error: line 4, http.tls.certFile: ${text}`), err);
  }
});

test('errors in addresses, networks, store and plugins are reported together, each with its place', async () => {
  const text = `
plugins: [acess, proxy, ./nowhere, 7, webhooks]
http:
  trustedProxies: [10.0.0.0/8, 10.0.0.0/]
  port: x
store: {url: "mysql://user:hush@db/x"}
upstream: {urls: ["hush"], devnet: {urls: ["ftp://hush"]}}
sender: {urls: ["hush"]}
webhooks: {allowCidrs: ["127.0.0.1/33"], maxAdresses: 1}
nowhere: {a: 1}
htp: {}
`;
  const { code, err } = await check(text);
  assert.equal(code, 78, err);
  for (const problem of [
    /line 2, plugins\.0: plugin "acess" is neither .* did you mean "access"\?/,
    /line 2, plugins\.2: plugin "\.\/nowhere" is neither/,
    /line 2, plugins\.3: expected text that is not empty or a section, got 7/,
    /line 4, http\.trustedProxies\.1: expected a network like 10\.0\.0\.0\/8 or fd00::\/8, got "10\.0\.0\.0\/"/,
    /line 5, http\.port: expected an integer/,
    /line 6, store\.url: expected an address that begins with sqlite:, postgres:\/\/ or postgresql:\/\/, got "mysql:\/\/\*\*\*"/,
    /line 7, upstream\.urls\.0: expected an http or https address/,
    /line 7, upstream\.devnet\.urls\.0: expected an http or https address/,
    /line 8, sender\.urls\.0: expected an http or https address/,
    /line 9, webhooks\.allowCidrs\.0: expected a network/,
    /line 9, webhooks\.maxAdresses: unknown key, did you mean "maxAddresses"\?/,
    /line 11, htp: unknown key, did you mean "http"\?/,
  ])
    assert.match(err, problem);
  assert.equal(/hush|nowhere: unknown/.test(err), false, err);
  assert.match(err, /12 errors/);
});

test('a missing upstream is one of the errors, and a broken plugin alone keeps its own code', async () => {
  const both = await check('http: {port: x}\n');
  assert.match(both.err, /2 errors\n.*http\.port.*\n.*no upstream is configured/);
  const alone = await check('plugins: [acess]\nupstream: {urls: ["http://127.0.0.1:9"]}\n');
  assert.match(alone.err, /^parhelion: PLUGIN_NOT_FOUND: plugin "acess"/);
  assert.equal(alone.code, 78);
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
