import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { BOOTSTRAP_KEY, type BuiltDaemon } from '../helpers/built-daemon.ts';
import type { Payments } from '../helpers/payments.ts';
import { createSfc32, type Sfc32 } from '../helpers/sfc32.ts';
import { drawCall, rpc } from './calls.ts';

export interface Target {
  readonly daemon: BuiltDaemon;
  readonly api: string;
  readonly payments: Payments;
  /** Addresses of receivers: well, slow, failing, dead. */
  readonly receivers: readonly string[];
}

export interface Load {
  /** `answers`: of the busy clients, by status. `errors`: the first bodies of 5xx, each with its call. */
  readonly counts: Readonly<
    Record<'calls' | 'refused' | 'failed' | 'sockets' | 'notices' | 'webhooks' | 'reloads', number>
  > & { readonly answers: Readonly<Record<string, number>>; readonly errors: readonly string[] };
  /** p95 of the calls of the busy clients that were answered since this was asked before, in ms; 0 without any. */
  callMs(): number;
  stop(): Promise<void>;
}

const CALL_MS = 40;
const SOCKET_MS = 400;
const WEBHOOK_MS = 2_000;
const RELOAD_MS = 20_000;
const ERRORS_KEPT = 20;
const INDEXING_RETRIES = 20;
const INDEXING_RETRY_MS = 500;

/** Traffic of every kind: busy clients, each of which calls again as soon as it is answered, and others that behave badly. */
export function startLoad(target: Target, seed: number, clients: number): Load {
  const random = createSfc32(seed);
  const answers: Record<string, number> = {};
  const errors: string[] = [];
  const counts = { calls: 0, refused: 0, failed: 0, sockets: 0, notices: 0, webhooks: 0, reloads: 0, answers, errors };
  let times: number[] = [];
  const ended = new AbortController();
  setMaxListeners(0, ended.signal);
  const every = async (ms: number, work: () => Promise<void> | void) => {
    while (!ended.signal.aborted) {
      await Promise.resolve(work()).catch(() => {
        counts.failed += 1;
      });
      await sleep(ms, undefined, { signal: ended.signal }).catch(() => undefined);
    }
  };
  const busy = async () => {
    const begunMs = performance.now();
    const { status, error } = await callWell(target, random);
    times.push(performance.now() - begunMs);
    counts.calls += 1;
    answers[status] = (answers[status] ?? 0) + 1;
    if (error !== null && errors.length < ERRORS_KEPT) errors.push(error);
  };
  const running = [
    ...Array.from({ length: clients }, () => every(0, busy)),
    every(CALL_MS, () => callBadly(target, random, counts)),
    every(SOCKET_MS, () => void openSocket(target, random, counts)),
    every(WEBHOOK_MS, () => comeAndGo(target, random, counts)),
    every(RELOAD_MS, () => {
      counts.reloads += 1;
      target.daemon.child.kill('SIGHUP');
    }),
  ];
  return {
    counts,
    callMs() {
      const sorted = times.sort((a, b) => a - b);
      times = [];
      return sorted[Math.floor(sorted.length * 0.95)] ?? 0;
    },
    async stop() {
      ended.abort();
      await Promise.all(running);
    },
  };
}

type Counts = { -readonly [Name in Exclude<keyof Load['counts'], 'answers' | 'errors'>]: number };

/** `error`: the call and its answer, when the status is 5xx. */
async function callWell(
  { api, payments }: Target,
  random: Sfc32,
): Promise<{ readonly status: number; readonly error: string | null }> {
  const { method, path, body } = drawCall(payments, random);
  const url = `${api}${path}${path.includes('?') ? '&' : '?'}api-key=${BOOTSTRAP_KEY}`;
  let retriesLeft = INDEXING_RETRIES;
  for (;;) {
    const signal = AbortSignal.timeout(30_000);
    const response = await fetch(url, { method, signal, ...(body === undefined ? {} : { body }) });
    const answer = await response.text();
    const { status } = response;
    if (status < 500) return { status, error: null };
    // A wallet that nobody asked for before may take longer than one request waits; a client comes again.
    const isIndexing = status === 503 && answer.includes('Wallet history is being indexed');
    if (!isIndexing || retriesLeft === 0)
      return { status, error: `${method} ${path} ${body ?? ''}: ${status} ${answer}` };
    retriesLeft -= 1;
    await sleep(INDEXING_RETRY_MS);
  }
}

/** Now and then with a key that is wrong, without patience, or what nobody understands. */
async function callBadly({ api, payments }: Target, random: Sfc32, counts: Counts): Promise<void> {
  const address = payments.addresses[random.below(payments.addresses.length)];
  const bodies = [rpc('getBalance', `["${address}"]`), rpc('noSuchMethod', '[]'), '{"jsonrpc":'];
  const key = random.below(20) === 0 ? `wrong-${random.below(100_000)}` : BOOTSTRAP_KEY;
  const signal = random.below(30) === 0 ? AbortSignal.timeout(1) : AbortSignal.timeout(10_000);
  const body = bodies[random.below(bodies.length)] as string;
  const response = await fetch(`${api}/?api-key=${key}`, { method: 'POST', body, signal });
  await response.text();
  counts.calls += 1;
  if (response.status === 401) counts.refused += 1;
}

/** A socket with a few subscriptions that lives for some seconds and ends well or badly. */
async function openSocket({ api, payments }: Target, random: Sfc32, counts: Counts): Promise<void> {
  const socket = new WebSocket(`${api.replace('http', 'ws')}/?api-key=${BOOTSTRAP_KEY}`);
  socket.on('error', () => undefined);
  socket.on('message', () => {
    counts.notices += 1;
  });
  socket.on('open', () => {
    counts.sockets += 1;
    const address = payments.addresses[random.below(payments.addresses.length)];
    for (const [method, params] of [
      ['slotSubscribe', '[]'],
      ['accountSubscribe', `["${address}",{"commitment":"confirmed"}]`],
      ['logsSubscribe', `[{"mentions":["${address}"]}]`],
    ])
      socket.send(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`);
  });
  await sleep(500 + random.below(4_000));
  if (random.below(2) === 0) socket.close();
  else socket.terminate();
}

/** Webhooks are made, listed, changed and removed. */
async function comeAndGo({ api, payments, receivers }: Target, random: Sfc32, counts: Counts): Promise<void> {
  const url = (path: string) => `${api}/v0/webhooks${path}?api-key=${BOOTSTRAP_KEY}`;
  const id = await createWebhook(
    { api, payments, receivers },
    random.below(receivers.length),
    random.below(payments.addresses.length),
  );
  await (await fetch(url(''))).text();
  await sleep(500);
  await (await fetch(url(`/${id}`), { method: 'DELETE' })).text();
  counts.webhooks += 1;
}

/** Gives the id. Errors: any answer but 200. */
export async function createWebhook(
  { api, payments, receivers }: Omit<Target, 'daemon'>,
  receiver: number,
  wallet: number,
): Promise<string> {
  const response = await fetch(`${api}/v0/webhooks?api-key=${BOOTSTRAP_KEY}`, {
    method: 'POST',
    body: JSON.stringify({
      webhookType: 'raw',
      webhookURL: receivers[receiver],
      accountAddresses: [payments.addresses[wallet]],
    }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  return (JSON.parse(text) as { webhookID: string }).webhookID;
}
