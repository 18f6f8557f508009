/** A client that pays for a call and hangs up while it runs: what the call did stays, so its payment is used up, and its credits stay with it. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { runCommand, startDaemon } from '../../helpers/daemon.ts';
import {
  clientMissing,
  DOLLAR,
  mintDollars,
  payingClient,
  walletWith,
  writeKeypair,
  X402_DIR,
} from '../../helpers/paying-client.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const MINIMUM = 20;
const BODY = '{"jsonrpc":"2.0","id":1,"method":"getLeaderSchedule"}';

interface Usage {
  readonly prepaidCreditsRemaining: number;
  readonly prepaidCreditsUsed: number;
}

test('who hangs up while a paid call runs has used the payment, and keeps its credits', {
  skip: (await chainMissing()) ?? clientMissing(),
}, async (t) => {
  const chain = await startChain({ slotMs: 50, finalityDepth: 4, time: { kind: 'wall' } });
  t.after(() => chain.stop());
  const node = await startUpstream();
  t.after(() => node.stop());
  const pass = async (body: string) => {
    const headers = { 'content-type': 'application/json' };
    return { chunks: [await (await fetch(chain.rpcUrl, { method: 'POST', headers, body })).text()] };
  };
  for (const method of ['*', 'getSlot', 'getHealth', 'getGenesisHash', 'getVersion'])
    node.on(method, async ({ body }) => await pass(body));
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  node.on('getLeaderSchedule', async ({ body }) => {
    await held;
    return await pass(body);
  });
  const issuer = await mintDollars(chain);
  const folder = mkdtempSync(join(X402_DIR, 'node_modules/.run-'));
  const daemon = await startDaemon({
    chain: { rpcUrl: node.url, wsUrl: chain.wsUrl },
    dataDir: folder,
    config: {
      plugins: ['access', 'proxy', 'signup'],
      signup: {
        treasury: Keypair.generate().publicKey.toBase58(),
        perCall: { enabled: true, minimum: MINIMUM, feePayerFile: writeKeypair(join(folder, 'fees.json'), issuer) },
      },
    },
  });
  t.after(() => daemon.stop());
  const wallet = await walletWith(chain, issuer, DOLLAR);
  const client = await payingClient(chain, wallet);
  const post = (headers: Record<string, string> = {}, signal?: AbortSignal) =>
    fetch(daemon.apiUrl, { method: 'POST', body: BODY, headers, ...(signal === undefined ? {} : { signal }) });
  const offerIn = (answer: Response) =>
    JSON.parse(Buffer.from(answer.headers.get('payment-required') ?? '', 'base64').toString()) as { error: string };
  const shown = async () => ({
    'PAYMENT-SIGNATURE': Buffer.from(JSON.stringify(await client.pay(offerIn(await post())))).toString('base64'),
  });

  const headers = await shown();
  const client1 = new AbortController();
  const gone = post(headers, client1.signal).catch((error: unknown) => error);
  await until(() => node.callsOf('getLeaderSchedule').length === 1);
  client1.abort();
  assert.equal(((await gone) as Error).name, 'AbortError');
  // The daemon hears of it a moment later; until then the payment is in use.
  let why = '';
  await until(async () => {
    const answer = await post(headers);
    assert.equal(answer.status, 402);
    why = offerIn(answer).error.split(':')[0]!;
    return why !== 'payment_in_use';
  });
  assert.equal(why, 'payment_replayed');
  release();
  assert.equal(node.callsOf('getLeaderSchedule').length, 1, 'the call ran once');
  const { out } = await runCommand(['projects', 'list', '--json', '--config', daemon.configFile]);
  const own = (JSON.parse(out) as { id: string; wallet: string | null }[]).find(
    (one) => one.wallet === wallet.publicKey.toBase58(),
  );
  const usage = await runCommand(['projects', 'usage', '--json', '--id', own!.id, '--config', daemon.configFile]);
  const { prepaidCreditsRemaining: left, prepaidCreditsUsed: used } = JSON.parse(usage.out) as Usage;
  assert.ok(left > 0 && used === 0, usage.out);
  const answer = await post(await shown());
  assert.equal(answer.status, 200, await answer.clone().text());
});
