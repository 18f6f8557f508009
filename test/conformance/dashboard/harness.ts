import assert from 'node:assert/strict';
import { type DaemonInProcess, type StartDaemonOptions, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';

export const OPERATOR_TOKEN = 'operator-token-of-the-test';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for.
  readonly body: any;
}

/** A browser that is, or is not, logged in. */
export interface Visitor {
  ask(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  readonly csrfToken: string;
  readonly cookie: string;
}

export interface DashboardBed {
  readonly daemon: DaemonInProcess;
  readonly stranger: Visitor;
  logIn(body: unknown): Promise<Visitor & { readonly answer: Answer }>;
  operator(): Promise<Visitor>;
  stop(): Promise<void>;
}

/** Before an upstream that answers nothing much, or on a chain that is followed. */
export async function startDashboard(
  config: Readonly<Record<string, unknown>> = {},
  chain?: { readonly rpcUrl: string; readonly wsUrl: string },
  more: Pick<StartDaemonOptions, 'dataDir' | 'key'> = {},
): Promise<DashboardBed> {
  const upstream = chain === undefined ? await startUpstream() : null;
  const daemon = await startDaemon({
    ...more,
    chain: chain ?? { rpcUrl: upstream?.url ?? '' },
    config: {
      plugins: ['access', 'compression', 'dashboard', 'webhooks'],
      ...(chain === undefined ? { follow: { enabled: false } } : {}),
      compression: { verifyChain: false },
      ...config,
      dashboard: { operatorToken: OPERATOR_TOKEN, liveIntervalMs: 250, ...(config['dashboard'] as object) },
    },
  });
  const visitor = (cookie: string, csrfToken: string): Visitor => ({
    cookie,
    csrfToken,
    async ask(method, path, body, headers = {}) {
      const response = await fetch(daemon.adminUrl + path, {
        method,
        headers: {
          ...(cookie === '' ? {} : { cookie }),
          ...(csrfToken === '' ? {} : { 'x-csrf-token': csrfToken }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
      const { status } = response;
      return { status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined };
    },
  });
  const stranger = visitor('', '');
  const logIn = async (body: unknown) => {
    const answer = await stranger.ask('POST', '/dashboard/api/login', body);
    const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? '';
    return { ...visitor(cookie, answer.body?.csrfToken ?? ''), answer };
  };
  return {
    daemon,
    stranger,
    logIn,
    async operator() {
      const found = await logIn({ token: OPERATOR_TOKEN });
      assert.equal(found.answer.status, 200, found.answer.text);
      return found;
    },
    async stop() {
      await daemon.stop();
      await upstream?.stop();
    },
  };
}
