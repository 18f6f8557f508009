/** What one project can do to another: the p99 of its calls while everything that projects share is taken, over that of an idle daemon. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import { ratioOf } from '../paired.ts';
import type { Row, RowResult, RunOptions } from '../row.ts';
import { percentile, steadyLoad } from '../steady-load.ts';

const GOAL = 2;
const SIZES = {
  full: { windows: 10, seconds: 5, calls: 600, unread: 60, sockets: 500, subscriptions: 1_500 },
  quick: { windows: 4, seconds: 3, calls: 300, unread: 40, sockets: 300, subscriptions: 600 },
  smoke: { windows: 1, seconds: 0.5, calls: 80, unread: 4, sockets: 10, subscriptions: 20 },
} as const;
type Size = (typeof SIZES)[keyof typeof SIZES];
const PER_SECOND = 100;
const ANSWER_BYTES = 2_000_000;
const ROOMS = { answerBytes: 67_108_864, sockets: 250, subscriptions: 1_000 };

async function makeKey({ configFile }: DaemonProcess): Promise<string> {
  const run = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', configFile]);
    if (code !== 0) throw new Error(err);
    return JSON.parse(out) as { id: string; key: string };
  };
  const { id } = await run('projects', 'create', '--name', 'bench', '--plan', 'unlimited');
  return (await run('keys', 'create', '--project', id)).key;
}

/** Resolves when what is held has not changed for a while. */
async function untilHeld({ adminUrl }: DaemonProcess): Promise<void> {
  let last = '';
  // Calls time out at the upstream and others take their places: then it is never quite still.
  for (let same = 0, looks = 0; same < 4 && looks < 30; same += 1, looks += 1) {
    await sleep(500);
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    const held = (text.match(/^parhelion_budget_used\{.*$/gm) ?? []).join('\n');
    if (held !== last) same = -1;
    last = held;
  }
}

/** Takes all that it can get, and holds it until it is ended. */
async function attack(daemon: DaemonProcess, key: string, size: Size): Promise<() => void> {
  const { apiUrl } = daemon;
  const sockets: Socket[] = [];
  const clients: WebSocket[] = [];
  const body = (method: string, id: number) => `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":[${id}]}`;
  const send = (text: string) => {
    const socket = connect(Number(new URL(apiUrl).port), '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(`POST /?api-key=${key} HTTP/1.1\r\nHost: x\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    socket.pause();
    sockets.push(socket);
  };
  for (let i = 0; i < size.unread; i += 1) send(`[${body('getLarge', 1)},${body('getLarge', 2)}]`);
  for (let i = 0; i < size.calls; i += 1) send(body('getSlow', i));
  for (let i = 0; i < size.sockets; i += 1) {
    const client = new WebSocket(`${apiUrl.replace('http', 'ws')}/?api-key=${key}`);
    client.on('error', () => undefined);
    clients.push(client);
  }
  const [first] = clients;
  if (first !== undefined) {
    if (first.readyState !== WebSocket.OPEN) await once(first, 'open');
    for (let i = 0; i < size.subscriptions; i += 1) first.send(body('accountSubscribe', i));
  }
  await untilHeld(daemon);
  return () => {
    for (const one of [...sockets]) one.destroy();
    for (const one of clients) one.terminate();
  };
}

async function run({ size, seed, say }: RunOptions): Promise<RowResult[]> {
  const chosen = SIZES[size];
  const upstream: TestUpstream = await startUpstream();
  upstream.on('getBalance', { result: '7' });
  upstream.on('getLarge', { result: `"${'x'.repeat(ANSWER_BYTES)}"` });
  upstream.on('getSlow', { fault: 'hang' });
  const daemon = await startDaemonProcess({
    chain: { rpcUrl: upstream.url, wsUrl: upstream.wsUrl },
    config: {
      follow: { enabled: false },
      budgets: ROOMS,
      plugins: ['access', 'proxy'],
      http: { readWindowMs: 3_600_000 },
    },
  });
  try {
    const [hog, victim] = [await makeKey(daemon), await makeKey(daemon)];
    const p99 = async () => {
      const { latenciesMs } = await steadyLoad({
        url: `${daemon.apiUrl}/?api-key=${victim}`,
        perSecond: PER_SECOND,
        connections: 16,
        body: '{"jsonrpc":"2.0","id":1,"method":"getBalance","params":["x"]}',
        seconds: chosen.seconds,
      });
      return percentile(latenciesMs, 0.99);
    };
    await p99();
    const baseline: number[] = [];
    const ours: number[] = [];
    for (let i = 0; i < chosen.windows; i += 1) {
      say(`window ${i + 1} of ${chosen.windows}`);
      baseline.push(await p99());
      const end = await attack(daemon, hog, chosen);
      ours.push(await p99());
      end();
      await untilHeld(daemon);
    }
    const ratio = ratioOf(ours, baseline);
    return [
      {
        row: 'tenant',
        name: 'p99 of one project while another one has taken all it can get; baseline: alone',
        unit: 'ms',
        ours,
        baseline,
        ratio,
        goal: `<= ${GOAL}x`,
        seed,
        verdict: size === 'smoke' ? 'not assessed' : ratio.median <= GOAL ? 'met' : 'missed',
        sizes: { perSecond: PER_SECOND, ...chosen, ...ROOMS, answerBytesEach: ANSWER_BYTES },
        notes: ['the attack is held, not renewed, while it is measured', 'upstream, daemon and load share the cores'],
      },
    ];
  } finally {
    await daemon.kill();
    await upstream.stop();
  }
}

export const row: Row = { id: 'tenant', name: 'one project against another', run };
