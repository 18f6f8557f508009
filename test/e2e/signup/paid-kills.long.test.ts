/**
 * Paid calls of the official client while the daemon is killed, over and over: each call is paid once, none is answered unpaid, none is charged twice.
 * PARHELION_PAID_CALLS is their number.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { getAssociatedTokenAddressSync } from '@solana/spl-token';
import { Keypair, PublicKey } from '@solana/web3.js';
import { createSeededRandom } from '../../../packages/local-chain/in-process.ts';
import { USDC_DEVNET_MINT } from '../../../src/solana/programs.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
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

const CALLS = Number(process.env['PARHELION_PAID_CALLS'] ?? 50);
const WALLETS = 5;
/** Raw units; a credit costs one. */
const PRICE = 10;
/** Calls between two kills. */
const BETWEEN_KILLS = Math.max(10, Math.ceil(CALLS / 20));
const skip = (await chainMissing()) ?? clientMissing();

test(`${CALLS} paid calls, with kills in between`, { skip }, async (t) => {
  const seed = `${Date.now()}`;
  t.diagnostic(`seed ${seed}`);
  const random = createSeededRandom(Number(seed) % 2 ** 31);
  const folder = mkdtempSync(join(X402_DIR, 'node_modules/.run-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const chain = await startChain({ slotMs: 200, finalityDepth: 4, time: { kind: 'wall' } });
  t.after(() => chain.stop());
  const issuer = await mintDollars(chain);
  const treasury = Keypair.generate().publicKey;
  const start = () =>
    startDaemonProcess({
      chain,
      dataDir: folder,
      key: 'the-first-key',
      config: {
        plugins: ['access', 'proxy', 'signup'],
        signup: {
          treasury: treasury.toBase58(),
          perCall: { enabled: true, minimum: PRICE, feePayerFile: writeKeypair(join(folder, 'fees.json'), issuer) },
        },
      },
    });
  let daemon: DaemonProcess = await start();
  t.after(() => daemon.stop());

  let [done, answered, lost, unpaid, kills] = [0, 0, 0, 0, 0];
  const signatures = new Set<string>();
  /** A request, again until somebody answers it: what is paid is shown again. */
  const send: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const [headers, body] = [Object.fromEntries(request.headers), await request.text()];
    const shown = headers['payment-signature'];
    for (;;) {
      try {
        const response = await fetch(daemon.apiUrl, { method: 'POST', headers, body });
        const text = await response.text();
        const why = Buffer.from(response.headers.get('payment-required') ?? '', 'base64').toString();
        const isLater = response.status >= 500 || /payment_(?:in_use|not_final)/.test(why);
        if (!isLater || (shown === undefined && response.status < 500))
          return new Response(text, { status: response.status, headers: response.headers });
      } catch {
        // Killed: the next one answers.
      }
      await sleep(50);
    }
  };

  async function payer(share: number): Promise<string> {
    const wallet = await walletWith(chain, issuer, DOLLAR);
    const client = await payingClient(chain, wallet);
    const call = client.fetch(send);
    for (let id = 0; id < share; ) {
      const response = await call(daemon.apiUrl, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id, method: 'getSlot' }),
      });
      const text = await response.text();
      if (response.status === 200) {
        const answer = JSON.parse(text) as { id: number; result: number };
        assert.deepEqual([answer.id, typeof answer.result], [id, 'number']);
        const receipt = Buffer.from(response.headers.get('payment-response') ?? '', 'base64').toString();
        signatures.add((JSON.parse(receipt) as { transaction: string }).transaction);
        answered += 1;
      } else if (text.includes('payment_late')) {
        // Nobody was there while its blockhash stood: nothing was paid.
        unpaid += 1;
        continue;
      } else {
        // Killed after the answer was noted and before it arrived: the credits are still there.
        assert.match(text, /payment_replayed/);
        lost += 1;
      }
      done += 1;
      id += 1;
    }
    return wallet.publicKey.toBase58();
  }

  const share = CALLS / WALLETS;
  assert.ok(Number.isInteger(share), `PARHELION_PAID_CALLS has to be a multiple of ${WALLETS}`);
  const paying = Promise.all(Array.from({ length: WALLETS }, () => payer(share)));
  let isOver = false;
  void paying.finally(() => {
    isOver = true;
  });
  for (let next = BETWEEN_KILLS; next < CALLS && !isOver; next = done + BETWEEN_KILLS) {
    await until(() => done >= next || isOver, 'further calls', 600_000);
    await sleep(random() * 400);
    await daemon.kill();
    kills += 1;
    daemon = await start();
  }
  const wallets = await paying;
  t.diagnostic(`${answered} answered, ${lost} lost on the way, ${unpaid} too late, ${kills} kills`);
  assert.ok(kills >= Math.min(3, Math.floor(CALLS / BETWEEN_KILLS) - 1), `${kills} kills`);
  assert.equal(answered + lost, CALLS);
  assert.equal(signatures.size, answered, 'every answer has a payment of its own');
  assert.ok(lost <= kills * WALLETS);

  // The chain, the credits and the answers tell the same.
  const account = getAssociatedTokenAddressSync(new PublicKey(USDC_DEVNET_MINT), treasury);
  const { value } = await chain.connection.getTokenAccountBalance(account, 'finalized');
  assert.equal(Number(value.amount), CALLS * PRICE, 'each call was paid once');
  const list = await runCommand(['projects', 'list', '--json', '--config', daemon.configFile]);
  const projects = JSON.parse(list.out) as { id: string; wallet: string | null }[];
  let [granted, used] = [0, 0];
  for (const wallet of wallets) {
    const own = projects.filter((one) => one.wallet === wallet);
    assert.equal(own.length, 1, 'a wallet has one project');
    const shown = await runCommand([
      'projects',
      'usage',
      '--json',
      '--id',
      own[0]?.id ?? '',
      '--config',
      daemon.configFile,
    ]);
    const usage = JSON.parse(shown.out) as { prepaidCreditsRemaining: number; prepaidCreditsUsed: number };
    granted += usage.prepaidCreditsRemaining + usage.prepaidCreditsUsed;
    used += usage.prepaidCreditsUsed;
  }
  assert.equal(granted, CALLS * PRICE, 'what was paid was given once');
  assert.ok(used >= answered, `${answered} answers, of which ${used} were charged`);
  assert.ok(used <= answered + lost, `${used} charged, of ${answered + lost}`);
});
