/** `http.processes`: several processes answer as one. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { BOOTSTRAP_KEY, type BuiltDaemon } from '../../helpers/built-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { eventually, logLines, metricsOf, readinessOf, sampleOf, startRolesBed } from './harness.ts';

const TOKEN = 'operator-token-of-the-test';
/** Calls of each process, many more than the rate lets pass. */
const CALLS = 30;
const RATE = 4;

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** One connection that stays with one process. */
interface Line {
  readonly role: string;
  ask(method: string, path: string, options?: { readonly key?: string; readonly body?: unknown }): Promise<Answer>;
  /** Resolves when the last request has left. */
  sent(): Promise<unknown>;
}

function openLine(t: TestContext, api: string): Omit<Line, 'role'> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, keepAliveMsecs: 1_000 });
  t.after(() => agent.destroy());
  let left: Promise<unknown> = Promise.resolve();
  return {
    sent: () => left,
    ask: (method, path, { key, body } = {}) =>
      new Promise((resolve, reject) => {
        const headers = { 'content-type': 'application/json', ...(key === undefined ? {} : { 'x-api-key': key }) };
        const sent = request(`${api}${path}`, { agent, method, headers }, (response) => {
          const { statusCode: status = 0, headers: given } = response;
          text(response).then((read) => resolve({ status, body: read, headers: given }), reject);
        });
        sent.on('error', reject);
        left = once(sent, 'finish');
        left.catch(() => undefined);
        sent.end(body === undefined ? undefined : JSON.stringify(body));
      }),
  };
}

type Processes = Pick<BuiltDaemon, 'child' | 'output'>;

/** The process that has this role now, other than one that has ended. Its lines in the log may come after those of the main process. */
async function pidOf({ child, output }: Processes, role: string, ended: number | null = null): Promise<number> {
  let pid: unknown = child.pid;
  await eventually(`${role} is in the log`, () => {
    if (role !== 'api') pid = logLines({ output }).findLast((line) => line['role'] === role)?.['pid'];
    return pid !== undefined && pid !== ended;
  });
  return Number(pid);
}

/** A connection to each of the processes. The others stand still while one accepts: the system gives it to whoever comes first. */
async function openLines(
  t: TestContext,
  daemon: Processes,
  api: string,
  roles: readonly string[],
): Promise<readonly Line[]> {
  const lines: Line[] = [];
  for (const role of roles) {
    const others = await Promise.all(roles.filter((other) => other !== role).map((other) => pidOf(daemon, other)));
    let line = openLine(t, api);
    await eventually(`${role} accepts`, async () => {
      line = openLine(t, api);
      for (const pid of others) process.kill(pid, 'SIGSTOP');
      const { headers } = await line.ask('GET', '/docs').finally(() => {
        for (const pid of others) process.kill(pid, 'SIGCONT');
      });
      let by: unknown;
      await eventually('the request is in the log', () => {
        by = logLines(daemon).findLast(({ requestId }) => requestId === headers['x-request-id'])?.['role'];
        return by !== undefined;
      });
      return by === role;
    });
    lines.push({ role, ...line });
  }
  return lines;
}

async function cli(daemon: DaemonProcess, ...args: string[]): Promise<Record<string, string>> {
  const { code, out, err } = await runCommand([...args, '--json', '--config', daemon.configFile]);
  assert.equal(code, 0, err);
  return JSON.parse(out) as Record<string, string>;
}

async function logIn({ adminUrl }: DaemonProcess) {
  const api = `${adminUrl}/dashboard/api`;
  const response = await fetch(`${api}/login`, { method: 'POST', body: JSON.stringify({ token: TOKEN }) });
  assert.equal(response.status, 200, await response.clone().text());
  const cookie = response.headers.get('set-cookie')?.split(';')[0] ?? '';
  const { csrfToken } = (await response.json()) as { csrfToken: string };
  return async (method: string, path: string, body?: object) => {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const given = await fetch(`${api}${path}`, {
      method,
      ...init,
      headers: { cookie, 'x-csrf-token': csrfToken, 'content-type': 'application/json' },
    });
    assert.ok(given.ok, `${method} ${path}: ${given.status} ${await given.clone().text()}`);
    return (await given.json().catch(() => ({}))) as Record<string, string | undefined>;
  };
}

const balance = (id: number) => ({ jsonrpc: '2.0', id, method: 'getBalance', params: ['1'] });

test('three processes are one daemon: keys, rate, credits, requests, websockets', { timeout: 180_000 }, async (t) => {
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  upstream.on('getBalance', { result: '{"context":{"slot":1},"value":1}' });
  const daemon = await startDaemonProcess({
    chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl },
    config: {
      http: { processes: 3 },
      follow: { enabled: false },
      log: { level: 'info', format: 'json' },
      plugins: ['access', 'dashboard', 'parsed', 'proxy', 'webhooks'],
      dashboard: { operatorToken: TOKEN },
    },
  });
  t.after(() => daemon.stop());
  const { apiUrl, adminUrl, key, projectId } = daemon;
  const lines = await openLines(t, daemon, apiUrl, ['api', 'api-2', 'api-3']);
  const ask = await logIn(daemon);
  const usage = async (line: Line, own = key, id = projectId) => {
    const { status, body } = await line.ask('GET', `/v0/admin/projects/${id}/usage`, { key: own });
    assert.equal(status, 200, body);
    return (JSON.parse(body) as { readonly creditsUsed: number }).creditsUsed;
  };

  await t.test('each call is counted once, and each process shows all of them at once', async () => {
    const before = await usage(lines[0] as Line);
    for (const [round, line] of lines.entries()) {
      const answers = await Promise.all(
        lines.flatMap((one) => Array.from({ length: 7 }, (_, id) => one.ask('POST', '/', { key, body: balance(id) }))),
      );
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
      assert.equal(await usage(line), before + (round + 1) * 21, line.role);
      // Five calls of the usage endpoint a second, by whichever process.
      await sleep(450);
    }
    const { requests } = await ask('GET', `/projects/${projectId}/requests`);
    assert.equal((requests as unknown as { rpc: string }[]).filter(({ rpc }) => rpc === 'getBalance').length, 63);
    const startedMs = performance.now();
    const all = await Promise.all(
      lines.flatMap((line) =>
        Array.from({ length: 10 }, () => line.ask('GET', `/v0/admin/projects/${projectId}/usage`, { key })),
      ),
    );
    const seconds = (performance.now() - startedMs) / 1_000;
    const passed = all.filter(({ status }) => status === 200).length;
    const most = 5 * (Math.floor(seconds) + 1);
    assert.ok(passed <= most, `${passed} of 30 calls of the usage endpoint in ${seconds} s, at most ${most}`);
  });

  await t.test('a project has one rate', async () => {
    const { id: project = '' } = await cli(daemon, 'projects', 'create', '--name', 'slow');
    await cli(
      daemon,
      'projects',
      'set-plan',
      '--id',
      project,
      '--override',
      JSON.stringify({ ratePerSecond: { rpc: RATE } }),
    );
    const { key: slow = '' } = await cli(daemon, 'keys', 'create', '--project', project);
    const startedMs = performance.now();
    const answers = await Promise.all(
      lines.flatMap((line) =>
        Array.from({ length: CALLS }, (_, id) => line.ask('POST', '/', { key: slow, body: balance(id) })),
      ),
    );
    const seconds = (performance.now() - startedMs) / 1_000;
    const passed = answers.filter(({ status }) => status === 200).length;
    // A bucket holds two seconds.
    const most = Math.floor(RATE * (2 + seconds));
    assert.ok(passed >= RATE * 2 && passed <= most, `${passed} of ${answers.length} in ${seconds} s, at most ${most}`);
    const refused = answers.find(({ status }) => status === 429);
    assert.equal(refused?.headers['x-ratelimit-limit'], String(RATE));
    assert.equal(refused?.headers['retry-after'], '1');
  });

  await t.test('a project has one sum of credits, also after it gets more', async () => {
    const { id: project = '' } = await cli(daemon, 'projects', 'create', '--name', 'poor');
    const { key: poor = '' } = await cli(daemon, 'keys', 'create', '--project', project);
    let answered = 0;
    for (const creditsLimit of [60, 75, 100]) {
      const override = JSON.stringify({ creditsLimit, ratePerSecond: { rpc: 10_000 } });
      await cli(daemon, 'projects', 'set-plan', '--id', project, '--override', override);
      // A process that knew no credits asks for some again within a second.
      await eventually('all credits are used', async () => {
        const answers = await Promise.all(
          lines.flatMap((line) =>
            Array.from({ length: CALLS }, (_, id) => line.ask('POST', '/', { key: poor, body: balance(id) })),
          ),
        );
        answered += answers.filter(({ status }) => status === 200).length;
        for (const { status, body } of answers) assert.ok(status === 200 || status === 429, body);
        assert.ok(answered <= creditsLimit + lines.length - 1, `${answered} answers for ${creditsLimit} credits`);
        return answered >= creditsLimit;
      });
    }
  });

  await t.test('random writes and reads over random processes answer as one process would', async () => {
    const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 32));
    const random = createSfc32(seed);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random.float() * from.length)] as T;
    const keys = new Map<string, { readonly key: string; isRevoked: boolean; isLimited: boolean }>();
    const hooks = new Map<string, string>();
    const context = (what: string) => `seed ${seed}: ${what}`;
    for (let step = 0; step < 60; step += 1) {
      const what = pick([
        'create key',
        'revoke key',
        'limit key',
        'use key',
        'create hook',
        'edit hook',
        'delete hook',
      ]);
      const [id, known] = pick([...keys, ['', undefined] as const]);
      const hook = pick([...hooks.keys(), '']);
      if (what === 'create key') {
        const made = await ask('POST', `/projects/${projectId}/keys`, { name: `k${step}` });
        keys.set(made['id'] ?? '', { key: made['key'] ?? '', isRevoked: false, isLimited: false });
      } else if (what === 'revoke key' && known !== undefined) {
        await ask('POST', `/projects/${projectId}/keys/${id}/revoke`, {});
        known.isRevoked = true;
      } else if (what === 'limit key' && known?.isRevoked === false) {
        known.isLimited = random.float() < 0.5;
        const permissions = known.isLimited ? ['webhooks'] : null;
        await ask('PUT', `/projects/${projectId}/keys/${id}/limits`, { permissions });
      } else if (what === 'create hook') {
        const webhook = { webhookURL: `https://example.com/${step}`, transactionTypes: ['ANY'], webhookType: 'raw' };
        const body = { ...webhook, accountAddresses: ['11111111111111111111111111111112'] };
        const made = await pick(lines).ask('POST', '/v0/webhooks', { key, body });
        assert.equal(made.status, 200, context(made.body));
        hooks.set((JSON.parse(made.body) as { webhookID: string }).webhookID, webhook.webhookURL);
      } else if (what === 'edit hook' && hook !== '') {
        const webhookURL = `https://example.com/edited/${step}`;
        const edited = await pick(lines).ask('PUT', `/v0/webhooks/${hook}`, { key, body: { webhookURL } });
        assert.equal(edited.status, 200, context(edited.body));
        hooks.set(hook, webhookURL);
      } else if (what === 'delete hook' && hook !== '') {
        assert.equal((await pick(lines).ask('DELETE', `/v0/webhooks/${hook}`, { key })).status, 200);
        hooks.delete(hook);
      }
      for (const line of lines) {
        const listed = await line.ask('GET', '/v0/webhooks', { key });
        const urls = (JSON.parse(listed.body) as { webhookURL: string }[]).map(({ webhookURL }) => webhookURL);
        assert.deepEqual(urls.sort(), [...hooks.values()].sort(), context(`${what} as ${line.role} sees it`));
        if (known === undefined) continue;
        const { status } = await line.ask('POST', '/', { key: known.key, body: balance(step) });
        const expected = known.isRevoked ? 401 : known.isLimited ? 403 : 200;
        assert.equal(status, expected, context(`${what}: a key as ${line.role} sees it`));
      }
    }
  });

  await t.test('websockets work whichever process accepts them', async () => {
    for (let number = 0; number < 150; number += 1) {
      const socket = new WebSocket(`${apiUrl.replace('http', 'ws')}/?api-key=${key}`);
      await once(socket, 'open');
      socket.send(JSON.stringify(balance(number)));
      const [message] = (await once(socket, 'message')) as [Buffer];
      assert.equal((JSON.parse(String(message)) as { id: number }).id, number);
      const closed = once(socket, 'close');
      socket.close(1000);
      assert.equal((await closed)[0], 1000);
    }
    const inSecond = async () => sampleOf(await metricsOf(adminUrl), 'parhelion_http_upgraded_sockets{role="api-2"}');
    await eventually('no websocket is in the second process', async () => (await inSecond()) === 0);
  });
});

test('on PostgreSQL: deliveries, reload, the death of a process, and the end', {
  skip: (await chainMissing()) ?? false,
  timeout: 180_000,
}, async (t) => {
  const { url: store } = await postgresDatabase(t);
  const bed = await startRolesBed(
    t,
    { http: { port: 0, processes: 2 }, log: { level: 'info', format: 'json' } },
    store,
  );
  const daemon = bed.start();
  const { api, admin } = await daemon.ready();
  const lines = await openLines(t, daemon, api, ['api', 'api-2']);
  for (const [place, line] of lines.entries()) {
    const webhook = { webhookURL: bed.receiver.url, transactionTypes: ['ANY'], webhookType: 'raw' };
    const body = { ...webhook, accountAddresses: [bed.payments.addresses[place]] };
    const made = await line.ask('POST', '/v0/webhooks', { key: BOOTSTRAP_KEY, body });
    assert.equal(made.status, 200, made.body);
    const before = bed.receiver.received.length;
    await eventually('a delivery', () => bed.receiver.received.length > before, daemon.output);
  }
  await bed.payments.stop();

  for (const name of ['role api-2', 'api-2: probe'])
    await eventually(name, async () => (await readinessOf(admin)).checks.find((one) => one.name === name)?.ok === true);
  const heads = (await metricsOf(admin)).split('\n').filter((line) => line.startsWith('# TYPE '));
  assert.equal(new Set(heads).size, heads.length, 'each metric has one head');

  const setTo = async (ownSetting: number) => {
    const base = JSON.parse(readFileSync(bed.configFile, 'utf8')) as { readonly probe: object };
    writeFileSync(bed.configFile, JSON.stringify({ ...base, probe: { ...base.probe, ownSetting } }));
    daemon.child.kill('SIGHUP');
    const shown = async (labels: string) => sampleOf(await metricsOf(admin), `parhelion_probe_own_setting${labels}`);
    for (const labels of ['', '{role="api-2"}'])
      await eventually('the reload', async () => (await shown(labels)) === ownSetting, daemon.output);
  };
  await setTo(7);

  const died = await pidOf(daemon, 'api-2');
  process.kill(died, 'SIGKILL');
  const restarted = () => /the process of the API serves again/.test(daemon.output());
  let answered = 0;
  while (!restarted()) {
    // Connections that the dead process had are gone; new ones are answered by the others.
    assert.equal((await fetch(`${api}/docs`, { headers: { connection: 'close' } })).status, 200);
    answered += 1;
  }
  assert.ok(answered > 0);
  await eventually('ready again', async () => (await readinessOf(admin)).ready, daemon.output);
  assert.equal(sampleOf(await metricsOf(admin), 'parhelion_roles_restarts_total{role="api-2"}'), 1);
  const own = async () => sampleOf(await metricsOf(admin), 'parhelion_probe_own_setting{role="api-2"}');
  await eventually('the reloaded value', async () => (await own()) === 7);
  await pidOf(daemon, 'api-2', died);
  const again = await openLines(t, daemon, api, ['api', 'api-2']);

  // Requests that run when the daemon drains are answered, in each process.
  const slow = again.map((line) => line.ask('GET', '/docs'));
  await Promise.all(again.map(({ sent }) => sent()));
  daemon.child.kill('SIGTERM');
  for (const { status } of await Promise.all(slow)) assert.ok(status === 200 || status === 503);
  assert.equal(await daemon.ended, 0, daemon.output());
});
