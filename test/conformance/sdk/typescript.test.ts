/** The package for TypeScript, made from what a daemon serves: the compiler takes it, and programs call the daemon with it. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { documentsOf, ownDocuments } from '../../../packaging/sdk/documents.ts';
import { modelOf } from '../../../packaging/sdk/model.ts';
import { sdkFiles, typescriptSources } from '../../../packaging/sdk/packages.ts';
import { SYSTEM_PROGRAM } from '../../../src/solana/programs.ts';
import { EXAMPLES } from '../../../src/solana/schemas.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const root = findProjectRoot();
const missing = await chainMissing();
/** More than a double holds. */
const LAMPORTS = 9_007_199_254_740_993n;
const ABSENT = '5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11';

type Answer = Promise<Readonly<Record<string, unknown>>>;
interface Parhelion {
  readonly rpc: Readonly<Record<string, (...args: readonly unknown[]) => Promise<unknown>>>;
  call(method: string, params?: unknown, call?: object): Promise<unknown>;
  getPing(): Promise<string>;
  getWalletBalances(wallet: string, query?: object, call?: object): Answer;
  postWebhooks(body: object): Answer;
  getWebhook(webhookID: string): Answer;
  putWebhook(webhookID: string, body: object): Answer;
  deleteWebhook(webhookID: string): Promise<null>;
  getWebhookDeliveries(webhookID: string, query?: object): Answer;
}
interface Sdk {
  readonly Parhelion: new (options: object) => Parhelion;
  readonly ParhelionError: new (...args: never[]) => Error;
}

/** What an error says that tells it from others. */
const failure =
  (expected: Readonly<Record<string, unknown>>) =>
  (error: Error & Readonly<Record<string, unknown>>): true => {
    assert.equal(error.name, 'ParhelionError', String(error.stack));
    for (const [name, value] of Object.entries(expected))
      assert.deepEqual(error[name], value, `${name} of ${error.stack}`);
    return true;
  };

describe('the package for TypeScript', { skip: missing ?? false }, () => {
  mkdirSync(join(root, '.cache'), { recursive: true });
  const folder = mkdtempSync(join(root, '.cache/sdk-'));
  let chain: TestChain;
  let daemon: DaemonInProcess;
  let sdk: Sdk;
  let client: Parhelion;
  const clientOf = (options: object = {}) =>
    new sdk.Parhelion({ baseUrl: daemon.apiUrl, apiKey: daemon.key, ...options });

  before(async () => {
    chain = await startChain({ slotMs: 0 });
    await chain.setAccount(EXAMPLES.address, { owner: SYSTEM_PROGRAM, lamports: LAMPORTS, data: new Uint8Array() });
    daemon = await startDaemon({ chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl } });
    for (const [name, text] of sdkFiles(await documentsOf(daemon.apiUrl), { root }))
      if (name.startsWith('typescript/')) writeFileSync(join(folder, name.slice('typescript/'.length)), text);
    sdk = (await import(pathToFileURL(join(folder, 'index.js')).href)) as Sdk;
    client = clientOf();
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('it is made from what a daemon serves, without one too', async () => {
    assert.deepEqual(
      modelOf(await ownDocuments(root)).operations,
      modelOf(await documentsOf(daemon.apiUrl)).operations,
    );
    assert.deepEqual(modelOf(await ownDocuments(root)).methods, modelOf(await documentsOf(daemon.apiUrl)).methods);
  });

  test('routes: an answer, a body, parameters of path and query, a text, an answer without a body', async () => {
    const { balances } = await client.getWalletBalances(EXAMPLES.address, { limit: 10, showNative: true });
    assert.equal((balances as readonly { symbol: string }[])[0]?.symbol, 'SOL');
    assert.match(await client.getPing(), /^\S+$/);
    const body = { webhookURL: 'https://example.org/hook', webhookType: 'raw', accountAddresses: [EXAMPLES.address] };
    const { webhookID } = (await client.postWebhooks(body)) as { webhookID: string };
    assert.equal((await client.putWebhook(webhookID, { name: 'Größe' }))['name'], 'Größe');
    const page = await client.getWebhookDeliveries(webhookID, { limit: 5, cursor: undefined });
    assert.deepEqual(page['data'], []);
    assert.equal(await client.deleteWebhook(webhookID), null);
    await assert.rejects(
      client.getWebhook(webhookID),
      failure({ kind: 'http', status: 404, code: null, retryAfter: null, message: 'webhook not found' }),
    );
  });

  test('methods: by position, by name, unknown ones; all digits of an integer', async () => {
    const { rpc } = client;
    const balance = (await rpc['getBalance']!(EXAMPLES.address, { commitment: 'confirmed' })) as { value: unknown };
    assert.equal(balance.value, LAMPORTS);
    const { value } = (await rpc['getAccountInfo']!(EXAMPLES.address)) as { value: Readonly<Record<string, unknown>> };
    assert.equal(value['rentEpoch'], 2n ** 64n - 1n);
    assert.equal(value['space'], 0);
    const fee = (await rpc['getPriorityFeeEstimate']!({ accountKeys: [EXAMPLES.address] })) as object;
    assert.ok('priorityFeeEstimate' in fee);
    const owned = (await rpc['getAssetsByOwner']!({ ownerAddress: EXAMPLES.address, limit: 5 })) as { limit: unknown };
    assert.equal(owned.limit, 5);
    assert.equal(typeof (await client.call('getGenesisHash')), 'string');
  });

  test('errors of methods have their code and reason', async () => {
    await assert.rejects(client.rpc['getAsset']!({ id: 'x' }), failure({ kind: 'rpc', status: 200, code: -32_602 }));
    await assert.rejects(client.call('noSuchMethod'), failure({ kind: 'rpc', status: 200, code: -32_601 }));
  });

  test('a wrong key is refused, for routes and methods', async () => {
    const wrong = clientOf({ apiKey: 'wrong' });
    const message = 'Invalid API key';
    await assert.rejects(wrong.getWebhook(ABSENT), failure({ kind: 'http', status: 401, message }));
    await assert.rejects(wrong.call('getSlot'), failure({ kind: 'rpc', status: 401, code: -32_001 }));
    await assert.rejects(
      wrong.getWebhook(ABSENT),
      ({ requestId }: { requestId: unknown }) => typeof requestId === 'string',
    );
  });

  test('a daemon that does not answer, or is not there', async (t) => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    t.after(() => {
      silent.closeAllConnections();
      silent.close();
    });
    await new Promise((resolve) => silent.once('listening', resolve));
    const baseUrl = `http://127.0.0.1:${(silent.address() as { port: number }).port}/`;
    const slow = clientOf({ baseUrl, timeoutMs: 50 });
    await assert.rejects(slow.call('getSlot'), failure({ kind: 'timeout', status: null }));
    const gone = new AbortController();
    const waiting = clientOf({ baseUrl }).getWalletBalances(EXAMPLES.address, {}, { signal: gone.signal });
    gone.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
    await assert.rejects(clientOf({ baseUrl: 'http://127.0.0.1:9' }).call('getSlot'), failure({ kind: 'connection' }));
  });

  test('what the daemon asks to send again is sent again, for reads and methods only', async () => {
    const sent: string[] = [];
    const headers = { 'retry-after': '0', 'x-request-id': 'r1' };
    const busy = (answers: number) => {
      let refused = 0;
      return clientOf({
        fetch: async (url: string, { method }: { method: string }) => {
          sent.push(`${method} ${new URL(url).pathname}`);
          refused += 1;
          return refused > answers
            ? new Response('{"jsonrpc":"2.0","result":[],"id":1}')
            : new Response('{"error":"Service unavailable","code":503,"details":"indexing"}', { status: 503, headers });
        },
      });
    };
    await busy(2).call('getSlot');
    await busy(1).getWebhook(ABSENT);
    const facts = { kind: 'http', status: 503, details: 'indexing', retryAfter: 0, requestId: 'r1' };
    await assert.rejects(busy(9).postWebhooks({}), failure(facts));
    await assert.rejects(busy(9).call('getSlot', undefined, { retries: 1 }), failure(facts));
    const read = `GET /v0/webhooks/${ABSENT}`;
    const call = 'POST /';
    assert.deepEqual(sent, [call, call, call, read, read, 'POST /v0/webhooks', call, call]);
  });

  test('the key goes to this daemon only, where a route takes one, and nothing follows a redirect', async () => {
    const seen: { url: string; init: { headers: Record<string, string>; redirect: string } }[] = [];
    const spy = clientOf({
      baseUrl: 'http://127.0.0.1:1///',
      apiKey: 'k',
      fetch: async (url: string, init: { headers: Record<string, string>; redirect: string }) => {
        seen.push({ url, init });
        return new Response('null');
      },
    });
    await spy.getWebhookDeliveries('a/b?c', { status: 'a&b', limit: 2 });
    await spy.getPing();
    assert.equal(seen[0]!.url, 'http://127.0.0.1:1/v0/webhooks/a%2Fb%3Fc/deliveries?status=a%26b&limit=2');
    assert.equal(seen[0]!.init.headers['X-Api-Key'], 'k');
    assert.equal(seen[1]!.init.headers['X-Api-Key'], undefined);
    assert.deepEqual(new Set(seen.map(({ init }) => init.redirect)), new Set(['error']));
  });

  test('JSON with integers of any size comes and goes with all digits', async () => {
    const { decodeJson, encodeJson } = (await import(pathToFileURL(join(folder, 'client.js')).href)) as {
      decodeJson(text: string): unknown;
      encodeJson(value: unknown): string;
    };
    const text = String.raw`{"a":18446744073709551615,"b":[-9007199254740993,9007199254740991,1234567890123456.5,1e300,true],"c":"\"18446744073709551615\\","integer:":null}`;
    assert.deepEqual(decodeJson(text), {
      a: 2n ** 64n - 1n,
      b: [-9_007_199_254_740_993n, 9_007_199_254_740_991, 1_234_567_890_123_456.5, 1e300, true],
      c: '"18446744073709551615\\',
      'integer:': null,
    });
    assert.equal(decodeJson('18446744073709551615'), 2n ** 64n - 1n);
    assert.equal(decodeJson('9007199254740992'), 9_007_199_254_740_992n);
    assert.equal(
      encodeJson({ a: 2n ** 64n - 1n, b: [undefined, null, 'x"'], c: undefined, d: {} }),
      '{"a":18446744073709551615,"b":[null,null,"x\\""],"d":{}}',
    );
  });

  test('the compiler takes it strictly, and knows what a call takes and gives', async () => {
    const model = modelOf(await documentsOf(daemon.apiUrl));
    const client = readFileSync(join(root, 'packaging/sdk/typescript/client.ts'), 'utf8');
    const sources = join(folder, 'sources');
    mkdirSync(sources);
    writeFileSync(join(sources, 'package.json'), '{"type":"module"}');
    for (const [name, text] of Object.entries(typescriptSources(model, client)))
      writeFileSync(join(sources, name), text);
    writeFileSync(join(sources, 'use.ts'), USE);
    // Beside what the package has instead of the sources.
    writeFileSync(join(folder, 'use.ts'), USE);
    assert.deepEqual(faultsOf([join(sources, 'use.ts'), join(folder, 'use.ts')]), []);
  });
});

const USE = `
import { Parhelion, ParhelionError, type Uint64 } from './index.js';

const client = new Parhelion({ baseUrl: 'http://127.0.0.1:8787' });
const balance: Uint64 = (await client.rpc.getBalance('address', { commitment: 'confirmed' })).value;
const slot: number = await client.rpc.getSlot();
const owner: string | undefined = (await client.rpc.getAccountInfo('address')).value?.owner;
const page = await client.getWalletHistory('wallet', { limit: 10, tokenAccounts: 'all' });
const next: string | null = page.pagination.nextCursor;
const hook = await client.postWebhooks({ webhookURL: 'https://example.org', webhookType: 'raw' });
const active: boolean = hook.active;
// @ts-expect-error lamports may be beyond a number
const wrong: number = balance;
// @ts-expect-error a webhook has no such type
await client.postWebhooks({ webhookURL: 'https://example.org', webhookType: 'weekly' });
// @ts-expect-error the id is missing
await client.rpc.getAsset({});
// @ts-expect-error there is no such method
await client.rpc.getNothing();
export { ParhelionError, active, next, owner, slot, wrong };
`;

function faultsOf(files: readonly string[]): string[] {
  const program = ts.createProgram(files, {
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noUnusedLocals: true,
    noUnusedParameters: true,
    noEmit: true,
    // Those of the compiler itself.
    skipDefaultLibCheck: true,
  });
  return ts.getPreEmitDiagnostics(program).map(({ file: where, start = 0, messageText }) => {
    const line = where?.getLineAndCharacterOfPosition(start).line ?? 0;
    return `${where?.fileName}:${line + 1}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
