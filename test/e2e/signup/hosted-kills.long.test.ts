/** The sign-up of the hosted service over forks and kills: a payment counts once, in the branch that stays, whoever is killed when. */
import assert from 'node:assert/strict';
import { createPrivateKey, sign } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createTransferInstruction, getAssociatedTokenAddressSync } from '@solana/spl-token';
import { Keypair, PublicKey, TransactionInstruction } from '@solana/web3.js';
import { encode } from '../../../src/lib/base58.ts';
import { MEMO_V3_PROGRAM, USDC_DEVNET_MINT } from '../../../src/solana/programs.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { DOLLAR, landed, mintDollars, openAccountOf, walletWith } from '../../helpers/paying-client.ts';
import { until } from '../../helpers/until.ts';

const skip = (await chainMissing()) ?? false;
const FINALITY = 8;
const CREDITS = 777;

describe('the sign-up of the hosted service, over forks and kills', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-hosted-'));
  const treasury = Keypair.generate().publicKey;
  const mint = new PublicKey(USDC_DEVNET_MINT);
  let chain: TestChain;
  let issuer: Keypair;
  let wallet: Keypair;
  let daemon: DaemonProcess;

  const start = () =>
    startDaemonProcess({
      chain,
      dataDir: folder,
      key: 'the-first-key',
      config: {
        plugins: ['access', 'proxy', 'signup'],
        signup: {
          treasury: treasury.toBase58(),
          tokens: [{ symbol: 'USDC', mint: USDC_DEVNET_MINT, decimals: 6, amount: DOLLAR }],
          credits: CREDITS,
        },
      },
    });
  const restart = async () => {
    await daemon.kill();
    daemon = await start();
  };
  before(async () => {
    chain = await startChain({ finalityDepth: FINALITY });
    issuer = await mintDollars(chain);
    await openAccountOf(chain, issuer, treasury);
    wallet = await walletWith(chain, issuer, 10 * DOLLAR);
    daemon = await start();
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  type Members = Record<string, unknown>;
  async function ask(path: string, token?: string, body?: object): Promise<Members> {
    const response = await fetch(`${daemon.apiUrl}/v0${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const answer = (await response.json()) as Members;
    assert.equal(response.status, 200, JSON.stringify(answer));
    return answer;
  }
  async function signIn(): Promise<string> {
    const [d, x] = [wallet.secretKey.subarray(0, 32), wallet.secretKey.subarray(32)].map((half) =>
      Buffer.from(half).toString('base64url'),
    );
    const secret = createPrivateKey({
      key: { kty: 'OKP', crv: 'Ed25519', d: d as string, x: x as string },
      format: 'jwk',
    });
    const message = JSON.stringify({ message: 'Please sign this message', timestamp: Date.now() });
    const signature = encode(sign(null, Buffer.from(message), secret));
    return String(
      (await ask('/wallet-signup', undefined, { message, signature, userID: wallet.publicKey.toBase58() }))['token'],
    );
  }
  const begin = async (token: string) =>
    String((await ask('/checkout/initialize', token, { priceId: 'agent', refId: 'x', email: 'a@example.org' }))['id']);
  const status = (token: string, id: string) => ask(`/checkout/${id}/status`, token);
  const pay = async (id: string) => {
    const [from, to] = [wallet.publicKey, treasury].map((owner) => getAssociatedTokenAddressSync(mint, owner));
    await landed(
      chain,
      issuer,
      [
        createTransferInstruction(from as PublicKey, to as PublicKey, wallet.publicKey, DOLLAR),
        new TransactionInstruction({ keys: [], programId: new PublicKey(MEMO_V3_PROGRAM), data: Buffer.from(id) }),
      ],
      wallet,
    );
  };
  /** What the projects of the wallet have, through a key of its own. */
  async function credits(token: string): Promise<number> {
    const [project] = (await ask('/projects', token)) as unknown as { id: string }[];
    assert.ok(project !== undefined);
    const { keyId, apiKey = keyId } = await ask(`/projects/${project.id}/add-key`, token, {
      userId: wallet.publicKey.toBase58(),
    });
    const usage = await fetch(`${daemon.apiUrl}/v0/admin/projects/${project.id}/usage?api-key=${String(apiKey)}`);
    const { prepaidCreditsRemaining } = (await usage.json()) as { prepaidCreditsRemaining: number };
    return prepaidCreditsRemaining;
  }

  test('a payment that a fork takes away opens nothing; one that lands again, between kills, opens it once', async () => {
    const token = await signIn();
    const id = await begin(token);
    assert.match(String((await status(token, id))['message']), /No payment/);
    await restart();
    // Token and checkout are what they say: nothing of them is stored.
    assert.match(String((await status(token, id))['message']), /No payment/);

    await pay(id);
    await until(async () => !/No payment/.test(String((await status(token, id))['message'])), 'it is seen');
    assert.equal((await status(token, id))['readyToRedirect'], false);
    await chain.fork({ depth: 1, replay: 'none', extraBlocks: 1 });
    await chain.seal(1);
    await until(async () => /No payment/.test(String((await status(token, id))['message'])), 'it is taken back');
    await chain.seal(FINALITY + 4);
    assert.equal((await status(token, id))['readyToRedirect'], false);
    assert.deepEqual(await ask('/projects', token), []);

    await pay(id);
    await restart();
    await chain.fork({ depth: 1, replay: 'all', gap: 2, extraBlocks: 2 });
    await chain.seal(FINALITY + 4);
    // Asked by many while it is killed: the credits come once.
    const asking = Array.from({ length: 6 }, () => status(token, id).catch(() => null));
    await restart();
    await Promise.all(asking);
    await until(async () => (await status(token, id))['readyToRedirect'] === true, 'it is complete');
    await Promise.all(Array.from({ length: 6 }, () => status(token, id)));
    assert.equal(await credits(token), CREDITS);
    await restart();
    assert.equal((await status(token, id))['phase'], 'complete');
    assert.equal(await credits(token), CREDITS);
  });
});
