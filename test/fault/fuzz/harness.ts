import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { coreConfig } from '../../../src/config/core.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import type { Answer, ApiDocument } from './operations.ts';

const PATIENCE_MS = 20_000;
const OPERATOR_TOKEN = 'the-token-of-the-operator';
const TREASURY = 'So11111111111111111111111111111111111111112';
/** All plugins that have routes, those too that do not run by themselves. */
const CONFIG = {
  plugins: [...coreConfig.properties.plugins.default, 'signup', 'streams'],
  follow: { enabled: false },
  log: { level: 'silent' },
  dashboard: { operatorToken: OPERATOR_TOKEN, loginFailuresPerMinute: 1_000_000 },
  signup: { treasury: TREASURY, lamports: 1_000 },
};
const PAGES = '/dashboard/api';
const EVENTS = 'text/event-stream';

export interface Sending {
  readonly method: string;
  readonly target: string;
  readonly body?: string | Buffer | undefined;
  /** Content-Encoding. */
  readonly encoding?: string;
  /** With a good key, or on the admin listener with a good session. */
  readonly isKnown: boolean;
}

/** One of the two listeners. */
export interface Listener {
  readonly document: ApiDocument;
  send(sending: Sending): Promise<Answer>;
}

export interface FuzzBed {
  readonly api: Listener;
  readonly admin: Listener;
  /** Logins that succeed, and a project with a key, for the admin listener. */
  readonly known: { readonly logins: readonly object[]; readonly project: string; readonly key: string };
  readonly plans: readonly string[];
  readonly sockets: Sockets;
  readonly streams: Streams;
  readonly victim: Victim;
  /** Requests so far. */
  requests(): number;
  /** Bytes in use after a collection of garbage. */
  heldBytes(): Promise<number>;
  /** Requests that are being handled once there are as few as there will be; the one that asks is not counted. */
  inFlight(): Promise<number>;
  stop(): Promise<void>;
}

/** Messages over one websocket after the other. */
export interface Sockets {
  /** Sends a message and waits until calls behind it are answered, or the socket is closed. Gives what came. */
  send(message: string | Buffer, isKnown: boolean): Promise<readonly string[]>;
  /** Codes that sockets were closed with. */
  readonly closed: ReadonlySet<number>;
  /** Sends parts of a message that never ends over a socket of their own, and goes away. */
  leaveUnfinished(parts: readonly Buffer[]): Promise<void>;
}

/** Calls over gRPC, one connection for all while it lasts. */
export interface Streams {
  /** Sends these bytes after the headers. Gives the status and text of its end, or null for a stream that was open and then left. */
  send(call: StreamCall): Promise<readonly [code: number, message: string] | null>;
  /** What the streams hold, once it is as little as it will be. */
  held(): Promise<number>;
}

export interface StreamCall {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  readonly isKnown: boolean;
}

/** Another project, which calls and listens all the while. */
export interface Victim {
  /** Ends it. Throws when an answer was wrong or missing, or a notification was. */
  stop(): Promise<{ readonly answers: number; readonly notifications: number }>;
}

/** A daemon and its two listeners. */
export async function startFuzz(): Promise<FuzzBed> {
  const upstream = await startUpstream();
  const streamsPort = await freePort();
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: { ...CONFIG, streams: { grpc: { port: streamsPort } } },
  });
  let requests = 0;
  const send = async (url: string, { method, target, body, encoding }: Sending, headers: Record<string, string>) => {
    requests += 1;
    const response = await fetch(`${url}${target}`, {
      method,
      headers: encoding === undefined ? headers : { ...headers, 'content-encoding': encoding },
      ...(body === undefined || method === 'GET' ? {} : { body }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const type = response.headers.get('content-type') ?? '';
    return { status: response.status, type, text: await textOf(response, type), response };
  };
  const documentOf = async (url: string) => (await (await fetch(`${url}/openapi.json`)).json()) as ApiDocument;

  const operate = createOperator((sending, headers) => send(daemon.adminUrl, sending, headers));
  const ask = async <T>(method: string, target: string, body?: object): Promise<T> => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return JSON.parse((await operate({ method, target: `${PAGES}${target}`, body: text, isKnown: true })).text) as T;
  };
  const { plans } = await ask<{ plans: string[] }>('GET', '/projects');
  const { id: project } = await ask<{ id: string }>('POST', '/projects', { name: 'fuzz', plan: plans[0] });
  const { id: key } = await ask<{ id: string }>('POST', `/projects/${project}/keys`, { name: 'fuzz' });
  // As nodes do over messages that are too large for them.
  upstream.onSubscribe((_, paramsText) => (paramsText.length > MAX_NODE_BYTES ? 'close' : 'accept'));
  upstream.on('getBalance', { result: BALANCE });
  const { id: other } = await ask<{ id: string }>('POST', '/projects', { name: 'victim', plan: 'business' });
  const { key: otherKey } = await ask<{ key: string }>('POST', `/projects/${other}/keys`, { name: 'victim' });
  const victim = await startVictim(daemon, upstream, otherKey);
  const sockets = createSockets(daemon, () => {
    requests += 1;
  });
  return {
    api: {
      document: await documentOf(daemon.apiUrl),
      send: (sending) => send(daemon.apiUrl, sending, sending.isKnown ? { 'x-api-key': daemon.key } : {}),
    },
    admin: { document: await documentOf(daemon.adminUrl), send: operate },
    known: { logins: [{ token: OPERATOR_TOKEN }], project, key },
    plans,
    sockets,
    streams: createStreams(daemon, streamsPort, () => {
      requests += 1;
    }),
    victim,
    requests: () => requests,
    heldBytes: () => heldBytes(upstream),
    inFlight: () => inFlightOf(daemon),
    async stop() {
      sockets.end();
      await daemon.stop();
      await upstream.stop();
    },
  };
}

const MAX_NODE_BYTES = 4_000;
const BALANCE = '{"context":{"slot":1000},"value":42}';
const VICTIM_PAUSE_MS = 25;

/** Its subscription is the only one of its kind with these parameters, so its notifications are its own. */
async function startVictim(daemon: DaemonInProcess, upstream: TestUpstream, key: string): Promise<Victim> {
  const socket = new WebSocket(`${daemon.apiUrl.replace('http', 'ws')}/?api-key=${key}`);
  const received: string[] = [];
  socket.on('message', (data) => received.push(String(data)));
  await once(socket, 'open');
  socket.send(
    `{"jsonrpc":"2.0","id":1,"method":"accountSubscribe","params":["${TREASURY}",{"commitment":"finalized"}]}`,
  );
  await until(() => received.length !== 0);
  const faults: string[] = [];
  const sent: number[] = [];
  let answers = 0;
  let isOver = false;
  const call = async () => {
    const body = `{"jsonrpc":"2.0","id":"v","method":"getBalance","params":["${TREASURY}"]}`;
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const response = await fetch(daemon.apiUrl, { method: 'POST', body, headers });
    const text = await response.text();
    if (text === `{"jsonrpc":"2.0","result":${BALANCE},"id":"v"}`) answers += 1;
    else faults.push(`${response.status} ${text}`);
  };
  const live = async () => {
    while (!isOver) {
      await call().catch((error) => faults.push(String(error)));
      const mine = upstream.held('accountSubscribe').filter(({ paramsText }) => paramsText.includes('"finalized"'));
      // While it moves to another connection nobody could tell it anything.
      if (mine[0] !== undefined) upstream.notify(mine[0], String(sent.push(sent.length)));
      await sleep(VICTIM_PAUSE_MS);
    }
  };
  const living = live();
  return {
    async stop() {
      isOver = true;
      await living;
      const heard = () =>
        received.slice(1).map((text) => (JSON.parse(text) as { params: { result: number } }).params.result);
      for (let round = 0; round < 200 && heard().length < sent.length; round += 1) await sleep(25);
      const told = heard();
      socket.terminate();
      assert.deepEqual(faults.slice(0, 3), [], 'wrong answers of the other project');
      assert.deepEqual(
        told,
        told.map((_, at) => (told[0] as number) + at),
        'a notification came twice, or out of order',
      );
      assert.equal(told.length, sent.length, 'notifications');
      return { answers, notifications: told.length };
    },
  };
}

/** One socket at a time for who has a key, and refused ones for who has not. */
function createSockets(daemon: DaemonInProcess, count: () => void): Sockets & { end(): void } {
  const closed = new Set<number>();
  let open: { readonly socket: WebSocket; received: string[]; isClosed: boolean } | null = null;
  let marks = 0;
  const url = daemon.apiUrl.replace('http', 'ws');

  async function connect() {
    const socket = new WebSocket(`${url}/?api-key=${daemon.key}`);
    const made = { socket, received: [] as string[], isClosed: false };
    socket.on('error', () => undefined);
    socket.on('message', (data) => made.received.push(String(data)));
    socket.on('close', (code) => {
      closed.add(code);
      made.isClosed = true;
    });
    await once(socket, 'open');
    return made;
  }

  async function refuse(): Promise<readonly string[]> {
    const socket = new WebSocket(`${url}/?api-key=wrong-${marks++}`);
    const error = await new Promise<Error>((resolve) => socket.on('error', resolve));
    assert.match(error.message, /\b(401|429|503)\b/);
    return [];
  }

  return {
    async leaveUnfinished(parts) {
      count();
      const { socket } = await connect();
      for (const part of parts) socket.send(part, { fin: false });
      socket.ping();
      await Promise.race([once(socket, 'pong'), once(socket, 'close')]);
      socket.terminate();
    },
    closed,
    end: () => open?.socket.terminate(),
    async send(message, isKnown) {
      count();
      if (!isKnown) return await refuse();
      if (open === null || open.isClosed) open = await connect();
      const { socket } = open;
      open.received = [];
      const mark = `"mark-${marks++}"`;
      socket.send(message);
      socket.send(`{"jsonrpc":"2.0","id":${mark},"method":"getHealth"}`);
      for (let round = 0; !open.isClosed && !open.received.some((text) => text.includes(mark)); round += 1) {
        assert.ok(round * 2 < PATIENCE_MS, 'a call over a websocket is not answered');
        await sleep(round < 20 ? 1 : 2);
      }
      return open.received.filter((text) => !text.includes(mark));
    },
  };
}

/** How long a stream may say nothing until it is left as an open one. */
const OPEN_MS = 20;
/** A server of Node ends a connection that resets more than 1,000 streams at once, as it must. */
const CALLS_PER_SESSION = 500;

function createStreams(daemon: DaemonInProcess, port: number, count: () => void): Streams {
  let session: ClientHttp2Session | null = null;
  let calls = 0;
  return {
    async send({ method, headers, bytes, isKnown }) {
      count();
      calls += 1;
      if (calls % CALLS_PER_SESSION === 0) session?.close();
      if (session === null || session.destroyed || session.closed) {
        session = connectHttp2(`http://127.0.0.1:${port}`);
        session.on('error', () => undefined);
        // The daemon ends it; it must not keep the test alive.
        session.unref();
      }
      const stream = session.request({
        ':method': 'POST',
        ':path': `/geyser.Geyser/${method}`,
        'content-type': 'application/grpc',
        ...(isKnown ? { 'x-token': daemon.key } : {}),
        ...headers,
      });
      const ended = new Promise<readonly [number, string]>((resolve) => {
        const tell = (given: Record<string, unknown>) =>
          given['grpc-status'] === undefined
            ? undefined
            : resolve([Number(given['grpc-status']), String(given['grpc-message'] ?? '')]);
        stream.on('response', tell);
        stream.on('trailers', tell);
        stream.on('error', () => undefined);
        stream.on('close', () => resolve([-1, 'closed']));
      });
      stream.resume();
      stream.write(bytes);
      if (method !== 'Subscribe') stream.end();
      const isStream = method === 'Subscribe' && isKnown;
      const outcome = await Promise.race([ended, sleep(isStream ? OPEN_MS : PATIENCE_MS, null)]);
      assert.ok(outcome !== null || isStream, `${method} has no end`);
      stream.close(constants.NGHTTP2_CANCEL);
      return outcome;
    },
    async held() {
      const held = async () => {
        const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
        return [...text.matchAll(/^parhelion_budget_used\{budget="stream\w*"\} (\d+)$/gm)].reduce(
          (sum, [, value]) => sum + Number(value),
          0,
        );
      };
      let now = await held();
      for (let round = 0; round < 200 && now !== 0; round += 1) {
        await sleep(50);
        now = await held();
      }
      return now;
    },
  };
}

type Headers = Readonly<Record<string, string>>;
type Send = (sending: Sending, headers: Headers) => Promise<Answer & { readonly response: Response }>;

/** What nobody is let in with, one after the other. */
const STRANGERS: readonly Headers[] = [
  {},
  { cookie: 'parhelion_session=x', 'x-csrf-token': 'x' },
  { cookie: 'parhelion_session=x; parhelion_session=y' },
  { origin: 'http://elsewhere.example' },
];

/** Sends what is asked of pages with a session. One that was ended, by being used to log out, is followed by another. */
function createOperator(send: Send): (sending: Sending) => Promise<Answer> {
  let session: Headers | null = null;
  let strangers = 0;
  const logIn = async (): Promise<Headers> => {
    const body = JSON.stringify({ token: OPERATOR_TOKEN });
    const { text, response } = await send({ method: 'POST', target: `${PAGES}/login`, body, isKnown: false }, {});
    const { csrfToken } = JSON.parse(text) as { csrfToken: string };
    return { cookie: response.headers.get('set-cookie')?.split(';')[0] ?? '', 'x-csrf-token': csrfToken };
  };
  return async (sending) => {
    if (!sending.isKnown) return await send(sending, STRANGERS[strangers++ % STRANGERS.length] as Headers);
    session ??= await logIn();
    const answer = await send(sending, session);
    const isOver = answer.status === 401 || /\/log(in|out)\b/.test(sending.target);
    if (isOver) session = null;
    return answer;
  };
}

/** Of an answer that does not end the first part is enough. */
async function textOf(response: Response, type: string): Promise<string> {
  if (!type.startsWith(EVENTS)) return await response.text();
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return Buffer.from(value ?? []).toString();
}

async function heldBytes(upstream: TestUpstream): Promise<number> {
  // The upstream of the tests remembers all that it was asked.
  (upstream.calls as unknown[]).length = 0;
  for (let round = 0; round < 3; round += 1) {
    await sleep(50);
    globalThis.gc?.();
  }
  return process.memoryUsage().heapUsed;
}

async function inFlightOf(daemon: DaemonInProcess): Promise<number> {
  const sampleOf = (text: string, name: string) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? -1);
  let inFlight = -1;
  for (let round = 0; round < 600 && inFlight !== 0; round += 1) {
    const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    const [api, admin] = ['http', 'admin'].map((scope) => sampleOf(text, `parhelion_${scope}_requests_in_flight`));
    inFlight = (api as number) + (admin as number) - 1;
    if (inFlight !== 0) await sleep(50);
  }
  return inFlight;
}
