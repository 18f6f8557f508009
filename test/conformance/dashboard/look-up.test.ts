/** Wallets and assets on the pages: calls at the credits of the project, and pictures that strangers chose. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, startReceiver } from '../../helpers/receiver.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { startDashboard, type Visitor } from './harness.ts';

const API = '/dashboard/api';
const ASSET = 'So11111111111111111111111111111111111111112';
/** Not the one of the guard's other rules: a redirect from here to 127.0.0.1 has to be refused. */
const ELSEWHERE = '127.0.0.2';
const GIF = 'GIF89a and more';
const MAX_BYTES = 1_000;

test('look-ups and their pictures', async (t) => {
  const upstream = await startUpstream();
  const [pictures, inside] = [await startReceiver({ host: ELSEWHERE }), await startReceiver()];
  const plugins = ['access', 'das', 'dashboard', 'proxy', 'token-metadata'];
  const bed = await startDashboard(
    {
      plugins,
      follow: { enabled: false },
      das: { passOn: true },
      'token-metadata': { offChain: { allowCidrs: [`${ELSEWHERE}/32`], maxPictureBytes: MAX_BYTES } },
    },
    { rpcUrl: upstream.url, wsUrl: upstream.url.replace('http', 'ws') },
  );
  t.after(async () => {
    await bed.stop();
    await Promise.all([upstream.stop(), pictures.close(), inside.close()]);
  });
  const operator = await bed.operator();
  const { projectId } = bed.daemon;
  const lookUp = (who: Visitor, body: object, project = projectId) =>
    who.ask('POST', `${API}/projects/${project}/look-up`, body);
  const named = [
    ...['good', 'html', 'svg', 'large', 'failed', 'inside'].map((name) => `${pictures.url}/${name}`),
    `${inside.url}/direct`,
    'data:image/gif;base64,R0lGODlh',
    'file:///etc/passwd',
  ];
  const asset = {
    id: ASSET,
    interface: 'V1_NFT',
    supply: 18_446_744_073_709_551_615n,
    content: { metadata: { attributes: [] }, links: { image: named[0] }, files: named.map((uri) => ({ uri })) },
  };
  const assetText = JSON.stringify(asset, (_, value) => (typeof value === 'bigint' ? Number(value) : value)).replace(
    '18446744073709552000',
    '18446744073709551615',
  );
  const attributes = '"attributes":[{"value":1e400},{"value":-0},{"value":0.12345678901234567890}]';
  upstream.on('getAsset', () => ({ result: assetText.replace('"attributes":[]', attributes) }));

  await t.test('an answer is the one of the API, with proofs of its pictures', async () => {
    const found = await lookUp(operator, { what: 'asset', address: ASSET });
    assert.equal(found.status, 200, found.text);
    for (const part of ['18446744073709551615', attributes]) assert.ok(found.text.includes(part), 'no digit is lost');
    assert.deepEqual(Object.keys(found.body.pictures), named);
    assert.equal((await lookUp(operator, { what: 'proof', address: 'no address' })).status, 400);
    assert.equal((await lookUp(operator, { what: 'getBlock', address: ASSET })).status, 400);
    const wallet = await lookUp(operator, { what: 'balances', address: ASSET, page: 1 });
    assert.deepEqual([wallet.status, wallet.body.details], [501, 'the plugin wallet is not loaded']);
  });

  await t.test('a proof of an asset is checked', async () => {
    const zero = '1'.repeat(32);
    const proof = { leaf: zero, root: zero, node_index: 1, tree_id: zero };
    upstream.on('getAssetProof', () => ({ result: JSON.stringify({ ...proof, proof: [] }) }));
    const right = await lookUp(operator, { what: 'proof', address: ASSET });
    assert.deepEqual(right.body.result, { leaf: zero, root: zero, isProven: true });
    upstream.on('getAssetProof', () => ({ result: JSON.stringify({ ...proof, proof: [zero] }) }));
    assert.equal((await lookUp(operator, { what: 'proof', address: ASSET })).body.result.isProven, false);
    upstream.on('getAssetProof', () => ({ result: '{"leaf":5,"proof":["x"]}' }));
    assert.equal((await lookUp(operator, { what: 'proof', address: ASSET })).body.result.isProven, false);
  });

  await t.test('only pictures that an answer named come, and only as pictures', async () => {
    const image = { 'content-type': 'image/gif' };
    pictures.route('/good', answer(200, { 'content-type': 'text/html' }, GIF));
    pictures.route('/html', answer(200, image, '<html><script>alert(1)</script>'));
    pictures.route(
      '/svg',
      answer(200, { 'content-type': 'image/svg+xml' }, '<svg xmlns="http://www.w3.org/2000/svg"/>'),
    );
    pictures.route('/large', answer(200, image, GIF.padEnd(MAX_BYTES + 1)));
    pictures.route('/failed', answer(500, image, GIF));
    pictures.route('/inside', answer(302, { location: `${inside.url}/redirected` }));
    inside.setFallback(answer(200, image, GIF));
    const { pictures: proofs } = (await lookUp(operator, { what: 'asset', address: ASSET })).body;
    const get = (uri: string, proof: string, who: Visitor = operator) =>
      who.ask('GET', `${API}/picture?${new URLSearchParams({ uri, proof })}`);
    const [good, ...others] = named as [string, ...string[]];
    const shown = await get(good, proofs[good]);
    assert.deepEqual([shown.status, shown.text], [200, GIF]);
    const headers = ['content-type', 'content-disposition', 'x-content-type-options', 'content-security-policy'];
    assert.deepEqual(
      headers.map((name) => shown.headers.get(name)),
      ['image/gif', 'attachment', 'nosniff', "default-src 'none'; sandbox"],
    );
    for (const uri of others) assert.equal((await get(uri, proofs[uri])).status, 404, uri);
    assert.equal(inside.connections(), 0, 'nothing inside was reached');

    const before = pictures.received.length;
    assert.equal((await get(good, proofs[good], bed.stranger)).status, 401);
    assert.equal((await get(`${good}?other`, proofs[good])).status, 403);
    assert.equal((await get(good, 'forged')).status, 403);
    assert.equal(pictures.received.length, before);
  });

  await t.test('a look-up is of the project alone, and pays', async () => {
    assert.equal((await lookUp(bed.stranger, { what: 'asset', address: ASSET })).status, 401);
    const made = async (name: string) =>
      (await operator.ask('POST', `${API}/projects`, { name, plan: 'free' })).body.id as string;
    const [mine, other] = [await made('mine'), await made('other')];
    const { secret } = (await operator.ask('POST', `${API}/projects/${mine}/secret`)).body;
    const owner = await bed.logIn({ project: mine, secret });
    assert.equal((await lookUp(owner, { what: 'asset', address: ASSET }, other)).status, 404);
    const forged = await owner.ask('POST', `${API}/projects/${mine}/look-up`, {}, { 'x-csrf-token': 'forged' });
    assert.ok([400, 403].includes(forged.status));
    const all = await Promise.all(
      Array.from({ length: 60 }, () => lookUp(owner, { what: 'asset', address: ASSET }, mine)),
    );
    const statuses = new Set(all.map(({ status }) => status));
    assert.deepEqual([...statuses].sort(), [200, 429], 'the rate of the plan');
    await operator.ask('PATCH', `${API}/projects/${mine}`, { isDisabled: true });
    assert.equal((await lookUp(operator, { what: 'asset', address: ASSET }, mine)).status, 409);
  });
});
