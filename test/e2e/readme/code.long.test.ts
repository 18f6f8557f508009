import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Keypair } from '@solana/web3.js';
import { parse } from 'yaml';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemon, startDaemonProcess } from '../../helpers/daemon.ts';
import { linkPackages } from '../../helpers/packages.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { commandsOf, docsBlock, readmeBlock, readmeText } from '../../helpers/readme.ts';
import { startReceiver } from '../../helpers/receiver.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const curl = spawnSync('curl', ['--version']).status === 0 ? null : 'curl is not installed';
const missing = (await chainMissing()) ?? curl;
if (missing !== null) console.error(`SKIPPED: ${missing}`);
const LOOPBACK = { webhooks: { allowCidrs: ['127.0.0.1/32'] } };

/** A folder with the packages of this project, as an application of someone would have them. */
function inFolder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-readme-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  linkPackages(dir);
  return dir;
}

async function node(args: readonly string[], cwd: string, env: Record<string, string>): Promise<string> {
  const child = spawn(process.execPath, args, { cwd, env: { PATH: process.env['PATH'], ...env } });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (out += chunk.toString()));
  const [code] = await once(child, 'exit');
  assert.equal(code, 0, out);
  return out;
}

test('first commands, and a delivery that the snippet verifies', { skip: missing ?? false }, async (t) => {
  const dir = inFolder(t);
  const chain = await startChain();
  t.after(() => chain.stop());
  const daemon = await startDaemon({ chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl }, config: LOOPBACK });
  t.after(() => daemon.stop());
  const receiver = await startReceiver();
  t.after(() => receiver.close());
  const watched = Keypair.generate().publicKey.toBase58();

  const answers: string[] = [];
  for (const command of commandsOf(readmeBlock('curl '))) {
    const real = command
      .replace('http://127.0.0.1:8787', daemon.apiUrl)
      .replace('http://127.0.0.1:9900', receiver.url)
      .replace('KEY', daemon.key)
      .replace('ADDRESS', watched);
    // Not spawnSync: the daemon that answers is in this process.
    const child = spawn('bash', ['-c', `${real} -s`]);
    let out = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    await once(child, 'close');
    answers.push(out);
  }
  assert.equal(answers[0], 'ok');
  assert.equal(typeof (JSON.parse(answers[1]!) as { result: unknown }).result, 'number', answers[1]);
  const { signingSecret } = JSON.parse(answers[2]!) as { signingSecret: string };
  assert.match(signingSecret, /^whsec_/, answers[2]);

  await chain.fund(watched, 1_000_000_000);
  const [delivery] = await receiver.waitFor(1);
  const { url, headers, body } = delivery!;
  assert.equal(url, '/hook');

  const [imported, ...statements] = docsBlock('standardwebhooks').trim().split('\n');
  const path = join(dir, 'receive.mjs');
  writeFileSync(
    path,
    `${imported}\nexport default (signingSecret, rawBody, request) => {\n${statements.join('\n')}\nreturn event;\n};\n`,
  );
  const { default: receive } = (await import(pathToFileURL(path).href)) as {
    default: (secret: string, rawBody: string, request: { headers: object }) => { meta: unknown; slot: number }[];
  };
  const rawBody = body.toString();
  const event = receive(signingSecret, rawBody, { headers });
  assert.ok(Array.isArray(event) && typeof event[0]!.slot === 'number', rawBody);
  assert.throws(() => receive(signingSecret, `${rawBody} `, { headers }), 'a changed body is not ours');
  assert.throws(() => receive(`whsec_${Buffer.alloc(32).toString('base64')}`, rawBody, { headers }));
});

test('the preload sends axios, websockets and the modules http and https there too, and nothing else', async (t) => {
  const dir = inFolder(t);
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  const daemon = await startDaemonProcess({
    config: LOOPBACK,
    chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl },
  });
  t.after(() => daemon.stop());
  writeFileSync(join(dir, 'shim.mjs'), docsBlock('new URL(process.env.PARHELION_BASE)'));
  writeFileSync(
    join(dir, 'app.mjs'),
    `import { once } from 'node:events';
    import http, { createServer } from 'node:http';
    import { get } from 'node:https';
    import { createHelius } from 'helius-sdk';
    import { Helius } from 'helius-sdk-v1';
    import WebSocket from 'ws';
    const done = [];
    const old = new Helius(process.env.KEY);
    const made = await old.createWebhook({ webhookURL: 'http://127.0.0.1:9900/hook', webhookType: 'raw',
      accountAddresses: ['11111111111111111111111111111111'], transactionTypes: [] });
    done.push((await old.getAllWebhooks()).length, await old.deleteWebhook(made.webhookID));
    done.push(await old.connection.getSlot());
    const socket = new WebSocket('wss://mainnet.helius-rpc.com/?api-key=' + process.env.KEY);
    await once(socket, 'open');
    socket.send('{"jsonrpc":"2.0","id":7,"method":"slotSubscribe"}');
    done.push(JSON.parse(String((await once(socket, 'message'))[0])).id);
    socket.close();
    const { ws } = createHelius({ apiKey: process.env.KEY });
    const stop = new AbortController();
    await (await ws.slotNotifications()).subscribe({ abortSignal: stop.signal });
    stop.abort();
    done.push('kit');
    const [ping] = await once(get('https://sender.helius-rpc.com/ping'), 'response');
    ping.resume();
    done.push(ping.statusCode);
    const own = createServer((_request, response) => response.end('own')).listen(0, '127.0.0.1');
    await once(own, 'listening');
    const [mine] = await once(http.get({ host: '127.0.0.1', port: own.address().port }), 'response');
    done.push(String((await once(mine, 'data'))[0]), await (await fetch('http://127.0.0.1:' + own.address().port)).text());
    console.log(JSON.stringify(done));
    process.exit();`,
  );
  const env = { PARHELION_BASE: daemon.apiUrl, KEY: daemon.key };
  const printed = await node(['--import', './shim.mjs', 'app.mjs'], dir, env);
  assert.deepEqual(JSON.parse(printed.trim().split('\n').at(-1)!), [1, true, 1_000, 7, 'kit', 200, 'own', 'own']);
});

test('the connection of web3.js', { skip: missing ?? false }, async (t) => {
  const dir = inFolder(t);
  const chain = await startChain();
  t.after(() => chain.stop());
  const daemon = await startDaemonProcess({ chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl } });
  t.after(() => daemon.stop());
  const snippet = /`(new Connection\('[^`]*)`/
    .exec(readmeText())![1]!
    .replace('http://127.0.0.1:8787', daemon.apiUrl)
    .replace('KEY', daemon.key);
  writeFileSync(
    join(dir, 'app.mjs'),
    `import { Connection } from '@solana/web3.js'; console.log(await (${snippet}).getGenesisHash());`,
  );
  assert.equal((await node(['app.mjs'], dir, {})).trim(), await chain.connection.getGenesisHash());
});

test('the plugin, with the configuration that stands below it', async (t) => {
  const dir = inFolder(t);
  mkdirSync(join(dir, 'hello'));
  writeFileSync(join(dir, 'hello', 'index.js'), docsBlock("id: 'hello'"));
  const config = parse(docsBlock('./hello]')) as Record<string, unknown>;
  const daemon = await startDaemonProcess({ dataDir: dir, config });
  t.after(() => daemon.stop());
  const ask = (name: string) => fetch(`${daemon.apiUrl}/v0/hello/${name}`, { headers: { 'x-api-key': daemon.key } });
  assert.deepEqual(await (await ask('ada')).json(), { text: 'good morning, ada' });
  const nobody = await ask('nobody');
  assert.deepEqual([nobody.status, await nobody.json()], [404, { error: 'nobody is not here', code: 404 }]);
  assert.equal((await fetch(`${daemon.apiUrl}/v0/hello/ada`)).status, 401);
  assert.match(await (await fetch(`${daemon.apiUrl}/openapi.json`)).text(), /A greeting/);
  const listed = await runCommand(['list-plugins', '--config', daemon.configFile]);
  assert.match(listed.out, /hello/);
  const wrong = await runCommand(['check-config', '--config', daemon.configFile], {
    env: { PARHELION_HELLO__GREETIN: 'x' },
  });
  assert.equal(wrong.code, 78);
  assert.match(wrong.err, /GREETIN: unknown key, did you mean hello\.greeting/);
});

test('the test of a plugin', { skip: missing ?? false }, async (t) => {
  // In a folder of this package, so that its name leads to it.
  const cache = join(findProjectRoot(), '.cache');
  mkdirSync(cache, { recursive: true });
  const dir = mkdtempSync(join(cache, 'docs-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  writeFileSync(join(dir, 'index.js'), docsBlock("id: 'hello'"));
  const lines = docsBlock('startTestDaemon').replace('/path/of/index.js', join(dir, 'index.js'));
  writeFileSync(
    join(dir, 'test.ts'),
    `${lines.replace('await daemon.stop();', '')}
    console.log(response.status, await response.text(), typeof result);
    await daemon.stop();`,
  );
  const printed = await node(['--conditions=parhelion-source', '--import', 'tsx', 'test.ts'], dir, {});
  assert.match(printed, /^200 \{"text":"hi, ada"\} number$/m);
});

test('the client library of compressed accounts asks the daemon', { skip: missing ?? false }, async (t) => {
  const dir = inFolder(t);
  const chain = await startChain();
  t.after(() => chain.stop());
  const daemon = await startDaemon({ chain, config: { follow: { startSlot: 1_000, pollMs: 20, enabled: true } } });
  t.after(() => daemon.stop());
  await chain.seal(1);
  const real = docsBlock('node, indexer and prover')
    .replace('http://127.0.0.1:8787', daemon.apiUrl)
    .replace('KEY', daemon.key);
  const lines = [
    "import { PublicKey } from '@solana/web3.js';",
    'const owner = PublicKey.default;',
    ...real.split('\n').filter((line) => !line.startsWith('const { items }')),
    'while ((await rpc.getIndexerSlot().catch(() => 0)) < 1_000);',
    ...real.split('\n').filter((line) => line.startsWith('const { items }')),
    'console.log(items.length, await rpc.getSlot());',
  ];
  writeFileSync(join(dir, 'read.mjs'), lines.join('\n'));
  assert.match(await node(['read.mjs'], dir, {}), /^0 1\d{3}$/m);
});
