/** Keys in places where they do not belong, in every spelling: none reaches the log, at trace. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import WebSocket from 'ws';
import { maskKeys, maskMethod, maskPath, maskQuery } from '../../../src/lib/mask-keys.ts';
import { startDaemonProcess } from '../../helpers/daemon.ts';
import { rawRequest } from '../../helpers/raw-http.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const escapeAll = (text: string) => [...text].map((one) => `%${one.charCodeAt(0).toString(16)}`).join('');
const escapeDash = (text: string) => text.replaceAll('-', '%2D');

/** What a client may make of a key of the form that we give out; `id` tells which one was found. */
const FORMS: readonly ((id: string) => string)[] = [
  (id) => id,
  (id) => id.toUpperCase(),
  (id) => id.replaceAll('-', ''),
  (id) => `test-${id}`,
  (id) => `{${id}}`.slice(1, -1),
];
const ENCODINGS: readonly ((text: string) => string)[] = [
  (text) => text,
  escapeDash,
  escapeAll,
  (text) => encodeURIComponent(escapeAll(text)),
];
const NAMES = [
  'api-key',
  'apiKey',
  'api_key',
  'apikey',
  'token',
  'api-key[]',
  'api-key[0]',
  'API-KEY',
  'x-api-key',
  'key',
  'secret',
  'access_token',
  'authorization',
  'bearer',
  'api%2Dkey',
  '%61pi-key',
  'api%252Dkey',
  '+api-key',
  'clientSecret',
  'apiKeys',
];
const OTHERS = ['limit', 'x', 'before', 'q', ''];
const QUERIES: readonly ((key: string, name: string, other: string) => string)[] = [
  (key, name) => `${name}=${key}`,
  (key, name, other) => `${other}=5&${name}=${key}&y=1`,
  (key, name) => `x?${name}=${key}`,
  (key, name) => `a=1;${name}=${key}`,
  (key, name) => `a=b?${name}=${key}`,
  (key, name) => `to=${encodeURIComponent(`https://x.example/?${name}=${key}`)}`,
  (key, _name, other) => `${other}=${key}`,
  (key) => key,
  (key) => `${key}=`,
  (key, name) => `${name}==${key}`,
  (key, name) => `%zz=%&${name}=${key}`,
];
const PATHS: readonly ((key: string) => string)[] = [
  (key) => `/${key}`,
  (key) => `/v0/webhooks/${key}`,
  (key) => `/v0/webhooks/${key}/test`,
  (key) => `/v0/${key}/x`,
  (key) => `/rpc/api-key=${key}`,
  (key) => `//${key}//`,
];
const METHODS: readonly ((key: string) => string)[] = [
  (key) => key,
  (key) => `getSlot?api-key=${key}`,
  (key) => `getSlot ${key}`,
  (key) => `${key}Subscribe`,
];
const CLIENTS: readonly ((key: string) => string)[] = [
  (key) => `client/1.0 (${key})`,
  (key) => key,
  (key) => `x api-key: ${key}`,
  (key) => `Bearer ${key}`,
];

test('no key of the form of ours gets through, in any spelling', () => {
  const from = <T>(list: readonly T[]) => fc.constantFrom(...list);
  const parts = fc.tuple(fc.uuid(), from(FORMS), from(ENCODINGS), from(NAMES), from(OTHERS));
  const leaks = (text: string, id: string) => text.toLowerCase().replaceAll('-', '').includes(id.replaceAll('-', ''));
  fc.assert(
    fc.property(
      parts,
      from(QUERIES),
      from(PATHS),
      from(METHODS),
      from(CLIENTS),
      ([id, form, encode, name, other], ...make) => {
        const key = encode(form(id));
        const [query, path, method, client] = make;
        for (const text of [
          maskQuery(query(key, name, other)),
          maskPath(path(key), '-'),
          maskPath(path(key), '/v0/webhooks/:webhookID'),
          maskMethod(method(form(id))),
          maskKeys(client(form(id))),
        ])
          assert.ok(!leaks(decodeURIComponent(text.replace(/%(?![0-9a-f]{2})/gi, '')), id), text);
      },
    ),
    { numRuns: 2_000 },
  );
});

test('a key of any other form is masked below every name that sounds like one', () => {
  const key = fc.stringMatching(/^[A-Za-z0-9_.-]{6,64}$/).filter((text) => /Q\dQ/.test(`Q1Q${text}`));
  fc.assert(
    fc.property(key, fc.constantFrom(...NAMES), fc.constantFrom(...QUERIES.slice(0, 6)), (text, name, query) => {
      const marked = `Zq${text}qZ`;
      assert.ok(!maskQuery(query(marked, name, 'x')).includes(marked));
    }),
    { numRuns: 1_000 },
  );
});

test('text that is no key stays readable', () => {
  const address = '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM';
  for (const path of ['/', '/v0/webhooks', `/v1/wallet/${address}/balances`, '/docs', '/v0/webhooks/abc'])
    assert.equal(maskPath(path, path.replace(address, ':wallet')), path);
  for (const query of ['', 'limit=5&before=17', `owner=${address}`, 'a=%20b&c']) assert.equal(maskQuery(query), query);
  assert.equal(maskQuery('api-key=x&limit=5'), 'api-key=***&limit=5');
  for (const name of ['getSlot', 'getTokenAccountsByOwnerV2', 'batch(12)', 'none'])
    assert.equal(maskMethod(name), name);
  for (const client of [
    'python-requests/2.32.3',
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36',
    'helius-sdk/3.2.0',
  ])
    assert.equal(maskKeys(client), client);
});

test('over HTTP and websockets none is in the log at trace', { timeout: 120_000 }, async (t) => {
  const upstream = await startUpstream();
  t.after(() => upstream.stop());
  const daemon = await startDaemonProcess({
    chain: { rpcUrl: upstream.url },
    config: {
      log: { level: 'trace', format: 'json' },
      follow: { enabled: false },
      plugins: ['access', 'proxy', 'webhooks'],
    },
  });
  const port = Number(new URL(daemon.apiUrl).port);
  const ids: [string, string][] = [];
  let at = 0;
  /** The next key, in some form and encoding. */
  const next = (what: string, encoded = true) => {
    const id = randomUUID();
    ids.push([id, what]);
    at += 1;
    const key = FORMS[at % FORMS.length]!(id);
    return encoded ? ENCODINGS[at % ENCODINGS.length]!(key) : key;
  };
  const raw = (method: string, target: string, headers: readonly string[], body = '') =>
    rawRequest(
      port,
      [
        `${method} ${target} HTTP/1.1`,
        'Host: x',
        'Connection: close',
        ...headers,
        `Content-Length: ${Buffer.byteLength(body)}`,
        '',
        body,
      ].join('\r\n'),
    );
  const good = `X-Api-Key: ${daemon.key}`;
  const queries = QUERIES.flatMap((query, q) =>
    NAMES.filter((_, n) => n % 3 === q % 3).map((name) => ({ query, name })),
  );
  for (const { query, name } of queries) {
    const target = `/v0/webhooks?${query(next(`query ${name}`), name, 'limit')}`;
    await raw('GET', target, [good]);
  }
  for (const path of PATHS) await raw('GET', path(next('path')), [good]);
  const call = (method: string) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] });
  for (const method of METHODS) await raw('POST', '/', [good], call(method(next('method', false))));
  for (const client of CLIENTS)
    for (const header of ['User-Agent', 'Solana-Client', 'X-Helius-Client'])
      await raw('GET', '/ping', [`${header}: ${client(next(header, false))}`]);
  const ws = daemon.apiUrl.replace('http', 'ws');
  for (const name of NAMES.slice(0, 6)) {
    const refused = new WebSocket(`${ws}/?x=1&${name}=${next(`websocket ${name}`, false)}`);
    await new Promise((resolve) => refused.once('error', resolve));
  }
  const socket = new WebSocket(
    `${ws}/${next('websocket path', false)}?api-key=${daemon.key}&to=${next('websocket query', false)}`,
  );
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  for (const method of METHODS) {
    const answered = new Promise((resolve) => socket.once('message', resolve));
    socket.send(call(method(next('websocket method', false))));
    await answered;
  }
  socket.terminate();
  await daemon.stop();
  const log = decodeURIComponent(daemon.output().replace(/%(?![0-9a-f]{2})/gi, ''))
    .toLowerCase()
    .replaceAll('-', '');
  assert.ok(log.split('\n').length > ids.length / 2, 'there is something to search');
  assert.deepEqual(
    ids.filter(([id]) => log.includes(id.replaceAll('-', ''))).map(([, what]) => what),
    [],
  );
  assert.ok(!log.includes(daemon.key.toLowerCase().replaceAll('-', '')));
});
