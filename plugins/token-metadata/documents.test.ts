import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { shapeDocument } from './document-shape.ts';
import { locate } from './documents.ts';

const gateways = {
  ipfsGateways: ['https://one.example/ipfs/', 'https://two.example/ipfs'],
  arweaveGateways: ['https://ar.example/'],
};
const urls = (uri: string): readonly string[] | null => {
  const found = locate(uri, gateways);
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
  assert.equal(locate('ar://abc', { ...gateways, arweaveGateways: [] }), null);
  const atRoot = { ...gateways, ipfsGateways: ['http://10.0.0.5:8080/'] };
  assert.notEqual(locate(`ipfs://${V0}`, atRoot), null);
  for (const uri of ['ipfs://api/v0/shutdown', 'ipfs://ipfs/api/v0/shutdown', 'ipfs://ipfs/ipfs/../api'])
    assert.equal(locate(uri, atRoot), null, uri);
});

test('documents that stand in the uri itself', () => {
  const text = (uri: string) => {
    const found = locate(uri, gateways);
    return found?.kind === 'inline' ? found.bytes.toString() : null;
  };
  assert.equal(text('data:application/json,{"a":"%C3%A9"}'), '{"a":"é"}');
  assert.equal(text('DATA:application/json;charset=utf-8;base64,eyJhIjoxfQ=='), '{"a":1}');
  assert.equal(text('data:,{}'), '{}');
  for (const uri of [
    'data:text/html,{}',
    'data:application/json',
    'data:application/json,%',
    'data:image/png;base64,AA',
  ])
    assert.equal(text(uri), null, uri);
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
