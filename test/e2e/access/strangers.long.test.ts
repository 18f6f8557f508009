/** Whatever a project owns is not there for another one: every route of the daemon, with ids that exist and ids that do not. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { type DashboardBed, startDashboard, type Visitor } from '../../conformance/dashboard/harness.ts';
import { type Api, apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';

type Ids = Readonly<Record<string, string>>;

interface Operation {
  readonly method: string;
  readonly path: string;
}

const API = '/dashboard/api';
/** Parameters that name what a project owns. */
const OWNED = new Set(['webhookID', 'deliveryId', 'id', 'project', 'key', 'requestId']);
/** Parameters that name what everybody may look at. */
const PUBLIC = new Set(['wallet', 'address', 'file', 'sink', 'operator']);
/** A body that every route takes, as far as it gets. */
const BODY = {
  webhookURL: 'https://stranger.example/',
  accountAddresses: [Keypair.generate().publicKey.toBase58()],
  what: 'asset',
  address: Keypair.generate().publicKey.toBase58(),
  active: false,
  since: 1,
  name: 'x',
  plan: 'free',
  ips: ['10.0.0.1'],
  method: 'GET',
  path: '/v0/webhooks',
  lamports: 1,
  depth: 1,
  keepsTransactions: true,
  role: 'viewer',
};
const RANGE = { ...BODY, fromSlot: 1, toSlot: 2 };

const namesOf = (path: string): string[] => [...path.matchAll(/[{:](\w+)\}?/g)].map(([, name]) => name as string);
const isOwned = ({ path }: Operation): boolean => namesOf(path).some((name) => OWNED.has(name));
const fill = (path: string, ids: Ids): string =>
  path.replace(/[{:](\w+)\}?/g, (_, name: string) => ids[name] ?? Keypair.generate().publicKey.toBase58());
function bodyOf({ method, path }: Operation, body: object): object | undefined {
  if (method === 'GET') return undefined;
  // It takes no path of another endpoint.
  return path.endsWith('/interfaces') ? { ...body, path: '/v1/parsed-events/idls' } : body;
}

describe('what belongs to somebody else', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  let receiver: Receiver;
  let bed: DashboardBed;
  let owner: Api;
  let stranger: Api;
  let operations: readonly Operation[];
  let pages: readonly Operation[];
  let visitor: Visitor;
  /** What the owner has. */
  let theirs: Ids;
  /** The same of the stranger, who has no delivery. */
  let mine: Ids;
  /** Texts that would betray it. */
  let marks: readonly string[];

  before(async () => {
    const payer = Keypair.generate();
    const watched = Keypair.generate().publicKey;
    chain = await startChain();
    await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
    receiver = await startReceiver();
    const plugins = ['access', 'compression', 'dashboard', 'enhanced', 'prices', 'proxy', 'sender', 'token-metadata'];
    bed = await startDashboard(
      { plugins: [...plugins, 'wallet', 'webhooks'], webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
      chain,
    );
    const operator = await bed.operator();
    const make = async (url: string, key: string) => {
      const api = apiOf(bed.daemon.apiUrl, key);
      const hook = { webhookURL: url, webhookType: 'raw', authHeader: `secret of ${url}` };
      const made = await api('POST', '/v0/webhooks', { ...hook, accountAddresses: [watched.toBase58()] });
      assert.equal(made.status, 200, JSON.stringify(made.body));
      return { api, id: made.body.webhookID as string };
    };
    const first = await make(`${receiver.url}/theirs`, bed.daemon.key);
    const { body: project } = await operator.ask('POST', `${API}/projects`, { name: 'stranger', plan: 'unlimited' });
    const { body: key } = await operator.ask('POST', `${API}/projects/${project.id}/keys`, { name: 'k' });
    const second = await make('http://127.0.0.1:9/mine', key.key);
    const pay = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: watched, lamports: 1_000_000 });
    const confirm = { commitment: 'confirmed' } as const;
    const signature = await sendAndConfirmTransaction(chain.connection, new Transaction().add(pay), [payer], confirm);
    await receiver.waitFor(1);
    owner = first.api;
    stranger = second.api;
    const deliveries = async () => (await owner('GET', `/v0/webhooks/${first.id}/deliveries`)).body.data;
    await until(async () => (await deliveries())[0]?.status === 'delivered');
    const { body: keys } = await operator.ask('GET', `${API}/projects/${bed.daemon.projectId}/keys`);
    const { body: calls } = await operator.ask('GET', `${API}/projects/${bed.daemon.projectId}/requests`);
    theirs = {
      webhookID: first.id,
      deliveryId: (await deliveries())[0].deliveryId,
      id: bed.daemon.projectId,
      project: bed.daemon.projectId,
      key: keys.keys[0].id,
      requestId: calls.requests[0].requestId,
    };
    mine = { webhookID: second.id, deliveryId: '1', id: project.id, project: project.id, key: key.id };
    marks = [`${receiver.url}/theirs`, theirs['key'] as string, 'first project', signature];
    const { body: secret } = await operator.ask('POST', `${API}/projects/${project.id}/secret`);
    visitor = await bed.logIn({ project: project.id, secret: secret.secret });
    await readRoutes(operator);
  });
  after(async () => {
    await bed?.stop();
    await receiver?.close();
    await chain?.stop();
  });

  /** Those of the document, and those that the pages call: a new one is looked at without being named here. */
  async function readRoutes(operator: Visitor): Promise<void> {
    const document = (await (await fetch(`${bed.daemon.apiUrl}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { security?: object[] }>>;
    };
    operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { security = [] }]) => security.length > 0)
        .map(([method]) => ({ method: method.toUpperCase(), path })),
    );
    const { body } = await operator.ask('GET', `${API}/plugins`);
    const { routes } = body.plugins.find(({ id }: { id: string }) => id === 'dashboard') as { routes: string[] };
    pages = routes.map((route) => {
      const [method = '', path = ''] = route.split(' ');
      return { method, path };
    });
  }

  const where = ({ method, path }: Operation) => `${method} ${path}`;
  const tellsNothing = (answer: { readonly body: unknown }, operation: Operation) => {
    const text = JSON.stringify(answer.body ?? '');
    for (const mark of marks) assert.ok(!text.includes(mark), `${where(operation)} tells ${mark}: ${text}`);
  };
  const madeUp = () => ({ webhookID: randomUUID(), deliveryId: '999999', id: randomUUID() });

  test('every parameter of a path is known: a new one has to be put into one of the two lists above', () => {
    const all = new Set([...operations, ...pages].flatMap(({ path }) => namesOf(path)));
    assert.deepEqual(
      [...all].filter((name) => !OWNED.has(name) && !PUBLIC.has(name)),
      [],
    );
    assert.ok(operations.filter(isOwned).length >= 15 && pages.filter(isOwned).length >= 7);
  });

  test('ids of another project answer as ids that nobody has', async () => {
    const before = await owner('GET', `/v0/webhooks/${theirs['webhookID']}`);
    for (const operation of operations.filter(isOwned))
      for (const body of [BODY, RANGE]) {
        const { method, path } = operation;
        const answer = await stranger(method, fill(path, theirs), bodyOf(operation, body));
        const expected = path.startsWith('/v0/admin/')
          ? { statusCode: 400, message: 'Invalid project id', error: 'Bad Request' }
          : { error: 'webhook not found', code: 404 };
        assert.deepEqual(answer.body, expected, where(operation));
        const nobodys = await stranger(method, fill(path, madeUp()), bodyOf(operation, body));
        assert.deepEqual(answer, nobodys, `${where(operation)}: whether it exists shows`);
      }
    assert.deepEqual(await owner('GET', `/v0/webhooks/${theirs['webhookID']}`), before, 'nothing has changed');
    assert.equal(receiver.received.length, 1, 'nothing was sent again');
  });

  test('a delivery of another webhook is not found below the own one', async () => {
    const mixed = { ...theirs, webhookID: mine['webhookID'] as string };
    const both = operations.filter(({ path }) => path.includes('{webhookID}') && path.includes('{deliveryId}'));
    assert.ok(both.length >= 3);
    for (const operation of both) {
      const answer = await stranger(operation.method, fill(operation.path, mixed), bodyOf(operation, BODY));
      assert.deepEqual(answer.body, { error: 'delivery not found', code: 404 }, where(operation));
    }
    assert.equal(receiver.received.length, 1);
  });

  test('lists hold what is one’s own', async () => {
    const lists = operations.filter((one) => one.method === 'GET' && namesOf(one.path).length === 0);
    assert.ok(lists.some(({ path }) => path === '/v0/webhooks'));
    for (const operation of lists) tellsNothing(await stranger('GET', operation.path), operation);
    assert.equal((await stranger('GET', '/v0/webhooks')).body.length, 1);
  });

  test('the owner of a project gets no further on the pages', async () => {
    const logIn = ['login', 'logout', 'oidc', 'oidc/callback', 'portal', 'session', 'sessions/end'];
    const ownWay = [...logIn, 'live'].map((name) => `${API}/${name}`);
    for (const operation of pages.filter(({ path }) => path.startsWith(API) && !ownWay.includes(path))) {
      const { method, path } = operation;
      const query = path.includes('usage')
        ? '?from=2026-01-01&to=2026-01-02'
        : path.endsWith('series')
          ? '?range=1h'
          : path.endsWith('picture')
            ? '?uri=https%3A%2F%2Fstranger.example%2Fa.png&proof=forged'
            : '';
      const answer = await visitor.ask(method, fill(path, theirs) + query, bodyOf(operation, BODY));
      tellsNothing({ body: answer.text }, operation);
      if (!isOwned(operation)) {
        // The own projects, and what forms offer, which is the same for everybody.
        const isOpen = [`${API}/projects`, `${API}/choices`].includes(path);
        assert.ok(answer.status === 403 || isOpen, where(operation));
        continue;
      }
      assert.equal(answer.status, 404, `${where(operation)}: ${answer.text}`);
      const nobodys = await visitor.ask(method, fill(path, { project: randomUUID() }) + query, bodyOf(operation, BODY));
      assert.deepEqual([answer.status, answer.body], [nobodys.status, nobodys.body], where(operation));
      if (!path.includes(':key')) continue;
      const mixed = { ...theirs, project: mine['project'] as string };
      const foreign = await visitor.ask(method, fill(path, mixed), bodyOf(operation, BODY));
      assert.equal(foreign.status, 404, `${where(operation)}: a key of another project`);
    }
  });

  test('nor by members of a body that the route does not know', async () => {
    const keys = `${API}/projects/${mine['project']}/keys`;
    const made = await visitor.ask('POST', keys, { name: 'own', projectId: theirs['project'], id: theirs['key'] });
    assert.equal(made.status, 201, made.text);
    const { body: own } = await visitor.ask('GET', keys);
    assert.ok(
      own.keys.some(({ id }: { id: string }) => id === made.body.id),
      'the key belongs to the own project',
    );
    const limited = await visitor.ask('PUT', `${keys}/${made.body.id}/limits`, {
      ips: null,
      projectId: theirs['project'],
    });
    assert.equal(limited.status, 200, limited.text);
  });

  test('nor by the calls that the pages make for it', async () => {
    for (const { method, path } of operations.filter((one) => one.path.includes('{webhookID}'))) {
      const call = { method, path: fill(path, theirs), ...(method === 'GET' ? {} : { body: BODY }) };
      const answer = await visitor.ask('POST', `${API}/projects/${mine['project']}/webhooks`, call);
      assert.equal(answer.status, 404, `${method} ${path}: ${answer.text}`);
      assert.equal(answer.body.error, 'webhook not found');
    }
    assert.equal(receiver.received.length, 1);
  });
});
