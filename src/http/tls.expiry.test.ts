import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makeCertificate, opensslMissing } from '../../test/helpers/certificates.ts';
import { followConfig } from '../../test/helpers/follow-config.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { certificateFindings } from '../cli/doctor/host.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { createHttpMeter } from './meter.ts';
import { createListenerTls } from './tls.ts';

const DAY_MS = 86_400_000;

describe('certificates and time', { skip: opensslMissing() ?? false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-expiry-'));
  const tls = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') };
  const install = (days: number) => {
    const { cert, key } = makeCertificate({ days });
    writeFileSync(tls.certFile, cert);
    writeFileSync(tls.keyFile, key);
  };
  before(() => install(30));
  after(() => rmSync(folder, { recursive: true, force: true }));

  const front = (startMs: number) => {
    const log = createMemoryLog();
    const defaults = followConfig();
    const core = { ...defaults, http: { ...defaults.http, tls } };
    const registry = createMetricsRegistry();
    const meter = createHttpMeter(registry.scope('http'));
    const expiry = registry.scope('tls').gauge('expiry_seconds', 'expiry', ['listener']);
    return {
      core,
      log,
      registry,
      expiry,
      made: createListenerTls({ section: 'http', core, expiry, clock: createManualClock(startMs), log }, meter),
    };
  };

  test('a start accepts an expired one with a warning; a reload keeps the current one', () => {
    const { core, log, made } = front(Date.now() + 40 * DAY_MS);
    made.prepare(core)();
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ['warn', 'info'],
    );
    made.prepare(core)();
    assert.equal(log.lines.filter(({ level }) => level === 'info').length, 1, 'the same certificate is told once');
  });

  test('a reload refuses a new one that has expired; the expiry of the served one is a metric', async () => {
    const { core, made, registry } = front(Date.now() + 40 * DAY_MS);
    install(90);
    made.prepare(core)();
    const { validTo } = new X509Certificate(readFileSync(tls.certFile));
    const expiry = `parhelion_tls_expiry_seconds{listener="http"} ${Date.parse(validTo) / 1_000}`;
    assert.ok((await registry.text()).includes(expiry), expiry);
    install(30);
    assert.throws(() => made.prepare(core), { code: 'TLS_INVALID', message: /expired/ });
    install(60);
    made.prepare(core)();
  });

  test('TLS is not switched on or off by a reload', () => {
    const { core, made, expiry } = front(Date.now());
    made.prepare(core)();
    const plain = { ...core, http: { ...core.http, tls: { certFile: null, keyFile: null } } };
    assert.throws(() => made.prepare(plain), { code: 'PLUGIN_RELOAD_REFUSED' });
    const log = createMemoryLog();
    const meter = createHttpMeter(createMetricsRegistry().scope('http'));
    const off = createListenerTls({ section: 'http', core: plain, expiry, clock: createManualClock(), log }, meter);
    assert.equal(off.makeServer, undefined);
    off.prepare(plain)();
    assert.throws(() => off.prepare(core), { code: 'PLUGIN_RELOAD_REFUSED' });
  });

  test('doctor warns in the last fourteen days, and fails before and after the certificate is valid', () => {
    install(30);
    const now = Date.now();
    const defaults = followConfig();
    const core = { ...defaults, http: { ...defaults.http, tls } };
    const level = (days: number) => certificateFindings(core, now + days * DAY_MS)[0]?.level;
    assert.deepEqual([0, 15, 17, 29, 31, -2].map(level), ['ok', 'ok', 'warn', 'warn', 'fail', 'fail']);
    assert.deepEqual(certificateFindings(defaults, now), []);
    const both = certificateFindings({ ...core, admin: { ...defaults.admin, tls } }, now);
    assert.deepEqual(
      both.map(({ check, level }) => [check, level]),
      [
        ['certificate', 'ok'],
        ['admin certificate', 'ok'],
      ],
    );
  });
});
