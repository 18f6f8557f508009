import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { type TokenMetadataConfig, tokenMetadataConfig } from './config.ts';
import { shapeDocument } from './document-shape.ts';
import { createDocuments, locateDocument } from './documents.ts';
import { type DocumentStore, failedDocument, type OffChainAnswer } from './store.ts';

const gateways = {
  ipfsGateways: ['https://one.example/ipfs/', 'https://two.example/ipfs'],
  arweaveGateways: ['https://ar.example/'],
};
const urls = (uri: string): readonly string[] | null => {
  const found = locateDocument(uri, gateways);
  return found === null || found.kind === 'inline' ? null : found.kind === 'web' ? [found.url] : found.urls;
};
const V0 = `Qm${'a'.repeat(44)}`;
const V1 = 'bafkreidufguwhdhsrfpuempvr2fbrybzhir5xmuamjelg4wmom4j27linm';

test('where a uri leads', () => {
  const ipfs = (path: string) => [`https://one.example/ipfs/${path}`, `https://two.example/ipfs/${path}`];
  const cases: readonly (readonly [string, readonly string[] | null])[] = [
    ['https://example.com/a?b=c', ['https://example.com/a?b=c']],
    ['http://example.com', ['http://example.com/']],
    [`ipfs://${V1}/0.json`, ipfs(`${V1}/0.json`)],
    [`ipfs://ipfs/${V0}`, ipfs(V0)],
    [`IPFS://${V0}`, ipfs(V0)],
    [V0, ipfs(V0)],
    [`${V1}/metadata.json`, ipfs(`${V1}/metadata.json`)],
    ['ar://abc_-9', ['https://ar.example/abc_-9']],
    ['arweave.net/abc', ['https://ar.example/abc']],
    ['https://arweave.net/abc?ext=json', ['https://ar.example/abc?ext=json']],
    ['https://xyz.arweave.net/abc', ['https://ar.example/abc']],
    ['https://arweave.net.evil.example/abc', ['https://arweave.net.evil.example/abc']],
    ['https://arweave.net', ['https://arweave.net/']],
    [' https://example.com/a ', ['https://example.com/a']],
    [`ipfs://${V1}/a%20b.json`, ipfs(`${V1}/a%20b.json`)],
    [`ipfs://${V1}/100%25.json`, ipfs(`${V1}/100%25.json`)],
    ['ipfs://%zz/..%2f..%2fapi', null],
    // Whoever writes to the chain stays below the gateway, however the path is spelled.
    ['ipfs://../api/v0/shutdown', null],
    [`ipfs://${V1}/../../api/v0/shutdown`, null],
    ['ipfs://%2e%2e/api/v0/shutdown', null],
    ['ipfs://..%2fapi/v0/shutdown', null],
    ['ipfs://%252e%252e/api', null],
    [`ipfs://${V1}/..%5c..%5capi`, null],
    ['ipfs://..\\api', null],
    ['ipfs://ipfs/../api', null],
    [`ipfs://${V1}/..;/..;x=1/api`, null],
    [`ipfs://${V1}/%2e%2e%3b/api`, null],
    [`ipfs://${V1}/..%00/..%00/api`, null],
    [`ipfs://${V1}/..%20/..%20/api`, null],
    [`ipfs://${V1}/%c0%ae%c0%ae/%c0%ae%c0%ae/api`, null],
    [`ipfs://${V1}/..%c0%af..%c0%afapi`, null],
    [`ipfs://${V1}/Caf%C3%A9..json`, ipfs(`${V1}/Caf%C3%A9..json`)],
    ['ar://../admin', ['https://ar.example/admin']],
    ['ar://..%2fadmin', null],
    ['', null],
    ['ipfs://', null],
    ['file:///etc/passwd', null],
    ['example.com/a', null],
    ['Qmtooshort', null],
  ];
  for (const [uri, expected] of cases) assert.deepEqual(urls(uri), expected, uri);
  assert.equal(locateDocument('ar://abc', { ...gateways, arweaveGateways: [] }), null);
  const atRoot = { ...gateways, ipfsGateways: ['http://10.0.0.5:8080/'] };
  assert.notEqual(locateDocument(`ipfs://${V0}`, atRoot), null);
  for (const uri of ['ipfs://api/v0/shutdown', 'ipfs://ipfs/api/v0/shutdown', 'ipfs://ipfs/ipfs/../api'])
    assert.equal(locateDocument(uri, atRoot), null, uri);
});

test('documents that stand in the uri itself', () => {
  const text = (uri: string) => {
    const found = locateDocument(uri, gateways);
    return found?.kind === 'inline' ? found.bytes.toString() : null;
  };
  assert.equal(text('data:application/json,{"a":"%C3%A9"}'), '{"a":"é"}');
  assert.equal(text('DATA:application/json;charset=utf-8;base64,eyJhIjoxfQ=='), '{"a":1}');
  assert.equal(text('data:,{}'), '{}');
  for (const uri of [
    'data:application/json',
    'data:application/json;base64,eyJh*',
    'data:application/json;base64,AAAAA',
  ])
    assert.equal(text(uri), null, uri);
});

test('a data: uri is read as fetch reads it', async () => {
  const head = fc.constantFrom(
    '',
    'application/json',
    'text/html',
    'application/json;utf8',
    'a/b;charset=utf-8',
    ' x/y ',
  );
  const json = fc.json({ maxDepth: 1 });
  const plain = fc
    .tuple(head, json, fc.constantFrom('', '#fragment', ' ', '%'))
    .map(([type, body, tail]) => `data:${type},${body}${tail}`);
  const escaped = fc.tuple(head, json).map(([type, body]) => `data:${type},${encodeURIComponent(body)}`);
  const packed = fc
    .tuple(
      head,
      json,
      fc.constantFrom(';base64', '; base64', ';BASE64', ';base64 ', ';base64;x'),
      fc.constantFrom('', '=', ' ', '!'),
    )
    .map(([type, body, mark, tail]) => `data:${type}${mark},${Buffer.from(body).toString('base64')}${tail}`);
  const lone = fc.constant('data:application/json;utf8,{"name":"p","description":"100% on chain"}');
  const read = (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes));
  await fc.assert(
    fc.asyncProperty(fc.oneof(plain, escaped, packed, lone), async (uri) => {
      const theirs = await fetch(uri)
        .then((response) => response.json())
        .catch(() => 'no document');
      const found = locateDocument(uri, gateways);
      let ours: unknown = 'no document';
      try {
        if (found?.kind === 'inline') ours = read(found.bytes);
      } catch {
        // No JSON.
      }
      assert.deepEqual(ours, theirs);
    }),
  );
});

test('whatever a document says, it gets the one shape or none', () => {
  const types = {
    original: 'object',
    name: 'string',
    symbol: 'string',
    description: 'string',
    image: 'string',
    attributes: 'object',
    sellerFeeBasisPoints: 'number',
    properties: 'object',
  };
  const key = fc.constantFrom(
    'name',
    'symbol',
    'image',
    'attributes',
    'properties',
    'seller_fee_basis_points',
    'creators',
    'files',
    'trait_type',
    'value',
    'share',
    '__proto__',
    'toString',
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.jsonValue(),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(key, tie('value'), { maxKeys: 6, noNullPrototype: true }),
    ),
  }));
  fc.assert(
    fc.property(fc.oneof(value, fc.dictionary(key, value, { noNullPrototype: true })), (given) => {
      const shaped = shapeDocument(JSON.stringify(given));
      assert.equal(shaped === null, typeof given !== 'object' || given === null || Array.isArray(given));
      if (shaped === null) return;
      assert.deepEqual(
        Object.fromEntries(Object.entries(shaped).map(([name, member]) => [name, typeof member])),
        types,
      );
      for (const attribute of shaped.attributes ?? [])
        assert.deepEqual(
          Object.values(attribute).map((member) => typeof member),
          ['string', 'string'],
        );
      for (const creator of shaped.properties.creators ?? [])
        assert.ok(Number.isInteger(creator.share) && typeof creator.address === 'string');
      assert.deepEqual(JSON.parse(JSON.stringify(shaped)), shaped);
    }),
  );
  for (const text of ['', '{', 'null', '1', '"a"', '[]']) assert.equal(shapeDocument(text), null, text);
});

/** Documents whose fetches a test ends; those of `dead` hosts end as timeouts, one round at a time. */
function createBed() {
  const clock = createManualClock();
  const open: { readonly uri: string; end(answer: OffChainAnswer): void }[] = [];
  const { offChain } = Value.Default(tokenMetadataConfig, {}) as TokenMetadataConfig;
  const config = {
    ...offChain,
    concurrency: 16,
    concurrencyPerHost: 4,
    maxWaiting: 1_000,
  };
  const documents = createDocuments({
    fetch: (uri) => new Promise((end) => open.push({ uri, end })),
    store: { load: async () => new Map(), save: () => undefined } as unknown as DocumentStore,
    clock,
    config,
    cacheBytes: 1_000_000,
  });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  return {
    clock,
    documents,
    open,
    turn,
    /** All fetches in flight come to their end. */
    async round(): Promise<void> {
      for (const { uri, end } of open.splice(0)) end(failedDocument(uri.includes('dead') ? 'TIMEOUT' : 'UNKNOWN'));
      for (let i = 0; i < 5; i += 1) await turn();
    },
  };
}

const dead = (count: number) => Array.from({ length: count }, (_, at) => `https://dead${at % 4}.example/${at}`);

test('one tenant with documents of silent hosts does not keep those of another one waiting', async () => {
  const { documents, open, turn } = createBed();
  void documents.get(dead(1_100), { waitMs: 60_000, fresh: false, group: 'attacker' });
  await turn();
  assert.ok(open.length > 0 && open.length < 16);
  void documents.get(['https://alive.example/mine'], { waitMs: 60_000, fresh: false, group: 'victim' });
  await turn();
  assert.ok(open.some(({ uri }) => uri === 'https://alive.example/mine'));
});

test('a host that is silent again and again is left alone for a while', async () => {
  const { clock, documents, open, round, turn } = createBed();
  let asked = 0;
  void documents.get(dead(1_000), { waitMs: 600_000, fresh: false, group: 'attacker' });
  await turn();
  for (let i = 0; i < 10 && open.length > 0; i += 1) {
    asked += open.length;
    await round();
  }
  assert.ok(asked <= 32, `${asked} fetches`);
  assert.equal(documents.waiting(), 0);
  const late = await documents.get(['https://dead0.example/other'], { waitMs: 1_000, fresh: false, group: 'victim' });
  assert.equal(late.get('https://dead0.example/other')?.error, 'TIMEOUT');
  await clock.advance(60_001);
  void documents.get(['https://dead0.example/other'], { waitMs: 1_000, fresh: false, group: 'victim' });
  await turn();
  assert.equal(open.length, 1);
});

test('two tenants that ask for the same document cause one fetch, and both get it', async () => {
  const { documents, open, turn } = createBed();
  const both = ['one', 'two'].map((group) =>
    documents.get(['https://alive.example/a'], { waitMs: 1_000, fresh: false, group }),
  );
  await turn();
  assert.equal(open.length, 1);
  open[0]!.end(failedDocument('UNKNOWN'));
  for (const answers of await Promise.all(both)) assert.equal(answers.get('https://alive.example/a')?.error, 'UNKNOWN');
});
