import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, fetch } from 'undici';
import { makeCertificate, opensslMissing, type TestCertificate } from '../../helpers/certificates.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { rawRequest } from '../../helpers/raw-http.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const TOKEN = 'operator-token-of-the-test';

describe('TLS on the admin listener', { skip: opensslMissing() ?? false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-admin-tls-'));
  const certFile = join(folder, 'cert.pem');
  const keyFile = join(folder, 'key.pem');
  let certificate: TestCertificate;
  let daemon: DaemonProcess;
  let upstream: TestUpstream;

  const install = (next: TestCertificate) => {
    writeFileSync(certFile, next.cert);
    writeFileSync(keyFile, next.key, { mode: 0o600 });
  };
  const ask = async (path: string, ca: string, init: { method?: string; body?: string } = {}) => {
    const dispatcher = new Agent({ connect: { ca } });
    try {
      const answer = await fetch(daemon.adminUrl + path, { ...init, dispatcher });
      // Unread, it would hold the connection.
      await answer.text();
      return answer;
    } finally {
      await dispatcher.close();
    }
  };
  const trusts = (ca: string) =>
    ask('/healthz', ca).then(
      ({ status }) => status === 200,
      () => false,
    );

  before(async () => {
    certificate = makeCertificate();
    install(certificate);
    upstream = await startUpstream();
    daemon = await startDaemonProcess({
      chain: { rpcUrl: upstream.url },
      config: {
        plugins: ['access', 'dashboard', 'proxy'],
        follow: { enabled: false },
        admin: { port: 0, tls: { certFile, keyFile } },
        dashboard: { operatorToken: TOKEN },
        log: { level: 'info', format: 'json' },
      },
    });
  });
  after(async () => {
    await daemon?.kill();
    await upstream?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('operators come by https alone, the API stays as it is', async () => {
    assert.match(daemon.adminUrl, /^https:/);
    assert.match(daemon.apiUrl, /^http:/);
    assert.equal((await ask('/readyz', certificate.cert)).status, 200);
    const plain = await rawRequest(
      Number(new URL(daemon.adminUrl).port),
      'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n',
    );
    assert.equal(plain.status, 400);
    assert.ok(!plain.body.includes('parhelion_'), 'nothing is told in the clear');
    assert.equal((await globalThis.fetch(`${daemon.apiUrl}/openapi.json`)).status, 200);
  });

  test('the cookie of the dashboard goes over https only', async () => {
    const body = JSON.stringify({ token: TOKEN });
    const answer = await ask('/dashboard/api/login', certificate.cert, { method: 'POST', body });
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get('set-cookie') ?? '', /; Secure/);
  });

  test('commands find the daemon behind it', async () => {
    const args = ['--config', daemon.configFile];
    for (const command of [['healthcheck'], ['healthcheck', '--ready'], ['status', '--json']]) {
      const { code, err } = await runCommand([...command, ...args]);
      assert.equal(code, 0, `${command.join(' ')}: ${err}`);
    }
    const { out } = await runCommand(['doctor', '--json', ...args]);
    const { findings } = JSON.parse(out) as { findings: { check: string; level: string }[] };
    assert.equal(findings.find(({ check }) => check === 'admin certificate')?.level, 'ok');
  });

  test('SIGHUP takes another certificate, and refuses one that cannot be served', async () => {
    const next = makeCertificate();
    install(next);
    daemon.child.kill('SIGHUP');
    await eventually('the new certificate', () => trusts(next.cert));
    assert.equal(await trusts(certificate.cert), false);
    install({ cert: next.cert, key: certificate.key });
    const refused = await runCommand(['check-config', '--config', daemon.configFile]);
    assert.equal(refused.code, 78);
    assert.match(refused.err, /admin\.tls/);
    daemon.child.kill('SIGHUP');
    await eventually('the refusal', async () => daemon.output().includes('configuration not reloaded'));
    assert.ok(await trusts(next.cert));
    install(next);
  });

  test('a stop goes as ever', async () => {
    assert.equal(await daemon.stop(), 0);
  });
});

async function eventually(what: string, ask: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_200; tries++) {
    if (await ask()) return;
    await sleep(50);
  }
  assert.fail(`never: ${what}`);
}
