/** Calls that are paid one by one, with the official client on a local chain: what is taken, what is refused, and what is never taken twice. */
import assert from 'node:assert/strict';
import { createPrivateKey, randomUUID, sign } from 'node:crypto';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { getAssociatedTokenAddressSync } from '@solana/spl-token';
import { Connection, Keypair, PublicKey, VersionedTransaction } from '@solana/web3.js';
import { encode } from '../../../src/lib/base58.ts';
import { signupMessage } from '../../../src/lib/signup-message.ts';
import { USDC_DEVNET_MINT } from '../../../src/solana/programs.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon, startDaemonProcess } from '../../helpers/daemon.ts';
import {
  clientMissing,
  DOLLAR,
  emptied,
  landed,
  mintDollars,
  otherDollars,
  payingClient,
  readKeypair,
  walletWith,
  writeKeypair,
  X402_DIR,
} from '../../helpers/paying-client.ts';
import { docsBlock } from '../../helpers/readme.ts';
import { until } from '../../helpers/until.ts';

const skip = (await chainMissing()) ?? clientMissing();
const FINALITY = 4;
const MINIMUM = 20;

type Client = Awaited<ReturnType<typeof payingClient>>;
interface Offer {
  readonly error: string;
  readonly accepts: readonly {
    readonly amount: string;
    readonly asset: string;
    readonly extra: Record<string, string>;
  }[];
}

describe('calls that are paid one by one', { skip }, () => {
  const folder = mkdtempSync(join(X402_DIR, 'node_modules/.run-'));
  const treasury = Keypair.generate().publicKey;
  let chain: TestChain;
  let issuer: Keypair;
  let daemon: DaemonInProcess;
  let wallet: Keypair;
  let client: Client;
  /** What is added to the clock of the daemon, in milliseconds. */
  let ahead = 0;
  const shut: (() => Promise<unknown>)[] = [];

  const start = () =>
    startDaemon({
      chain,
      dataDir: folder,
      key: 'the-first-key',
      parts: (parts) => ({ ...parts, clock: { ...parts.clock, now: () => parts.clock.now() + ahead } }),
      config: {
        plugins: ['access', 'proxy', 'prices', 'token-metadata', 'wallet', 'signup'],
        http: { processes: 1 },
        signup: {
          treasury: treasury.toBase58(),
          perCall: {
            enabled: true,
            minimum: MINIMUM,
            feePayerFile: writeKeypair(join(folder, 'fees.json'), issuer),
            waitMs: 4_000,
          },
        },
      },
    });
  before(async () => {
    chain = await startChain({ slotMs: 50, finalityDepth: FINALITY, time: { kind: 'wall' } });
    shut.push(() => chain.stop());
    issuer = await mintDollars(chain);
    daemon = await start();
  });
  after(async () => {
    await daemon?.stop();
    for (const stop of shut) await stop();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    wallet = await walletWith(chain, issuer, DOLLAR);
    client = await payingClient(chain, wallet);
  });

  const body = (method = 'getSlot', params: unknown[] = [], id: unknown = 7) =>
    JSON.stringify({ jsonrpc: '2.0', id, method, params });
  const post = (headers: Record<string, string> = {}, text = body(), path = '/') =>
    fetch(`${daemon.apiUrl}${path}`, { method: 'POST', body: text, headers });
  const offerOf = (response: Response): Offer =>
    JSON.parse(Buffer.from(response.headers.get('payment-required') ?? '', 'base64').toString()) as Offer;
  const encoded = (payload: unknown) => Buffer.from(JSON.stringify(payload)).toString('base64');
  const asked = async (text = body()) => offerOf(await post({}, text));
  /** The header that the official client would send for an offer. */
  const payment = async (offer: unknown) => ({ 'PAYMENT-SIGNATURE': encoded(await client.pay(offer)) });
  const earned = async (): Promise<number> => {
    const account = getAssociatedTokenAddressSync(new PublicKey(USDC_DEVNET_MINT), treasury);
    return Number((await chain.connection.getTokenAccountBalance(account, 'confirmed')).value.amount);
  };
  /** The project of the wallet; null: it has none. */
  async function project(): Promise<{ id: string; prepaidGranted: number; prepaidRemaining: number } | null> {
    const list = await runCommand(['projects', 'list', '--json', '--config', daemon.configFile]);
    const projects = JSON.parse(list.out) as { id: string; wallet: string | null }[];
    const found = projects.find((one) => one.wallet === wallet.publicKey.toBase58());
    if (found === undefined) return null;
    const shown = await runCommand(['projects', 'usage', '--json', '--id', found.id, '--config', daemon.configFile]);
    const usage = JSON.parse(shown.out) as { prepaidCreditsRemaining: number; prepaidCreditsUsed: number };
    const { prepaidCreditsRemaining: left, prepaidCreditsUsed: used } = usage;
    return { id: found.id, prepaidGranted: left + used, prepaidRemaining: left };
  }
  const accounts = async () => {
    const found = await project();
    return found === null ? null : [found.prepaidGranted, found.prepaidRemaining];
  };
  const refusal = async (response: Response) => [response.status, offerOf(response).error.split(':')[0]];

  test('without a key, the answer is the price in both versions of the protocol, in the shape of the route', async () => {
    const single = await post();
    assert.equal(single.status, 402);
    const answer = (await single.json()) as Record<string, unknown>;
    assert.equal(answer['id'], 7);
    assert.equal((answer['error'] as { code: number }).code, -32402);
    const [one] = answer['accepts'] as Record<string, unknown>[];
    assert.deepEqual(
      [answer['x402Version'], one?.['maxAmountRequired'], one?.['network']],
      [1, String(MINIMUM), 'solana-devnet'],
    );
    const [two] = offerOf(single).accepts;
    assert.deepEqual([two?.amount, two?.asset], [String(MINIMUM), USDC_DEVNET_MINT]);
    assert.ok((two?.extra['memo'] ?? '').length <= 40);

    const batch = await asked(`[${body('getSlot')},${body('getProgramAccounts', [treasury.toBase58()])}]`);
    assert.ok(Number(batch.accepts[0]?.amount) >= MINIMUM);
    const route = await fetch(`${daemon.apiUrl}/v1/wallet/${treasury.toBase58()}/balances`);
    assert.equal(route.status, 402);
    const routed = (await route.json()) as Record<string, unknown>;
    assert.deepEqual([typeof routed['error'], routed['x402Version']], ['string', 1]);
    assert.equal(
      offerOf(route).accepts[0]?.amount,
      '100',
      'the price of the call, where it is above the least payment',
    );

    assert.equal((await post({ 'X-Api-Key': 'the-first-key' })).status, 200);
    assert.equal((await post({ 'X-Api-Key': 'no-key' })).status, 401, 'a wrong key is no call without one');
    assert.equal((await post({}, '{')).status, 401);
  });

  test('the official client pays once for an answer; what the call does not use stays with the wallet', async () => {
    const before = await earned();
    const answer = await client.fetch()(daemon.apiUrl, { method: 'POST', body: body() });
    assert.equal(answer.status, 200);
    assert.equal(((await answer.json()) as { id: number }).id, 7);
    const receipt = JSON.parse(
      Buffer.from(answer.headers.get('payment-response') ?? '', 'base64').toString(),
    ) as Record<string, unknown>;
    assert.deepEqual([receipt['success'], receipt['payer']], [true, wallet.publicKey.toBase58()]);
    assert.equal(await earned(), before + MINIMUM);
    assert.deepEqual(await accounts(), [MINIMUM, MINIMUM - 1]);

    // A key for the rest, for the wallet only.
    const key = randomUUID();
    const claim = async (signer: Keypair) => {
      const [d, x] = [signer.secretKey.subarray(0, 32), signer.secretKey.subarray(32)].map((half) =>
        Buffer.from(half).toString('base64url'),
      );
      const secret = createPrivateKey({
        key: { kty: 'OKP', crv: 'Ed25519', d: d as string, x: x as string },
        format: 'jwk',
      });
      const paid = String(receipt['transaction']);
      const proof = encode(sign(null, signupMessage({ payment: paid, key }), secret));
      return await post(
        {},
        JSON.stringify({ wallet: wallet.publicKey.toBase58(), payment: paid, key, proof }),
        '/v0/signup',
      );
    };
    assert.equal((await claim(Keypair.generate())).status, 403);
    assert.equal((await claim(wallet)).status, 200);
    assert.equal((await claim(wallet)).status, 200, 'the same claim again');
    assert.equal((await post({ 'X-Api-Key': key })).status, 200);
    // What a key is charged is written a moment later.
    await until(async () => (await accounts())?.[1] === MINIMUM - 2, 'the charge of the key');
  });

  test('the lines of the page pay', async () => {
    const lines = docsBlock('wrapFetchWithPayment')
      .replace('https://api.example/', daemon.apiUrl)
      .replace('(signer)', '(signer, config)');
    const [imports, work] = [lines.split('\n').filter((line) => line.startsWith('import')), lines.split('\n')];
    const rest = work.filter((line) => !line.startsWith('import'));
    const file = join(folder, 'page.mjs');
    writeFileSync(
      file,
      [...imports, 'export default async (signer, config) => {', ...rest, 'return answer; };'].join('\n'),
    );
    const page = (await import(pathToFileURL(file).href)) as {
      default: (signer: unknown, config: object) => Promise<Response>;
    };
    const answer = await page.default(client.signer, { rpcUrl: chain.rpcUrl });
    assert.equal(answer.status, 200);
    assert.deepEqual(await accounts(), [MINIMUM, MINIMUM - 1]);
  });

  test('clients of version 1 pay likewise, and so do calls of routes and batches', async () => {
    const challenge = (await (await post()).json()) as Record<string, unknown>;
    const header = { 'X-PAYMENT': encoded(await client.pay(challenge)) };
    const answer = await post(header);
    assert.equal(answer.status, 200);
    assert.ok(answer.headers.get('x-payment-response'));
    assert.deepEqual(await refusal(await post(header)), [402, 'payment_replayed']);
    const route = await client.fetch()(`${daemon.apiUrl}/v1/wallet/${treasury.toBase58()}/balances`);
    assert.equal(route.status, 200, await route.text());
    const batch = await client.fetch()(daemon.apiUrl, {
      method: 'POST',
      body: `[${body()},${body('getBlockHeight', [], 8)}]`,
    });
    assert.deepEqual(((await batch.json()) as { id: number }[]).map(({ id }) => id).toSorted(), [7, 8]);
    assert.deepEqual(await accounts(), [MINIMUM + 100 + MINIMUM, MINIMUM + 100 + MINIMUM - 1 - 100 - 2]);
  });

  test('a payment buys one answer: shown again, at once or after a restart, it is refused and nothing is taken', async () => {
    const header = await payment(await asked());
    const before = await earned();
    const together = await Promise.all(Array.from({ length: 4 }, () => post(header)));
    const statuses = together.map(({ status }) => status).toSorted();
    assert.deepEqual(statuses, [200, 402, 402, 402]);
    assert.deepEqual(await refusal(await post(header)), [402, 'payment_replayed']);
    await daemon.stop();
    daemon = await start();
    assert.deepEqual(await refusal(await post(header)), [402, 'payment_replayed']);
    assert.equal(await earned(), before + MINIMUM);
    assert.deepEqual(await accounts(), [MINIMUM, MINIMUM - 1]);
  });

  test('short, late, foreign and forged payments are refused before anything is sent', async () => {
    const offer = await asked();
    const [first] = offer.accepts;
    assert.ok(first !== undefined);
    const changed = (change: object, extra: object = {}) => ({
      ...offer,
      accepts: [{ ...first, ...change, extra: { ...first.extra, ...extra } }],
    });
    const before = await earned();
    const short = await post(await payment(changed({ amount: String(MINIMUM - 1) })));
    assert.match(offerOf(short).error, new RegExp(`^payment_short: .*${MINIMUM} units, given ${MINIMUM - 1}`));
    const more = await payment(changed({ amount: String(MINIMUM + 1) }));
    assert.deepEqual(await refusal(await post(more)), [402, 'payment_short'], 'exact');
    const dear = `[${Array.from({ length: 30 }, (_, id) => body('getSlot', [], id)).join(',')}]`;
    assert.deepEqual(await refusal(await post(await payment(await asked()), dear)), [402, 'payment_short']);
    const mint = await otherDollars(chain, issuer, wallet, treasury);
    assert.deepEqual(
      await refusal(await post({ 'PAYMENT-SIGNATURE': encoded(await client.payAnything(changed({ asset: mint }))) })),
      [402, 'payment_foreign_mint'],
    );
    const elsewhere = await payment(changed({ payTo: wallet.publicKey.toBase58() }));
    assert.deepEqual(await refusal(await post(elsewhere)), [402, 'payment_invalid']);
    for (const memo of [
      'x402-mx3c9an0-kOKfwlhW-Kiqiff73tIbg',
      'anything',
      String(first.extra['memo']).replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
    ])
      assert.deepEqual(await refusal(await post(await payment(changed({}, { memo })))), [402, 'payment_invalid']);
    const ownFees = await payment(changed({}, { feePayer: wallet.publicKey.toBase58() }));
    assert.deepEqual(await refusal(await post(ownFees)), [402, 'payment_invalid']);

    const unsigned = (await client.pay(await asked())) as { payload: { transaction: string } };
    const transaction = VersionedTransaction.deserialize(Buffer.from(unsigned.payload.transaction, 'base64'));
    transaction.signatures = transaction.signatures.map(() => new Uint8Array(64).fill(1));
    unsigned.payload.transaction = Buffer.from(transaction.serialize()).toString('base64');
    assert.deepEqual(await refusal(await post({ 'PAYMENT-SIGNATURE': encoded(unsigned) })), [402, 'payment_invalid']);
    const poor = await payingClient(chain, Keypair.generate());
    const nothing = { 'PAYMENT-SIGNATURE': encoded(await poor.pay(await asked())) };
    assert.deepEqual(await refusal(await post(nothing)), [402, 'payment_invalid']);
    for (const header of [
      'x',
      encoded({}),
      encoded({ x402Version: 2, accepted: {}, payload: { transaction: 'AAAA' } }),
    ])
      assert.deepEqual(await refusal(await post({ 'PAYMENT-SIGNATURE': header })), [402, 'payment_invalid']);

    const late = await payment(await asked());
    ahead = 121_000;
    assert.deepEqual(await refusal(await post(late)), [402, 'payment_late']);
    ahead = 0;
    await sleep(500);
    assert.equal(await earned(), before);
    assert.equal(await accounts(), null);
  });

  test('what the plan excludes is refused before a payment is asked for, and takes none that is shown', async () => {
    const excluded = body('sendBundle', [['AQ==']]);
    const header = await payment(await asked());
    const before = await earned();
    for (const text of [excluded, `[${excluded}]`])
      for (const headers of [{}, header]) {
        const refused = await post(headers, text);
        assert.equal(refused.status, 403, await refused.clone().text());
        assert.equal(refused.headers.get('payment-required'), null);
        assert.match(await refused.text(), /plan/i);
      }
    await sleep(500);
    assert.equal(await earned(), before);
    assert.equal(await accounts(), null);
    assert.equal((await post(header)).status, 200, 'the payment that was shown still buys a call');
    assert.equal(await earned(), before + MINIMUM);
  });

  test('an answer that fails costs nothing, and the same payment buys the next one', async () => {
    const header = await payment(await asked());
    const before = await earned();
    chain.faults.set([{ action: 'status', status: 503, match: { method: 'getBlockHeight' } }]);
    const failed = await post(header, body('getBlockHeight'));
    assert.equal(failed.status, 503);
    assert.ok(((await failed.json()) as { error?: unknown }).error !== undefined);
    assert.deepEqual(await accounts(), [MINIMUM, MINIMUM]);
    chain.faults.clear();
    const answer = await post(header, body('getBlockHeight'));
    assert.equal(answer.status, 200);
    assert.equal(typeof ((await answer.json()) as { result?: unknown }).result, 'number');
    assert.deepEqual(await refusal(await post(header)), [402, 'payment_replayed']);
    assert.equal(await earned(), before + MINIMUM);
    assert.deepEqual(await accounts(), [MINIMUM, MINIMUM - 1]);
  });

  test('who reads a payment on the chain cannot use it', async () => {
    const offer = await asked();
    const payload = (await client.pay(offer)) as { accepted: { extra: Record<string, string> } };
    chain.faults.set([{ action: 'status', status: 503, match: { method: 'getBlockHeight' } }]);
    await post({ 'PAYMENT-SIGNATURE': encoded(payload) }, body('getBlockHeight'));
    chain.faults.clear();
    const { ticket: _, ...rest } = payload.accepted.extra;
    for (const extra of [rest, { ...rest, ticket: 'guess' }]) {
      const stolen = { ...payload, accepted: { ...payload.accepted, extra } };
      assert.deepEqual(await refusal(await post({ 'PAYMENT-SIGNATURE': encoded(stolen) })), [402, 'payment_replayed']);
    }
    assert.equal((await post({ 'PAYMENT-SIGNATURE': encoded(payload) })).status, 200);
  });
});

describe('calls that are paid one by one, on a chain that changes its mind', { skip }, () => {
  test('a payment whose block is taken back buys nothing, until it is in a block that is final', async (t) => {
    const folder = mkdtempSync(join(X402_DIR, 'node_modules/.run-'));
    const chain = await startChain({ finalityDepth: 8 });
    t.after(() => chain.stop());
    const issuer = await mintDollars(chain);
    const treasury = Keypair.generate().publicKey;
    const daemon = await startDaemon({
      chain,
      dataDir: folder,
      config: {
        plugins: ['access', 'proxy', 'signup'],
        signup: {
          treasury: treasury.toBase58(),
          perCall: {
            enabled: true,
            minimum: MINIMUM,
            feePayerFile: writeKeypair(join(folder, 'fees.json'), issuer),
            waitMs: 3_000,
          },
        },
      },
    });
    t.after(() => daemon.stop());
    const wallet = await walletWith(chain, issuer, DOLLAR);
    const client = await payingClient(chain, wallet);
    const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}';
    const post = (headers: Record<string, string> = {}) => fetch(daemon.apiUrl, { method: 'POST', body, headers });
    const reason = async (answer: Promise<Response>) => {
      const text = (await answer).headers.get('payment-required') ?? '';
      return (JSON.parse(Buffer.from(text, 'base64').toString()) as { error: string }).error.split(':')[0];
    };
    const offer = async (): Promise<unknown> =>
      JSON.parse(Buffer.from((await post()).headers.get('payment-required') ?? '', 'base64').toString());
    const shown = async () => ({
      'PAYMENT-SIGNATURE': Buffer.from(JSON.stringify(await client.pay(await offer()))).toString('base64'),
    });
    const list = async () => {
      const { out } = await runCommand(['projects', 'list', '--json', '--config', daemon.configFile]);
      return (JSON.parse(out) as { wallet: string | null }[]).filter((one) => one.wallet !== null);
    };

    // In a block, and never final.
    const gone = await shown();
    const [before, refused] = [await chain.connection.getSlot(), reason(post(gone))];
    await until(async () => (await chain.connection.getSlot()) > before);
    await chain.fork({ depth: 1, replay: 'none', extraBlocks: 1 });
    // The branch that stays has no money for it any more: it can land nowhere.
    await landed(chain, issuer, emptied(wallet, issuer), wallet);
    await chain.seal(12);
    assert.ok(['payment_failed', 'payment_not_final'].includes((await refused) ?? ''), await refused);
    assert.deepEqual(await list(), []);
    assert.notEqual((await post(gone)).status, 200);

    // Taken back, and in a block of the other branch: one answer.
    const again = await walletWith(chain, issuer, DOLLAR);
    const second = await payingClient(chain, again);
    const moved = {
      'PAYMENT-SIGNATURE': Buffer.from(JSON.stringify(await second.pay(await offer()))).toString('base64'),
    };
    const [slot, answer] = [await chain.connection.getSlot(), post(moved)];
    await until(async () => (await chain.connection.getSlot()) > slot);
    await chain.fork({ depth: 1, replay: 'all', gap: 2, extraBlocks: 2 });
    await chain.seal(12);
    assert.equal((await answer).status, 200);
    assert.equal(await reason(post(moved)), 'payment_replayed');
    assert.equal((await list()).length, 1);
  });

  test('on a local chain of its own, the daemon needs no more than the switch', async (t) => {
    const daemon = await startDaemonProcess({
      folder: X402_DIR,
      config: {
        follow: { enabled: true },
        upstream: { urls: [], local: { mode: 'on', port: 0, slotMs: 100 } },
        plugins: ['access', 'proxy', 'signup'],
        signup: { perCall: { enabled: true } },
      },
    });
    t.after(() => daemon.stop());
    const answer = await fetch(daemon.apiUrl, { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}' });
    assert.equal(answer.status, 402);
    assert.equal(answer.headers.get('x-parhelion-chain'), 'local');
    const issuer = readKeypair(join(daemon.dataDir, 'signup-fee-payer.json'));
    assert.equal(statSync(join(daemon.dataDir, 'signup-fee-payer.json')).mode & 0o077, 0);
    const at = {
      rpcUrl: `${daemon.apiUrl}/?api-key=${daemon.key}`,
      connection: new Connection(`${daemon.apiUrl}/?api-key=${daemon.key}`, 'confirmed'),
    };
    const wallet = await walletWith(at, issuer, DOLLAR);
    const client = await payingClient(at, wallet);
    const paid = await client.fetch()(daemon.apiUrl, {
      method: 'POST',
      body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}',
    });
    assert.equal(paid.status, 200, await paid.text());
  });
});
