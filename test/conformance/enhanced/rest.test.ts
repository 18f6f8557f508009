import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { hostedElements } from '../../helpers/hosted-elements.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { type HostedElement, rebuildTransaction } from '../../helpers/rebuild-enhanced.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

const ADDRESS = 'FCHTRYx6npkQCogtpZtEFLJeevAFGbDHhJyvqvT6F4kX';
const UNKNOWN_SIGNATURE = '1'.repeat(64);

/** A plugin of a third party that knows the programs of the recordings better. */
function writePlugin(): string {
  const folder = join(mkdtempSync(join(tmpdir(), 'parhelion-parsers-')), 'wonders');
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'wonders', type: 'module', main: 'index.js' }));
  writeFileSync(
    join(folder, 'index.js'),
    `import { API_VERSION, definePlugin, Type } from 'parhelion/plugin';
    export default definePlugin({
      id: 'wonders',
      apiVersion: API_VERSION,
      summary: 'knows unknown programs',
      config: Type.Object({}, { additionalProperties: false, default: {} }),
      provision(ctx) {
        ctx.parser({
          name: 'wonders-citrus',
          programs: ['JCFRaPv7852ESRwJJGRy2mysUMydXZgVVhrMLmExvmVp'],
          parse: (transaction, block) => ({
            type: 'TAKE_LOAN',
            source: 'CITRUS',
            description: 'slot ' + block.slot + ', ' + transaction.instructions.length + ' instructions',
            events: { loan: { fee: transaction.fee } },
          }),
        });
        ctx.parser({
          name: 'wonders-broken',
          programs: ['11111111111111111111111111111111'],
          parse: () => { throw new Error('broken'); },
        });
      },
    });`,
  );
  return folder;
}

describe('the calls for enhanced transactions', { skip: skipWithoutFixtures }, () => {
  let upstream: TestUpstream;
  let daemon: TestDaemon;
  let elements: HostedElement[];
  let plugin: string;

  before(async () => {
    elements = hostedElements()
      .filter(({ accountData }) => accountData.length > 0)
      .sort((left, right) => right.slot - left.slot);
    upstream = await startUpstream();
    upstream.on('getTransaction', ({ params }) => {
      const [signature] = params as [string];
      const element = elements.find((one) => one.signature === signature);
      return { result: JSON.stringify(element === undefined ? null : rebuildTransaction(element)) };
    });
    upstream.on('getSignaturesForAddress', ({ params }) => {
      const [address, { before: from, limit }] = params as [string, { before?: string; limit: number }];
      const own = elements.filter(({ accountData }) => accountData.some(({ account }) => account === address));
      const start = from === undefined ? 0 : own.findIndex(({ signature }) => signature === from) + 1;
      const rows = own
        .slice(start, start + limit)
        .map(({ signature, slot, timestamp }) => ({ signature, slot, blockTime: timestamp, err: null }));
      return { result: JSON.stringify(rows) };
    });
    plugin = writePlugin();
    daemon = await startDaemon({
      chain: { rpcUrl: upstream.url },
      config: { plugins: ['access', 'proxy', 'enhanced', plugin] },
    });
  });

  after(async () => {
    await daemon?.stop();
    await upstream?.stop();
    if (plugin !== undefined) rmSync(dirname(plugin), { recursive: true, force: true });
  });

  async function post(body: unknown, query = '') {
    const response = await fetch(`${daemon.apiUrl}/v0/transactions?api-key=${daemon.key}${query}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: response.status, json: (await response.json()) as HostedElement[] & { error: string } };
  }

  async function get(address: string, query = '') {
    const response = await fetch(`${daemon.apiUrl}/v0/addresses/${address}/transactions?api-key=${daemon.key}${query}`);
    return { status: response.status, json: (await response.json()) as HostedElement[] & { error: string } };
  }

  test('transactions are returned in the requested order, members in the order of the hosted service', async () => {
    const wanted = elements.slice(0, 20);
    const signatures = wanted.map(({ signature }) => signature);
    const { status, json } = await post({ transactions: [...signatures, UNKNOWN_SIGNATURE, signatures[0]] });
    assert.equal(status, 200);
    assert.deepEqual(
      json.map(({ signature }) => signature),
      [...signatures, signatures[0]],
    );
    for (const [at, hosted] of wanted.entries()) {
      const made = json[at]!;
      assert.deepEqual([made.type, made.source], [hosted.type, hosted.source]);
      assert.deepEqual(Object.keys(made), Object.keys(hosted));
      // Words and standards need metadata, which is not served here.
      const bare = (text: string) =>
        text.replaceAll(/"tokenStandard":"\w+"/g, '').replaceAll(/"description":"[^"]*"/g, '');
      assert.equal(bare(JSON.stringify(made.events)), bare(JSON.stringify(hosted.events)));
      assert.equal(JSON.stringify(made.accountData), JSON.stringify(hosted.accountData));
      assert.equal(JSON.stringify(made.instructions), JSON.stringify(hosted.instructions));
    }
  });

  test('a signed transaction in base64 stands for its signature', async () => {
    const wire = Buffer.concat([Buffer.of(1), Buffer.alloc(64, 0), Buffer.alloc(40, 1)]).toString('base64');
    assert.deepEqual(await post({ transactions: [wire] }), { status: 200, json: [] });
    assert.deepEqual(upstream.callsOf('getTransaction').at(-1)?.params, [
      UNKNOWN_SIGNATURE,
      { encoding: 'json', commitment: 'confirmed', maxSupportedTransactionVersion: 1 },
    ]);
  });

  test('invalid lists of transactions are refused with a reason', async () => {
    const cases: [unknown, RegExp][] = [
      [{}, /transactions must be an array/],
      [{ transactions: 'x' }, /transactions must be an array/],
      [{ transactions: [1] }, /transactions must be an array/],
      [{ transactions: new Array(101).fill(UNKNOWN_SIGNATURE) }, /at most 100 transactions per request, got 101/],
      [{ transactions: [UNKNOWN_SIGNATURE, 'nonsense'] }, /transactions\[1\]/],
    ];
    for (const [body, reason] of cases) {
      const { status, json } = await post(body);
      assert.equal(status, 400);
      assert.match(json.error, reason);
    }
    assert.equal((await post({ transactions: [] }, '&commitment=processed')).status, 400);
  });

  test('a third-party parser is called first; its failure has no other effect', async () => {
    const loan = elements.find(({ instructions }) =>
      instructions.some(({ programId }) => programId.startsWith('JCFRaPv7')),
    )!;
    const { json } = await post({ transactions: [loan.signature] });
    assert.deepEqual([loan.type, json[0]!.type, json[0]!.source], ['UNKNOWN', 'TAKE_LOAN', 'CITRUS']);
    assert.equal(json[0]!.description, `slot ${loan.slot}, ${loan.instructions.length} instructions`);
    assert.deepEqual(json[0]!.events, { loan: { fee: loan.fee } });
    // The others are what they are, although the second parser fails at every payment.
    const payment = elements.find(({ type, source }) => type === 'TRANSFER' && source === 'SYSTEM_PROGRAM')!;
    assert.equal((await post({ transactions: [payment.signature] })).json[0]!.description, payment.description);
    const metrics = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    assert.match(metrics, /parhelion_enhanced_parser_errors_total\{[^}]*parser="wonders-broken"[^}]*\} [1-9]/);
  });

  test('pages of an address join to its whole history', async () => {
    const whole = (await get(ADDRESS)).json.map(({ signature }) => signature);
    assert.ok(whole.length > 20);
    for (const limit of [1, 7, 100]) {
      const pages: string[] = [];
      for (let from = ''; ; ) {
        const { json } = await get(ADDRESS, `&limit=${limit}${from === '' ? '' : `&before=${from}`}`);
        pages.push(...json.map(({ signature }) => signature));
        if (json.length < limit) break;
        from = pages.at(-1)!;
      }
      assert.deepEqual(pages, whole);
    }
  });

  test('a filter looks through the pages until there are enough', async () => {
    const swaps = (await get(ADDRESS, '&type=SWAP&source=jupiter')).json;
    assert.equal(swaps.length, elements.filter((one) => one.type === 'SWAP' && one.feePayer === ADDRESS).length);
    assert.deepEqual((await get(ADDRESS, '&type=SWAP&limit=2')).json, swaps.slice(0, 2));
    assert.deepEqual((await get(ADDRESS, '&type=NFT_BID')).json, []);
  });

  test('bounds and order of the newer clients', async () => {
    const whole = (await get(ADDRESS)).json;
    const oldest = [...whole].reverse();
    const signatures = (list: readonly HostedElement[]) => list.map(({ signature }) => signature);
    assert.deepEqual(signatures((await get(ADDRESS, '&sort-order=asc')).json), signatures(oldest));
    assert.deepEqual(signatures((await get(ADDRESS, '&sort-order=asc&limit=5')).json), signatures(oldest.slice(0, 5)));
    const [low, high] = [oldest[3]!, oldest[12]!];
    const slots = whole.filter(({ slot }) => slot > low.slot && slot <= high.slot);
    assert.deepEqual(
      signatures((await get(ADDRESS, `&gt-slot=${low.slot}&lte-slot=${high.slot}`)).json),
      signatures(slots),
    );
    const times = whole.filter(({ timestamp }) => timestamp >= low.timestamp && timestamp < high.timestamp);
    assert.deepEqual(
      signatures((await get(ADDRESS, `&gte-time=${low.timestamp}&lt-time=${high.timestamp}`)).json),
      signatures(times),
    );
    assert.equal((await get(ADDRESS, '&sort-order=up')).status, 400);
  });

  test('the published client reads them', { skip: sdk.skip }, async (t) => {
    t.after(redirectHostedClients(daemon.apiUrl));
    const { enhanced } = sdk.module.createHelius({ apiKey: daemon.key });
    const [first, second] = elements;
    const read = await enhanced.getTransactions({ transactions: [second!.signature, first!.signature] });
    assert.deepEqual(
      read.map(({ signature }: { signature: string }) => signature),
      [second!.signature, first!.signature],
    );
    const page = await enhanced.getTransactionsByAddress({ address: ADDRESS, limit: 3, sortOrder: 'asc' });
    assert.equal(page.length, 3);
  });

  test('addresses, cursors and limits that cannot be are refused', async () => {
    assert.equal((await get('nobody')).status, 400);
    assert.equal((await get(ADDRESS, '&before=x')).status, 400);
    assert.equal((await get(ADDRESS, '&limit=101')).status, 400);
    assert.equal((await get(ADDRESS, '&limit=0')).status, 400);
  });

  test('an upstream that refuses makes no empty answer', async () => {
    upstream.on('getSignaturesForAddress', ({ id }) => ({
      chunks: [JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message: 'no' }, id })],
    }));
    const { status, json } = await get(ADDRESS);
    assert.equal(status, 503);
    assert.equal(typeof json.error, 'string');
  });
});
