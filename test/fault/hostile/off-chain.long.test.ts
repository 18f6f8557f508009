import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { createOutbound } from '../../../src/adapters/outbound/index.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import { METADATA_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { type Bed, metadataWith, startBed } from '../../conformance/token-metadata/harness.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { writeMint } from '../../helpers/write-mint.ts';

/** Where the servers of strangers are in this test; everything else on the machine is forbidden to them. */
const OUTSIDE = '127.0.0.2';

suite('documents of strangers', () => {
  let bed: Bed;
  /** What must never be reached. */
  let inside: Receiver;
  const names = new Map<string, readonly string[][]>();
  const lookUps = new Map<string, number>();

  before(async () => {
    inside = await startReceiver();
    inside.setFallback(answer(200, {}, '{"name":"secret"}'));
    bed = await startBed({
      host: OUTSIDE,
      offChain: { timeoutMs: 700, batchTimeoutMs: 2_500, maxBytes: 20_000, concurrency: 8, concurrencyPerHost: 8 },
      parts: (parts) => ({
        ...parts,
        outbound: createOutbound({
          clock: parts.clock,
          log: parts.log,
          lookup: async (host) => {
            const answers = names.get(host);
            if (answers === undefined) throw new Error('no such name');
            const count = lookUps.get(host) ?? 0;
            lookUps.set(host, count + 1);
            return answers[count % answers.length]!.map((address) => ({ address, family: 4 as const }));
          },
        }),
      }),
    });
  });
  after(async () => {
    await bed?.stop();
    await inside.close();
  });

  let next = 1;
  const mintOf = (uri: string): string => {
    const bytes = Buffer.alloc(32, 9);
    bytes.writeUInt32LE(next++);
    const mint = encode32(bytes);
    bed.accounts.set(mint, { owner: TOKEN_PROGRAM, data: writeMint() });
    bed.accounts.set(metadataAddress(mint), { owner: METADATA_PROGRAM, data: metadataWith(mint, uri) });
    return mint;
  };
  /** How the documents of these uris end, all asked for at once. */
  async function outcomes(uris: readonly string[]): Promise<readonly string[]> {
    const { status, body } = await bed.ask({ mintAccounts: uris.map(mintOf), includeOffChain: true });
    assert.equal(status, 200);
    return body.map(
      ({ offChainMetadata }: { offChainMetadata: { error: string; metadata: { name: string } | null } }) =>
        offChainMetadata.error === '' ? `found ${offChainMetadata.metadata?.name}` : offChainMetadata.error,
    );
  }
  const all = (count: number, outcome: string): string[] => Array.from({ length: count }, () => outcome);

  test('addresses of this machine and its network, in every spelling', async () => {
    const { port } = inside;
    const uris = [
      `http://127.0.0.1:${port}/`,
      `http://localhost:${port}/`,
      `http://127.1:${port}/`,
      `http://2130706433:${port}/`,
      `http://0x7f000001:${port}/`,
      `http://[::1]:${port}/`,
      `http://[::ffff:127.0.0.1]:${port}/`,
      `http://0.0.0.0:${port}/`,
      'http://169.254.169.254/latest/meta-data',
      'http://10.0.0.1/',
      'http://[fd00:ec2::254]/',
      'http://user:pass@127.0.0.1/',
      'file:///etc/passwd',
      'ftp://example.com/a',
      'javascript:1',
      'data:text/html,<b>',
      'data:application/json,%',
      'nonsense',
    ];
    assert.deepEqual(await outcomes(uris), all(uris.length, 'UNKNOWN'));
    assert.equal(inside.connections(), 0);
  });

  test('redirects to them', async () => {
    const { port } = inside;
    const targets = [
      `http://127.0.0.1:${port}/`,
      `http://localhost:${port}/`,
      `//127.1:${port}/`,
      'file:///etc/passwd',
      'data:application/json,{}',
      'http://10.1.2.3/',
    ];
    const uris = targets.map((location, index) => {
      bed.documents.route(`/to/${index}`, answer(302, { location }));
      return `${bed.documents.url}/to/${index}`;
    });
    assert.deepEqual(await outcomes(uris), all(uris.length, 'UNKNOWN'));
    assert.equal(inside.connections(), 0);
  });

  test('redirects are followed three times, and in no circle', async () => {
    for (let step = 1; step <= 5; step++)
      bed.documents.route(`/step/${step}`, answer(301, { location: `/step/${step - 1}` }));
    bed.documents.route('/step/0', answer(200, {}, '{"name":"end"}'));
    bed.documents.route('/circle', answer(307, { location: '/circle' }));
    const uris = ['/step/3', '/step/4', '/circle'].map((path) => `${bed.documents.url}${path}`);
    assert.deepEqual(await outcomes(uris), ['found end', 'UNKNOWN', 'UNKNOWN']);
    assert.equal(bed.documents.received.filter(({ url }) => url === '/circle').length, 4);
  });

  test('names that lead inside, or first outside and then inside', async () => {
    const { port } = inside;
    names.set('inside.example', [['127.0.0.1']]);
    names.set('both.example', [
      [OUTSIDE, '127.0.0.1'],
      ['127.0.0.1', OUTSIDE],
    ]);
    names.set('turning.example', [[OUTSIDE], ['127.0.0.1'], ['127.0.0.1', OUTSIDE]]);
    const uris = ['inside', 'both', 'turning', 'unknown'].flatMap((name) =>
      Array.from({ length: 5 }, (_, index) => `http://${name}.example:${port}/${name}/${index}`),
    );
    for (const outcome of await outcomes(uris)) assert.notEqual(outcome, 'found secret');
    assert.equal(inside.connections(), 0);
    // The same name outside is fine as long as it leads there.
    bed.documents.route('/good', answer(200, {}, '{"name":"good"}'));
    names.set('good.example', [[OUTSIDE]]);
    assert.deepEqual(await outcomes([`http://good.example:${bed.documents.port}/good`]), ['found good']);
  });

  test('too much, too slow, and never', async () => {
    const { documents } = bed;
    documents.route('/large', answer(200, {}, `{"name":"${'x'.repeat(30_000)}"}`));
    documents.route('/drip', { kind: 'endless', status: 200, everyMs: 30 });
    documents.route('/silent', { kind: 'silent' });
    documents.route('/half', { kind: 'reset', at: 'body' });
    documents.route('/deep', answer(200, {}, `{"name":"deep","image":${'['.repeat(9_000)}${']'.repeat(9_000)}}`));
    documents.route('/open', answer(200, {}, '['.repeat(19_000)));
    const uris = ['large', 'drip', 'silent', 'half', 'deep', 'open'].map((path) => `${documents.url}/${path}`);
    const found = await outcomes(uris);
    assert.deepEqual([...found.slice(0, 4), found[5]], ['UNKNOWN', 'TIMEOUT', 'TIMEOUT', 'UNKNOWN', 'UNKNOWN']);
    // Whether what is nested so deeply can be written again is up to the engine.
    assert.equal(found[4], 'found deep');
  });

  test('a request waits only so long for all of its documents, and the next one is served', async () => {
    const uris = Array.from({ length: 60 }, (_, index) => `${bed.documents.url}/never/${index}`);
    for (const [index] of uris.entries()) bed.documents.route(`/never/${index}`, { kind: 'silent' });
    assert.deepEqual(await outcomes(uris), all(uris.length, 'TIMEOUT'));
    bed.documents.route('/after', answer(200, {}, '{"name":"after"}'));
    const uri = `${bed.documents.url}/after`;
    let found = '';
    for (const untilMs = performance.now() + 60_000; found !== 'found after' && performance.now() < untilMs; )
      [found = ''] = await outcomes([uri]);
    assert.equal(found, 'found after');
  });
});
