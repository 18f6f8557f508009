/**
 * Operators log in by a real OpenID provider (the package oidc-provider): who has a role comes in, who has none does not, and no answer of the
 * provider counts for another browser or twice.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { freePort } from '../../helpers/free-port.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const API = '/dashboard/api';
const CLIENT = { id: 'parhelion-dashboard', secret: 'the secret of the dashboard at the provider' };

interface Person {
  readonly email: string;
  readonly email_verified: boolean;
  readonly groups: readonly string[];
}
const PEOPLE: Readonly<Record<string, Person>> = {
  ann: { email: 'ann@example.com', email_verified: true, groups: [] },
  bob: { email: 'bob@partner.example', email_verified: true, groups: ['support'] },
  eve: { email: 'eve@example.org', email_verified: true, groups: [] },
  mal: { email: 'ann@example.com', email_verified: false, groups: [] },
};

type ProviderClass = new (issuer: string, configuration: object) => { callback(): RequestListener };

/** What happens to those who ask the provider for a token: `status` is sent, or the connection cut, once `held` is done; null: it answers. */
interface Trouble {
  readonly status: number | 'cut' | null;
  readonly held: Promise<void>;
}
const NO_TROUBLE: Trouble = { status: null, held: Promise.resolve() };
let tokenEndpoint = NO_TROUBLE;

let server: Server;
let upstream: TestUpstream;
let daemon: DaemonProcess;

before(async () => {
  // Its types are another package.
  const { default: Provider } = (await import('oidc-provider' as string)) as { readonly default: ProviderClass };
  server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const port = await freePort();
  const publicUrl = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [`${publicUrl}${API}/oidc/callback`],
      },
    ],
    claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'] },
    // As most providers do: what was asked for stands in the ID token.
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) }),
  });
  const callback = provider.callback();
  server.on('request', async (request, response) => {
    const { status, held } = request.url === '/token' ? tokenEndpoint : NO_TROUBLE;
    await held;
    if (status === 'cut') response.destroy();
    else if (status !== null) response.writeHead(status).end();
    else callback(request, response);
  });
  upstream = await startUpstream();
  daemon = await startDaemonProcess({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'dashboard'],
      admin: { port },
      follow: { enabled: false },
      dashboard: {
        loginFailuresPerMinute: 100,
        oidc: {
          issuer,
          clientId: CLIENT.id,
          clientSecret: CLIENT.secret,
          publicUrl,
          operators: ['ann@example.com'],
          viewers: ['group:support'],
        },
      },
    },
    // Where an operator would have installed the package.
    env: { NODE_PATH: join(findProjectRoot(), 'test/packages/node_modules') },
  });
});
after(async () => {
  await daemon?.stop();
  await upstream?.stop();
  server?.closeAllConnections();
  server?.close();
});

/** Cookies by host and name, as a browser keeps them; `SameSite` is not looked at. */
class Browser {
  readonly cookies = new Map<string, string>();

  async ask(address: string, form?: Readonly<Record<string, string>>): Promise<Response> {
    const url = new URL(address);
    const cookie = [...this.cookies]
      .filter(([name]) => name.startsWith(`${url.host} `))
      .map(([name, value]) => `${name.split(' ')[1]}=${value}`)
      .join('; ');
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: cookie === '' ? {} : { cookie },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    for (const set of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      this.cookies.set(`${url.host} ${name}`, value);
    }
    return answer;
  }

  /** Follows redirects as far as they lead, or to the first that goes to `stop`. */
  async follow(address: string, form?: Readonly<Record<string, string>>, stop = '\n'): Promise<[Response, string]> {
    let [answer, at] = [await this.ask(address, form), address];
    while (answer.status >= 300 && answer.status < 400) {
      at = new URL(answer.headers.get('location')!, at).href;
      if (at.includes(stop)) break;
      answer = await this.ask(at);
    }
    return [answer, at];
  }

  /** Logs in as this person at the provider; returns the address at which the provider sends the browser back. */
  async toProvider(person: string): Promise<string> {
    const back = `${API}/oidc/callback`;
    const [page, at] = await this.follow(`${daemon.adminUrl}${API}/oidc`);
    assert.equal(page.status, 200, at);
    const actionOf = async (answer: Response, where: string) =>
      new URL(/action="([^"]+)"/.exec(await answer.text())![1]!, where).href;
    const [consent, where] = await this.follow(await actionOf(page, at), {
      prompt: 'login',
      login: person,
      password: 'x',
    });
    const [, returned] = await this.follow(await actionOf(consent, where), { prompt: 'consent' }, back);
    return returned;
  }

  async session(): Promise<{ readonly status: number; readonly body: Record<string, unknown> }> {
    const answer = await this.ask(`${daemon.adminUrl}${API}/session`);
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  }
}

async function logIn(person: string) {
  const browser = new Browser();
  const [, at] = await browser.follow(await browser.toProvider(person));
  return { browser, at: new URL(at), ...(await browser.session()) };
}

test('a person whose verified address has a role comes in as operator, one of a group as viewer', async () => {
  const ways = await fetch(`${daemon.adminUrl}${API}/login`);
  assert.match(((await ways.json()) as { provider: string }).provider, /^127\.0\.0\.1:\d+$/);
  const ann = await logIn('ann');
  assert.deepEqual(
    [ann.at.pathname + ann.at.search, ann.status, ann.body['role'], ann.body['name']],
    ['/dashboard', 200, 'operator', 'ann@example.com'],
  );
  const bob = await logIn('bob');
  assert.deepEqual([bob.status, bob.body['role']], [200, 'viewer']);
  const audit = await ann.browser.ask(`${daemon.adminUrl}${API}/audit?limit=50`);
  const { entries } = (await audit.json()) as { entries: readonly Record<string, string>[] };
  assert.ok(entries.some(({ action, actor }) => action === 'session.open' && actor === 'operator:ann@example.com'));
  // The sessions are looked at again and again: a person of the provider keeps hers.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  assert.equal((await ann.browser.session()).status, 200);
});

test('a person without a role, and one whose address nobody verified, are led back without a session', async () => {
  for (const person of ['eve', 'mal']) {
    const found = await logIn(person);
    assert.deepEqual([found.at.search, found.status], ['?login=refused', 401], person);
  }
});

test('an answer of the provider counts once, in the browser that asked, with its state', async () => {
  const browser = new Browser();
  const back = await browser.toProvider('ann');
  const refused = async (who: Browser, address: string) => {
    const [, at] = await who.follow(address);
    assert.equal(new URL(at).search, '?login=refused', address);
    assert.equal((await who.session()).status, 401);
  };
  // Somebody made her open the link with which he would have logged in.
  await refused(new Browser(), back);
  const other = new Browser();
  await other.follow(`${daemon.adminUrl}${API}/oidc`);
  await refused(other, back);
  const changed = new URL(back);
  changed.searchParams.set('state', 'another');
  await refused(browser, changed.href);
  await refused(browser, `${daemon.adminUrl}${API}/oidc/callback?error=access_denied&state=x`);
  await refused(browser, `${daemon.adminUrl}${API}/oidc/callback`);
  await browser.follow(back);
  assert.equal((await browser.session()).status, 200, 'all of that has not spoilt the real answer');
  const again = new Browser();
  for (const [name, value] of browser.cookies) if (name.endsWith('parhelion_login')) again.cookies.set(name, value);
  await refused(again, back);
  assert.ok(!daemon.output().includes(CLIENT.secret) && !daemon.output().includes(changed.searchParams.get('code')!));
});

test('the provider is away in the middle of a log-in: the page says so, nothing counts as a wrong try, and the same answer works later', async () => {
  const ann = await logIn('ann');
  const refusals = async () => {
    const audit = await ann.browser.ask(`${daemon.adminUrl}${API}/audit?limit=100`);
    const { entries } = (await audit.json()) as { entries: readonly Record<string, string>[] };
    return entries.filter(({ action }) => action === 'session.refused').length;
  };
  const before = await refusals();
  const browser = new Browser();
  const back = await browser.toProvider('bob');
  for (const status of ['cut', 503] as const) {
    tokenEndpoint = { status, held: Promise.resolve() };
    const [, at] = await browser.follow(back);
    assert.equal(new URL(at).search, '?login=failed', String(status));
    assert.equal((await browser.session()).status, 401);
  }
  assert.equal(await refusals(), before);
  tokenEndpoint = NO_TROUBLE;
  await browser.follow(back);
  assert.equal((await browser.session()).status, 200);
});

test('all sessions are ended while the provider is asked: the session that comes of it ends too', async () => {
  const ann = await logIn('ann');
  const browser = new Browser();
  const back = await browser.toProvider('bob');
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let wasAsked = (): void => undefined;
  const asked = new Promise<void>((resolve) => {
    wasAsked = resolve;
  });
  tokenEndpoint = {
    status: null,
    get held() {
      wasAsked();
      return held;
    },
  };
  const coming = browser.follow(back);
  await asked;
  const cookie = [...ann.browser.cookies].find(([name]) => name.endsWith(' parhelion_session'))![1];
  const ended = await fetch(`${daemon.adminUrl}${API}/sessions/end`, {
    method: 'POST',
    headers: { cookie: `parhelion_session=${cookie}`, 'x-csrf-token': ann.body['csrfToken'] as string },
  });
  assert.equal(ended.status, 200, await ended.text());
  tokenEndpoint = NO_TROUBLE;
  release();
  await coming;
  await until(async () => (await browser.session()).status === 401, 'the session has ended');
});

test('while the provider is away the log-in page says so, and tokens still work', async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  const browser = new Browser();
  const back = await browser.follow(`${daemon.adminUrl}${API}/oidc/callback?code=x&state=y`);
  assert.equal(new URL(back[1]).search, '?login=refused');
  const login = await fetch(`${daemon.adminUrl}${API}/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token: 'a wrong token' }),
  });
  assert.equal(login.status, 401);
});
