/** The sign-up with the functions of helius-sdk, unchanged, on the local chain: from a wallet to a key that works. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  createAssociatedTokenAccountIdempotentInstruction,
  createMintToInstruction,
  getAssociatedTokenAddressSync,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, PublicKey, Transaction } from '@solana/web3.js';
import { USDC_MINT } from '../../../src/solana/programs.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { packageAbsent, packageFolder } from '../../helpers/packages.ts';
import { writeMint } from '../../helpers/write-mint.ts';

const PACKAGE = 'helius-sdk';
const skip =
  (await chainMissing()) ?? (packageFolder(PACKAGE) === null ? packageAbsent('the sign-up', [PACKAGE]) : false);
const run = promisify(execFile);
const SCRIPT = fileURLToPath(new URL('../../helpers/hosted-signup.mjs', import.meta.url));
const DOLLAR = 1_000_000;
const CREDITS = 777;

interface SignedUp {
  readonly kind: string;
  readonly jwt: string;
  readonly projectId: string;
  readonly apiKey: string;
  readonly txSignature: string;
  readonly paymentIntentId: string;
}

describe('the sign-up of the hosted service', { skip }, () => {
  const treasury = Keypair.generate().publicKey;
  const mint = new PublicKey(USDC_MINT);
  const wallet = Keypair.generate();
  let chain: TestChain;
  let daemon: DaemonInProcess;

  before(async () => {
    const issuer = Keypair.generate();
    // Blocks by the clock: a payment becomes final without anybody sealing.
    chain = await startChain({ slotMs: 50, finalityDepth: 4, time: { kind: 'wall' } });
    for (const one of [wallet, issuer]) await chain.fund(one.publicKey.toBase58(), LAMPORTS_PER_SOL);
    await chain.setAccount(USDC_MINT, {
      lamports: LAMPORTS_PER_SOL,
      owner: TOKEN_PROGRAM_ID.toBase58(),
      data: writeMint({ mintAuthority: issuer.publicKey.toBase58(), supply: 0n, decimals: 6 }),
    });
    const account = getAssociatedTokenAddressSync(mint, wallet.publicKey);
    const { blockhash, lastValidBlockHeight } = await chain.connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: issuer.publicKey, blockhash, lastValidBlockHeight }).add(
      createAssociatedTokenAccountIdempotentInstruction(issuer.publicKey, account, wallet.publicKey, mint),
      createAssociatedTokenAccountIdempotentInstruction(
        issuer.publicKey,
        getAssociatedTokenAddressSync(mint, treasury),
        treasury,
        mint,
      ),
      createMintToInstruction(mint, account, issuer.publicKey, 10 * DOLLAR),
    );
    transaction.sign(issuer);
    await chain.connection.sendRawTransaction(transaction.serialize());
    daemon = await startDaemon({
      chain,
      config: {
        plugins: ['access', 'proxy', 'signup'],
        access: { keyCacheMs: 50 },
        signup: {
          treasury: treasury.toBase58(),
          tokens: [{ symbol: 'USDC', mint: USDC_MINT, decimals: 6, amount: DOLLAR }],
          credits: CREDITS,
        },
      },
    });
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
  });

  const signUp = async (): Promise<SignedUp> => {
    const { stdout } = await run(process.execPath, [SCRIPT], {
      env: {
        ...process.env,
        HELIUS_API_URL: daemon.apiUrl,
        RPC_URL: chain.rpcUrl,
        WS_URL: chain.wsUrl,
        SECRET_KEY: JSON.stringify([...wallet.secretKey]),
      },
    });
    return JSON.parse(stdout) as SignedUp;
  };
  const ask = async (path: string, jwt?: string, init: RequestInit = {}) => {
    const headers = jwt === undefined ? {} : { authorization: `Bearer ${jwt}` };
    const response = await fetch(`${daemon.apiUrl}/v0${path}`, { ...init, headers });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  test('a wallet pays and gets a key; signing up again pays nothing and gets another key', async () => {
    const first = await signUp();
    assert.equal(first.kind, 'completed');
    const answer = await fetch(`${daemon.apiUrl}/?api-key=${first.apiKey}`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getSlot' }),
    });
    assert.equal(answer.status, 200);
    const usage = await fetch(`${daemon.apiUrl}/v0/admin/projects/${first.projectId}/usage?api-key=${first.apiKey}`);
    const { prepaidCreditsRemaining } = (await usage.json()) as { prepaidCreditsRemaining: number };
    assert.ok(prepaidCreditsRemaining > 0 && prepaidCreditsRemaining <= CREDITS);

    const again = await signUp();
    assert.deepEqual([again.kind, again.projectId], ['already_subscribed', first.projectId]);
    assert.notEqual(again.apiKey, first.apiKey);
    const account = getAssociatedTokenAddressSync(mint, treasury);
    const { value } = await chain.connection.getTokenAccountBalance(account, 'confirmed');
    assert.equal(value.amount, String(DOLLAR));

    const status = await ask(`/checkout/${first.paymentIntentId}/status`, first.jwt);
    assert.deepEqual([status.status, status.body['phase'], status.body['readyToRedirect']], [200, 'complete', true]);

    // Nothing without the token, with a changed one, or of another wallet.
    assert.equal((await ask('/projects')).status, 401);
    assert.equal((await ask('/projects', `${first.jwt}x`)).status, 401);
    assert.equal((await ask('/projects/of-somebody-else', first.jwt)).status, 404);
    const changed = first.paymentIntentId.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
    assert.equal((await ask(`/checkout/${changed}/status`, first.jwt)).status, 404);
    assert.equal((await ask('/checkout/preview?priceId=developer', first.jwt)).status, 400);
  });

  test('a message that is old, or signed by another wallet, signs nobody in', async () => {
    const message = JSON.stringify({ message: 'sign in', timestamp: Date.now() - 3_600_000 });
    const body = { message, signature: '1'.repeat(64), userID: wallet.publicKey.toBase58() };
    const old = await ask('/wallet-signup', undefined, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(old.status, 401);
    const now = { ...body, message: JSON.stringify({ message: 'sign in', timestamp: Date.now() }) };
    const forged = await ask('/wallet-signup', undefined, { method: 'POST', body: JSON.stringify(now) });
    assert.equal(forged.status, 401);
  });
});
