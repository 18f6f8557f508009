import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { type RawConnection, rawConnect } from '../../helpers/raw-http.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

/** What a hostile client may cost in memory, whatever it does; coarse on purpose. */
const ROOM_BYTES = 300_000_000;
/** A well-behaved client that waits longer than this was not answered. */
const PATIENCE_MS = 10_000;

export interface HostileBed {
  readonly daemon: DaemonProcess;
  readonly upstream: TestUpstream;
  readonly port: number;
  /** A connection that the bed closes at the end. */
  connect(): RawConnection;
  /** `POST /` with the key. */
  rpc(body: string | Buffer): Promise<Response>;
  /** Runs the attack while a well-behaved client calls; each of its calls must be answered, and memory stays bounded. */
  during(attack: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
}

/** A daemon in a process of its own, so that its memory can be measured, in front of an upstream that answers. */
export async function startHostileBed(config: Readonly<Record<string, unknown>> = {}): Promise<HostileBed> {
  const upstream = await startUpstream();
  upstream.on('getHello', { result: '"hello"' });
  const daemon = await startDaemonProcess({ chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl }, config });
  const port = Number(new URL(daemon.apiUrl).port);
  const connections = new Set<RawConnection>();
  const rpc = (body: string | Buffer) =>
    fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, {
      method: 'POST',
      body,
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  const bed: HostileBed = {
    daemon,
    upstream,
    port,
    connect: () => {
      const connection = rawConnect(port);
      connections.add(connection);
      void connection.closed.then(() => connections.delete(connection));
      return connection;
    },
    rpc,
    during: (attack) => attackWhileCalling(bed, attack),
    stop: async () => {
      for (const connection of connections) connection.destroy();
      await daemon.stop();
      await upstream.stop();
    },
  };
  await callOnce(bed);
  return bed;
}

async function attackWhileCalling(bed: HostileBed, attack: () => Promise<void>): Promise<void> {
  const baseline = rssBytes(bed);
  let peak = baseline;
  let over = false;
  let calls = 0;
  const client = async () => {
    do {
      await callOnce(bed);
      calls += 1;
      peak = Math.max(peak, rssBytes(bed));
      await sleep(10);
    } while (!over);
  };
  const running = client();
  // Its failure is looked at below; until then it must not count as unhandled.
  running.catch(() => {});
  try {
    await attack();
  } finally {
    over = true;
  }
  await running;
  await callOnce(bed);
  assert.ok(calls > 0);
  assert.ok(peak < baseline + ROOM_BYTES, `memory went from ${baseline} to ${peak} bytes`);
  assert.equal(bed.daemon.child.exitCode, null);
}

/** One call of each kind on connections of its own. */
async function callOnce({ daemon, rpc }: HostileBed): Promise<void> {
  const signal = () => AbortSignal.timeout(PATIENCE_MS);
  const headers = { connection: 'close' };
  const ping = await fetch(`${daemon.apiUrl}/ping`, { headers, signal: signal() });
  assert.deepEqual([ping.status, await ping.text()], [200, 'ok']);
  const forwarded = await rpc('{"jsonrpc":"2.0","method":"getHello","id":"x"}');
  assert.deepEqual([forwarded.status, await forwarded.json()], [200, { jsonrpc: '2.0', result: 'hello', id: 'x' }]);
  const hooks = await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`, { headers, signal: signal() });
  assert.equal(hooks.status, 200);
  assert.ok(Array.isArray(await hooks.json()));
}

export function rssBytes({ daemon }: Pick<HostileBed, 'daemon'>): number {
  try {
    const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${daemon.child.pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes ?? 0) * 1_024;
  } catch {
    return 0;
  }
}

/** The status of the next answer, or `closed`. */
export function outcome(connection: RawConnection): Promise<number | 'closed'> {
  return connection.answer().then(
    ({ status }) => status,
    () => 'closed' as const,
  );
}
