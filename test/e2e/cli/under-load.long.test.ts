import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const plugins = ['access', 'proxy', 'sender'];

async function bed(t: TestContext): Promise<{ daemon: DaemonProcess; upstream: TestUpstream }> {
  const upstream = await startUpstream();
  upstream.on('getEpochInfo', { result: '{"epoch":1}' });
  const config = { plugins, follow: { enabled: false }, log: { level: 'info', format: 'json' } };
  const daemon = await startDaemonProcess({ chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl }, config });
  t.after(async () => {
    await daemon.kill();
    await upstream.stop();
  });
  return { daemon, upstream };
}

const body = (method: string) => JSON.stringify({ jsonrpc: '2.0', id: 1, method });

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly connection: string | undefined;
}

/** Rejects with the code of the connection's error. */
function post(daemon: DaemonProcess, method: string, agent: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
    const sent = request(url, { method: 'POST', agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const { connection } = response.headers;
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString(), connection });
      });
    });
    sent.on('error', reject);
    sent.end(body(method));
  });
}

async function eventually(what: string, ask: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_200; tries++) {
    if (await ask()) return;
    await sleep(25);
  }
  assert.fail(`never: ${what}`);
}

test('reloads under load fail no request, whether they are taken or refused, and say which keys need a restart', async (t) => {
  const { daemon } = await bed(t);
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  t.after(() => agent.destroy());
  const answers = { good: 0, bad: [] as string[] };
  let running = true;
  const load = Array.from({ length: 8 }, async () => {
    while (running) {
      try {
        const { status, text } = await post(daemon, 'getEpochInfo', agent);
        if (status === 200 && text.includes('"epoch":1')) answers.good += 1;
        else answers.bad.push(`${status} ${text}`);
      } catch (error) {
        answers.bad.push(String(error));
      }
    }
  });
  const before = JSON.parse(readFileSync(daemon.configFile, 'utf8')) as Record<string, object>;
  const reload = async (content: string, marker: RegExp) => {
    const seen = daemon.output().length;
    const [done] = [answers.good];
    writeFileSync(daemon.configFile, content);
    daemon.child.kill('SIGHUP');
    await eventually(String(marker), () => marker.test(daemon.output().slice(seen)));
    await eventually('requests go on', () => answers.good > done);
  };
  const changed = {
    http: { ...before['http'], maxInFlight: 777 },
    proxy: { stickyCallers: 1, cache: { enabled: false } },
  };
  for (let round = 0; round < 3; round++) {
    await reload(JSON.stringify(before), /configuration reloaded/);
    await reload(
      JSON.stringify({ ...before, ...changed }),
      /"changed":\["http\.maxInFlight"\],"restart":\["proxy\.(stickyCallers","proxy\.cache\.enabled|cache\.enabled","proxy\.stickyCallers)"\]/,
    );
    await reload('http: [', /configuration not reloaded/);
    await reload(JSON.stringify({ ...before, htp: {} }), /htp: unknown key/);
  }
  running = false;
  await Promise.all(load);
  assert.deepEqual(answers.bad, []);
  assert.ok(answers.good > 24, `${answers.good} requests`);
});

test('SIGTERM under load: not ready first, accepted requests are answered, websockets close with 1001, exit 0', async (t) => {
  const { daemon, upstream } = await bed(t);
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  upstream.on('getSupply', async () => {
    await held;
    return { result: '{"total":7}' };
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  t.after(() => agent.destroy());
  const socket = new WebSocket(`${daemon.wsUrl}/?api-key=${daemon.key}`);
  await once(socket, 'open');
  const closed = once(socket, 'close') as Promise<[number]>;
  const slow = Array.from({ length: 4 }, () => post(daemon, 'getSupply', agent));
  await eventually('the slow calls arrived', () => upstream.callsOf('getSupply').length === 4);

  const results: (Answer | string)[] = [];
  let running = true;
  const load = Array.from({ length: 4 }, async () => {
    while (running) {
      const result = await post(daemon, 'getEpochInfo', agent).catch(
        (error: NodeJS.ErrnoException) => error.code ?? '',
      );
      results.push(result);
      if (typeof result === 'string') await sleep(10);
    }
  });
  await eventually('the load runs', () => results.length > 20);
  assert.equal((await fetch(`${daemon.adminUrl}/readyz`)).status, 200);
  daemon.child.kill('SIGTERM');
  await eventually('not ready while accepted requests run', async () => {
    const response = await fetch(`${daemon.adminUrl}/readyz`);
    const { draining } = (await response.json()) as { draining: boolean };
    return response.status === 503 && draining;
  });
  const atDrain = results.length;
  await eventually('new requests are refused', () =>
    results
      .slice(atDrain)
      .some((result) => result === 'ECONNREFUSED' || (typeof result !== 'string' && result.status === 503)),
  );
  assert.equal(daemon.child.exitCode, null, 'it ended before the accepted requests were answered');
  release();
  for (const answer of await Promise.all(slow)) {
    assert.deepEqual([answer.status, answer.text.includes('"total":7')], [200, true], answer.text);
  }
  const [code] = await closed;
  assert.equal(code, 1001);
  await once(daemon.child, 'exit');
  running = false;
  await Promise.all(load);
  assert.equal(daemon.child.exitCode, 0, daemon.output());
  for (const result of results) {
    const good =
      typeof result === 'string'
        ? result === 'ECONNREFUSED' || result === 'ECONNRESET'
        : [200, 503].includes(result.status);
    assert.ok(good, JSON.stringify(result));
  }
});

test('a second signal does not wait for anybody', async (t) => {
  const { daemon, upstream } = await bed(t);
  upstream.on('getSupply', { fault: 'hang' });
  const agent = new Agent();
  t.after(() => agent.destroy());
  const hanging = post(daemon, 'getSupply', agent).catch((error: NodeJS.ErrnoException) => error.code);
  await eventually('the call arrived', () => upstream.callsOf('getSupply').length === 1);
  const gone = once(daemon.child, 'exit');
  daemon.child.kill('SIGTERM');
  await eventually('it drains', async () => (await fetch(`${daemon.adminUrl}/readyz`)).status === 503);
  assert.equal(daemon.child.exitCode, null);
  daemon.child.kill('SIGTERM');
  await gone;
  assert.equal(daemon.child.exitCode, 75);
  assert.equal(await hanging, 'ECONNRESET');
});
