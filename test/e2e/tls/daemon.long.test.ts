import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { Connection } from '@solana/web3.js';
import { Agent, fetch } from 'undici';
import WebSocket from 'ws';
import { makeCertificate, opensslMissing } from '../../helpers/certificates.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { rawRequest } from '../../helpers/raw-http.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const missing = opensslMissing();

describe('TLS that the daemon ends itself', { skip: missing ?? false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-tls-'));
  const certFile = join(folder, 'cert.pem');
  const keyFile = join(folder, 'key.pem');
  let first: ReturnType<typeof makeCertificate>;
  let daemon: DaemonProcess;
  let upstream: TestUpstream;

  const install = ({ cert, key }: { cert: string; key: string }) => {
    writeFileSync(certFile, cert);
    writeFileSync(keyFile, key, { mode: 0o600 });
  };
  const ports = () => [daemon.apiUrl, daemon.wsUrl].map((url) => Number(new URL(url).port));

  before(async () => {
    first = makeCertificate();
    install(first);
    upstream = await startUpstream();
    upstream.on('getSlot', { result: '77' });
    daemon = await startDaemonProcess({
      chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl },
      config: {
        plugins: ['access', 'proxy', 'sender'],
        follow: { enabled: false },
        http: { port: 0, tls: { certFile, keyFile } },
        log: { level: 'info', format: 'json' },
      },
    });
  });
  after(async () => {
    await daemon?.kill();
    await upstream?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('answers clients that trust the certificate on both ports, and says so in its addresses', async () => {
    assert.match(daemon.apiUrl, /^https:/);
    assert.match(daemon.wsUrl, /^wss:/);
    const dispatcher = new Agent({ connect: { ca: first.cert } });
    for (const port of ports()) {
      const answer = await fetch(`https://localhost:${port}/ping`, { dispatcher });
      assert.equal(answer.status, 200);
    }
    await dispatcher.close();
    await assert.rejects(
      globalThis.fetch(`${daemon.apiUrl}/ping`),
      'a client that does not know the authority refuses',
    );
  });

  test('serves web3.js and websockets', async () => {
    const dispatcher = new Agent({ connect: { ca: first.cert } });
    const trusting = (url: unknown, init: object) => fetch(url as string, { ...init, dispatcher });
    const options = { fetch: trusting as unknown as typeof globalThis.fetch };
    const connection = new Connection(`${daemon.apiUrl}/?api-key=${daemon.key}`, options);
    assert.equal(await connection.getSlot(), 77);
    await dispatcher.close();
    const socket = new WebSocket(`${daemon.wsUrl}/?api-key=${daemon.key}`, { ca: first.cert });
    await once(socket, 'open');
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: 'a', method: 'getSlot' }));
    const [message] = (await once(socket, 'message')) as [Buffer];
    assert.equal((JSON.parse(message.toString()) as { result: number }).result, 77);
    socket.terminate();
    const refused = new WebSocket(`${daemon.wsUrl}/?api-key=wrong`, { ca: first.cert });
    const [error] = (await once(refused, 'error')) as [Error];
    assert.match(error.message, /401/);
  });

  test('a request that offers another protocol is answered as if it did not', async () => {
    const socket = connectTls({ host: '127.0.0.1', port: ports()[0]!, ca: first.cert });
    await once(socket, 'secureConnect');
    socket.write('GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    socket.destroy();
  });

  test('plain HTTP on TLS ports gets an error that says so, and nothing else', async () => {
    for (const port of ports()) {
      const answer = await rawRequest(port, `GET /?api-key=${daemon.key} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      assert.equal(answer.status, 400);
      assert.match(answer.body, /HTTPS/);
      assert.equal(answer.headers['connection'], 'close');
    }
  });

  test('bytes that are no TLS, and old versions of it, end the connection without an answer in the clear', async () => {
    const [port] = ports();
    const socket = connectTcp({ host: '127.0.0.1', port: port! });
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', () => undefined);
    socket.write(Buffer.from('\x01\x02\x03 this is nothing at all, again and again\n'));
    await once(socket, 'close');
    assert.doesNotMatch(Buffer.concat(chunks).toString('latin1'), /HTTP/);
    // The client's own library would refuse such a version too.
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const client = connectTls({ host: '127.0.0.1', port: port!, ca: first.cert, ...old });
    const [error] = (await once(client, 'error')) as [NodeJS.ErrnoException];
    assert.match(`${error.code}`, /ALERT_PROTOCOL_VERSION/);
  });

  test('connections that never say a word do not hold up a request of others', async () => {
    const [port] = ports();
    const silent = Array.from({ length: 50 }, () => connectTcp({ host: '127.0.0.1', port: port! }));
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    const dispatcher = new Agent({ connect: { ca: first.cert } });
    assert.equal((await fetch(`${daemon.apiUrl}/ping`, { dispatcher })).status, 200);
    await dispatcher.close();
    for (const socket of silent) socket.destroy();
  });

  test('SIGHUP takes another certificate; one that cannot be served is refused and the old one stays', async () => {
    const second = makeCertificate();
    install(second);
    const [port] = ports();
    const open = connectTls({ host: '127.0.0.1', port: port!, ca: first.cert });
    await once(open, 'secureConnect');
    daemon.child.kill('SIGHUP');
    await untilTrusted(port!, second.cert);
    await untilTrusted(ports()[1]!, second.cert);
    open.write('GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    const [answer] = (await once(open, 'data')) as [Buffer];
    assert.match(answer.toString(), /^HTTP\/1\.1 200 /, 'connections that are open go on');
    open.destroy();

    const refusals = () => daemon.output().split('configuration not reloaded').length - 1;
    const broken: (readonly [string, { cert: string; key: string }])[] = [
      ['another key', { cert: second.cert, key: makeCertificate().key }],
      ['no certificate', { cert: 'nonsense', key: second.key }],
      ['half a key', { cert: second.cert, key: second.key.slice(0, 90) }],
      ['a passphrase', makeCertificate({ passphrase: 'secret-passphrase' })],
    ];
    for (const [what, files] of broken) {
      const before = refusals();
      install(files);
      daemon.child.kill('SIGHUP');
      await eventually(`refused: ${what}`, () => refusals() === before + 1);
      assert.ok(await trusts(port!, second.cert), what);
    }
    rmSync(keyFile);
    const before = refusals();
    daemon.child.kill('SIGHUP');
    await eventually('refused: no key file', () => refusals() === before + 1);
    assert.ok(await trusts(port!, second.cert));
    install(second);

    const text = daemon.output();
    for (const { key } of [second, ...broken.map(([, files]) => files)])
      for (const line of key.split('\n').filter((one) => one.length > 40))
        assert.ok(!text.includes(line), 'a private key is in the log');
  });

  test('check-config and doctor look at the files', async () => {
    const args = ['--config', daemon.configFile];
    assert.equal((await runCommand(['check-config', ...args])).code, 0);
    const good = await runCommand(['doctor', '--json', ...args]);
    assert.equal(findingOf(good.out)?.level, 'ok');
    install(makeCertificate({ days: 3 }));
    const soon = findingOf((await runCommand(['doctor', '--json', ...args])).out);
    assert.equal(soon?.level, 'warn');
    assert.match(soon?.detail ?? '', /expires in [23] days/);
    writeFileSync(keyFile, makeCertificate().key);
    const wrong = await runCommand(['check-config', '--json', ...args]);
    assert.equal(wrong.code, 78);
    assert.match(wrong.out, /is not that of the certificate/);
    rmSync(certFile);
    const gone = await runCommand(['check-config', ...args]);
    assert.equal(gone.code, 78);
    assert.match(gone.err, /cannot be read \(ENOENT\)/);
    const half = join(folder, 'half.json');
    const config = JSON.parse(readFileSync(daemon.configFile, 'utf8')) as { http: object };
    writeFileSync(half, JSON.stringify({ ...config, http: { port: 0, tls: { keyFile } } }));
    assert.match((await runCommand(['check-config', '--config', half])).err, /both certFile and keyFile/);
    install(first);
  });

  test('a stop does not wait for handshakes that nobody finishes', async () => {
    const silent = connectTcp({ host: '127.0.0.1', port: ports()[0]! });
    silent.on('error', () => undefined);
    await once(silent, 'connect');
    assert.equal(await daemon.stop(), 0);
  });
});

const findingOf = (out: string) =>
  (JSON.parse(out) as { findings: { check: string; level: string; detail: string }[] }).findings.find(
    ({ check }) => check === 'certificate',
  );

function trusts(port: number, ca: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTls({ host: '127.0.0.1', port, ca }, () => {
      resolve(true);
      socket.destroy();
    });
    socket.on('error', () => resolve(false));
  });
}

const untilTrusted = (port: number, ca: string) => eventually('the new certificate', () => trusts(port, ca));

async function eventually(what: string, ask: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 2_400; tries++) {
    if (await ask()) return;
    await sleep(25);
  }
  assert.fail(`never: ${what}`);
}
