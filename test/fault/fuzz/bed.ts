import { setTimeout as sleep } from 'node:timers/promises';
import { coreConfig } from '../../../src/kernel/config/core.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';
import type { Answer, ApiDocument } from './operations.ts';

const PATIENCE_MS = 20_000;
const OPERATOR_TOKEN = 'the-token-of-the-operator';
const TREASURY = 'So11111111111111111111111111111111111111112';
/** All plugins that have routes, those too that do not run by themselves. */
const CONFIG = {
  plugins: [...coreConfig.properties.plugins.default, 'signup'],
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
  readonly body?: string | undefined;
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
  /** Requests so far. */
  requests(): number;
  /** Bytes in use after a collection of garbage. */
  heldBytes(): Promise<number>;
  /** Requests that are being handled once there are as few as there will be; the one that asks is not counted. */
  inFlight(): Promise<number>;
  stop(): Promise<void>;
}

/** A daemon and its two listeners. */
export async function startFuzz(): Promise<FuzzBed> {
  const upstream = await startUpstream();
  const daemon = await startDaemon({ chain: { rpcUrl: upstream.url }, config: CONFIG });
  let requests = 0;
  const send = async (url: string, { method, target, body }: Sending, headers: Record<string, string>) => {
    requests += 1;
    const response = await fetch(`${url}${target}`, {
      method,
      headers,
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
  return {
    api: {
      document: await documentOf(daemon.apiUrl),
      send: (sending) => send(daemon.apiUrl, sending, sending.isKnown ? { 'x-api-key': daemon.key } : {}),
    },
    admin: { document: await documentOf(daemon.adminUrl), send: operate },
    known: { logins: [{ token: OPERATOR_TOKEN }], project, key },
    plans,
    requests: () => requests,
    heldBytes: () => heldBytes(upstream),
    inFlight: () => inFlightOf(daemon),
    async stop() {
      await daemon.stop();
      await upstream.stop();
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
