/** Paid sign-ups on the local chain: over the command line, over HTTP, through restarts and forks. */
import assert from 'node:assert/strict';
import { createPrivateKey, randomUUID, sign } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createAssociatedTokenAccountIdempotentInstruction,
  createInitializeMint2Instruction,
  createMintToInstruction,
  getAssociatedTokenAddressSync,
  MINT_SIZE,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import { Keypair, type PublicKey, SystemProgram, Transaction, type TransactionInstruction } from '@solana/web3.js';
import { encode } from '../../../src/lib/base58.ts';
import { signupMessage } from '../../../src/lib/signup-message.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';

const skip = (await chainMissing()) ?? false;
const PRICE = 20_000_000;
const TOKEN_PRICE = 1_500_000;
const SOL = 1_000_000_000;
const FINALITY = 8;

describe('paid sign-ups', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-signup-'));
  const treasury = Keypair.generate().publicKey;
  const mint = Keypair.generate();
  let chain: TestChain;
  let daemon: DaemonInProcess;

  const start = () =>
    startDaemon({
      chain,
      dataDir: folder,
      key: 'the-first-key',
      config: {
        plugins: ['access', 'proxy', 'sender', 'signup'],
        access: { keyCacheMs: 50 },
        signup: {
          treasury: treasury.toBase58(),
          lamports: PRICE,
          tokens: [{ symbol: 'USDC', mint: mint.publicKey.toBase58(), decimals: 6, amount: TOKEN_PRICE }],
          credits: 777,
        },
      },
    });

  before(async () => {
    chain = await startChain({ finalityDepth: FINALITY });
    await chain.fund(treasury.toBase58(), SOL);
    daemon = await start();
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function payer(lamports = SOL): Promise<Keypair> {
    const wallet = Keypair.generate();
    await chain.fund(wallet.publicKey.toBase58(), lamports);
    return wallet;
  }
  async function send(wallet: Keypair, ...instructions: TransactionInstruction[]): Promise<string> {
    const { blockhash, lastValidBlockHeight } = await chain.connection.getLatestBlockhash();
    const transaction = new Transaction({ feePayer: wallet.publicKey, blockhash, lastValidBlockHeight });
    transaction.add(...instructions).sign(wallet);
    return await chain.connection.sendRawTransaction(transaction.serialize(), { skipPreflight: true });
  }
  const pay = (wallet: Keypair, lamports = PRICE) =>
    send(wallet, SystemProgram.transfer({ fromPubkey: wallet.publicKey, toPubkey: treasury, lamports }));

  /** What POST answers. */
  async function claim(wallet: Keypair, payment: string, key: string, signer = wallet) {
    const [d, x] = [signer.secretKey.subarray(0, 32), signer.secretKey.subarray(32)].map((half) =>
      Buffer.from(half).toString('base64url'),
    );
    const secret = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d: d!, x: x! }, format: 'jwk' });
    const proof = encode(sign(null, signupMessage({ payment, key }), secret));
    const body = JSON.stringify({ wallet: wallet.publicKey.toBase58(), payment, key, proof });
    const response = await fetch(`${daemon.apiUrl}/v0/signup`, { method: 'POST', body });
    return { status: response.status, body: (await response.json()) as { status?: string; projectId?: string } };
  }
  async function becomes(status: number, ask: () => Promise<{ status: number }>): Promise<void> {
    let last = 0;
    for (let tries = 0; tries < 600; tries += 1) {
      last = (await ask()).status;
      if (last === status) return;
      await sleep(100);
    }
    assert.fail(`it stays ${last} and does not become ${status}`);
  }
  const works = async (key: string) =>
    await fetch(`${daemon.apiUrl}/?api-key=${key}`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getSlot' }),
    });
  const balance = async () => await chain.connection.getBalance(treasury, 'confirmed');

  test('GET tells the terms', async () => {
    const response = await fetch(`${daemon.apiUrl}/v0/signup`);
    assert.deepEqual(await response.json(), {
      treasury: treasury.toBase58(),
      plan: 'agent',
      credits: 777,
      prices: [
        { symbol: 'SOL', mint: null, decimals: 9, amount: String(PRICE) },
        { symbol: 'USDC', mint: mint.publicKey.toBase58(), decimals: 6, amount: String(TOKEN_PRICE) },
      ],
    });
  });

  test('a payment gives a key once it is final, and one key only, also after a restart', async () => {
    const wallet = await payer();
    const payment = await pay(wallet);
    const key = randomUUID();
    assert.ok([404, 202].includes((await claim(wallet, payment, key)).status));
    await becomes(202, () => claim(wallet, payment, key));
    assert.equal((await works(key)).status, 401, 'nothing before it is final');
    await chain.seal(FINALITY - 2);
    await sleep(700);
    assert.equal((await claim(wallet, payment, key)).status, 202, 'still not');
    await chain.seal(4);
    await becomes(200, () => claim(wallet, payment, key));
    await becomes(200, () => works(key));

    const { projectId } = (await claim(wallet, payment, key)).body;
    const others = await Promise.all(Array.from({ length: 5 }, () => claim(wallet, payment, randomUUID())));
    assert.deepEqual(new Set(others.map(({ status }) => status)), new Set([409]));
    await daemon.stop();
    daemon = await start();
    assert.deepEqual((await claim(wallet, payment, key)).body, { status: 'given', projectId });
    assert.equal((await claim(wallet, payment, randomUUID())).status, 409);

    const second = await pay(wallet);
    await chain.seal(FINALITY + 2);
    const another = randomUUID();
    await becomes(200, () => claim(wallet, second, another));
    assert.equal((await claim(wallet, second, another)).body.projectId, projectId, 'a wallet has one project');
    const shown = await runCommand([
      'projects',
      'show',
      '--json',
      '--id',
      `${projectId}`,
      '--config',
      daemon.configFile,
    ]);
    const project = JSON.parse(shown.out) as { plan: string; wallet: string; prepaidGranted: number };
    assert.deepEqual(
      [project.plan, project.wallet, project.prepaidGranted],
      ['agent', wallet.publicKey.toBase58(), 2 * 777],
    );
  });

  test('a transaction that is no payment of this wallet gives nothing', async () => {
    const wallet = await payer();
    const thief = await payer();
    const payment = await pay(wallet);
    const low = await pay(wallet, PRICE - 1);
    const failed = await pay(await payer(PRICE / 2));
    const split = await send(
      wallet,
      ...[PRICE - 1, 1].map((lamports) =>
        SystemProgram.transfer({ fromPubkey: wallet.publicKey, toPubkey: treasury, lamports }),
      ),
    );
    await chain.seal(FINALITY + 4);
    const key = randomUUID();
    await becomes(200, () => claim(wallet, payment, key));
    for (const [who, what] of [
      [wallet, low],
      [wallet, failed],
      [thief, payment],
      [thief, split],
    ] as const)
      assert.equal((await claim(who, what, randomUUID())).status, 404);
    assert.equal((await claim(wallet, split, randomUUID(), thief)).status, 403, 'signed by another wallet');
    // Two transfers are one payment, of a later block: final a moment after the first one.
    const second = randomUUID();
    await becomes(200, () => claim(wallet, split, second));
    for (const bad of ['short', 'x'.repeat(36), randomUUID().toUpperCase()])
      assert.equal((await claim(wallet, split, bad)).status, 400);
  });

  test('a payment on a branch that is given up gives nothing; one that lands again gives one key', async () => {
    const wallet = await payer();
    const gone = await pay(wallet);
    await becomes(202, () => claim(wallet, gone, randomUUID()));
    await chain.fork({ depth: 1, replay: 'none', extraBlocks: 1 });
    await chain.seal(1);
    await becomes(404, () => claim(wallet, gone, randomUUID()));
    await chain.seal(FINALITY + 4);
    assert.equal((await claim(wallet, gone, randomUUID())).status, 404);

    const moved = await pay(wallet);
    await becomes(202, () => claim(wallet, moved, randomUUID()));
    await chain.fork({ depth: 1, replay: 'all', gap: 2, extraBlocks: 2 });
    await chain.seal(FINALITY + 4);
    const key = randomUUID();
    await becomes(200, () => claim(wallet, moved, key));
    assert.equal((await claim(wallet, moved, randomUUID())).status, 409);
  });

  describe('the command', () => {
    const keypairFile = (wallet: Keypair) => {
      const file = join(folder, `wallet-${wallet.publicKey.toBase58()}.json`);
      writeFileSync(file, JSON.stringify([...wallet.secretKey]));
      return file;
    };
    const signup = async (wallet: Keypair, ...more: string[]) => await signupAt(daemon.apiUrl, wallet, ...more);
    const signupAt = async (url: string, wallet: Keypair, ...more: string[]) => {
      const output = join(folder, `key-${wallet.publicKey.toBase58()}.json`);
      const where = ['--url', url, '--rpc', chain.rpcUrl, '--keypair', keypairFile(wallet), '--output', output];
      let running = true;
      const blocks = (async () => {
        for (; running; await sleep(100)) await chain.seal(1);
      })();
      const result = await runCommand(['signup', ...where, '--json', ...more]);
      running = false;
      await blocks;
      return { ...result, output };
    };

    test('pays in SOL, waits, keeps the key for its owner alone, and does not pay twice', async () => {
      const wallet = await payer();
      const before = await balance();
      const done = await signup(wallet, '--max', '0.02');
      assert.equal(done.code, 0, done.err);
      const { key } = JSON.parse(done.out) as { key: string };
      await becomes(200, () => works(key));
      assert.equal((await balance()) - before, PRICE);
      assert.equal(statSync(done.output).mode & 0o777, 0o600);
      const again = await signup(wallet, '--max', '0.02');
      assert.equal((JSON.parse(again.out) as { key: string }).key, key);
      // As after a crash between the payment and the answer.
      const state = JSON.parse(readFileSync(done.output, 'utf8')) as object;
      writeFileSync(done.output, JSON.stringify({ ...state, projectId: null }));
      assert.equal((JSON.parse((await signup(wallet, '--max', '0.02')).out) as { key: string }).key, key);
      assert.equal((await balance()) - before, PRICE, 'paid once');
    });

    test('pays in a token', async () => {
      const wallet = await payer();
      const account = getAssociatedTokenAddressSync(mint.publicKey, wallet.publicKey);
      const { blockhash, lastValidBlockHeight } = await chain.connection.getLatestBlockhash();
      const minted = new Transaction({ feePayer: wallet.publicKey, blockhash, lastValidBlockHeight }).add(
        SystemProgram.createAccount({
          fromPubkey: wallet.publicKey,
          newAccountPubkey: mint.publicKey,
          space: MINT_SIZE,
          lamports: 5_000_000,
          programId: TOKEN_PROGRAM_ID,
        }),
        createInitializeMint2Instruction(mint.publicKey, 6, wallet.publicKey, null),
        createAssociatedTokenAccountIdempotentInstruction(wallet.publicKey, account, wallet.publicKey, mint.publicKey),
        createMintToInstruction(mint.publicKey, account, wallet.publicKey, 5_000_000),
      );
      minted.sign(wallet, mint);
      await chain.submitAll([minted.serialize()]);
      const done = await signup(wallet, '--mint', mint.publicKey.toBase58(), '--max', '1.5');
      assert.match(
        done.err,
        new RegExp(`paying 1.5 tokens \\(mint ${mint.publicKey.toBase58()}, .* to ${treasury.toBase58()}`),
      );
      assert.equal(done.code, 0, done.err);
      await becomes(200, () => works((JSON.parse(done.out) as { key: string }).key));
      const treasuryAccount = getAssociatedTokenAddressSync(mint.publicKey, treasury);
      const held = await chain.connection.getTokenAccountBalance(treasuryAccount, 'confirmed');
      assert.equal(held.value.amount, String(TOKEN_PRICE));
    });

    test('pays nothing but what was named, whatever a service calls it, and shows it before', async (t) => {
      const [wallet, token, odd] = [await payer(), Keypair.generate(), Keypair.generate()];
      const account = getAssociatedTokenAddressSync(token.publicKey, wallet.publicKey);
      const { blockhash, lastValidBlockHeight } = await chain.connection.getLatestBlockhash();
      const make = (key: Keypair, programId: PublicKey) =>
        SystemProgram.createAccount({
          fromPubkey: wallet.publicKey,
          newAccountPubkey: key.publicKey,
          space: MINT_SIZE,
          lamports: 5_000_000,
          programId,
        });
      const made = new Transaction({ feePayer: wallet.publicKey, blockhash, lastValidBlockHeight }).add(
        make(token, TOKEN_PROGRAM_ID),
        createInitializeMint2Instruction(token.publicKey, 8, wallet.publicKey, null),
        createAssociatedTokenAccountIdempotentInstruction(wallet.publicKey, account, wallet.publicKey, token.publicKey),
        createMintToInstruction(token.publicKey, account, wallet.publicKey, 500_000_000),
        make(odd, Keypair.generate().publicKey),
      );
      made.sign(wallet, token, odd);
      await chain.submitAll([made.serialize()]);
      let terms: unknown;
      const posts: string[] = [];
      const service = createServer((request, response) => {
        if (request.method === 'POST') posts.push(request.url ?? '');
        response.end(JSON.stringify(terms));
      }).listen(0, '127.0.0.1');
      t.after(() => service.close());
      await once(service, 'listening');
      const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`;
      const receiver = Keypair.generate().publicKey.toBase58();
      const offer = (...prices: object[]) => ({ treasury: receiver, plan: 'agent', credits: 0, prices });
      const price = (symbol: string, address: string | null, more: object = {}) => ({
        symbol,
        mint: address,
        decimals: 8,
        amount: '100000000',
        ...more,
      });
      const before = await chain.connection.getBalance(wallet.publicKey, 'confirmed');
      const [wbtc, other] = [token.publicKey.toBase58(), odd.publicKey.toBase58()];
      const attempts: [unknown, number, readonly string[]][] = [
        [offer(price('USDC', wbtc)), 64, ['--asset', 'USDC', '--max', '1']],
        [offer(price('SOL', wbtc)), 64, ['--asset', 'SOL', '--max', '1']],
        [offer(price('SOL', wbtc)), 64, ['--max', '1']],
        [offer(price('wBTC', wbtc)), 64, ['--asset', 'wBTC', '--max', '1']],
        [offer(price('X', wbtc)), 64, ['--asset', 'SOL', '--mint', wbtc, '--max', '1']],
        // It says 18 decimals, and the mint has 8: that is one whole, and not a ten-thousand-millionth.
        [offer(price('wBTC', wbtc, { decimals: 18 })), 64, ['--mint', wbtc, '--max', '0.9']],
        // Not a mint of a token program: its owner would be called with the wallet as a signer.
        [offer(price('X', other)), 64, ['--mint', other, '--max', '1000000000']],
        [offer(price('X', wbtc)), 64, ['--mint', 'no-address', '--max', '1']],
        [offer(price('\u001b[2J', null)), 75, ['--max', '1']],
        [offer(price('SOL', null, { amount: -1 })), 75, ['--max', '1']],
        [offer(price('SOL', null, { amount: '-1' })), 75, ['--max', '1']],
        [offer(price('SOL', null, { amount: `${2n ** 64n}` })), 75, ['--max', '1']],
        [{ ...offer(), treasury: 'nobody' }, 75, ['--max', '1']],
        [{ prices: 'all' }, 75, ['--max', '1']],
        [null, 75, ['--max', '1']],
      ];
      for (const [offered, code, args] of attempts) {
        terms = offered;
        const done = await signupAt(url, wallet, ...args);
        const what = `${JSON.stringify(offered)} ${args.join(' ')}: ${done.err}`;
        assert.equal(done.code, code, what);
        assert.ok(!done.err.includes('paying') && !done.err.includes('\u001b'), what);
      }
      terms = offer(price('SOL', null));
      for (const far of ['http://service.example', 'http://127.0.0.1.service.example', 'ftp://127.0.0.1', 'service']) {
        const done = await signupAt(far, wallet, '--max', '1');
        assert.equal(done.code, 64, far);
        assert.match(done.err, /https/);
      }
      assert.equal(await chain.connection.getBalance(wallet.publicKey, 'confirmed'), before);
      assert.equal((await chain.connection.getTokenAccountBalance(account, 'confirmed')).value.amount, '500000000');
      assert.deepEqual(posts, []);
    });

    test('refuses a higher price, an asset that is not taken, and a wallet without the money, and pays nothing', async () => {
      const wallet = await payer(PRICE / 2);
      const before = await balance();
      assert.equal((await signup(wallet, '--max', '0.0199')).code, 64);
      assert.equal((await signup(wallet, '--max', 'all')).code, 64);
      assert.equal((await signup(wallet, '--max', '1', '--asset', 'DOGE')).code, 64);
      const poor = await signup(wallet, '--max', '1');
      assert.equal(poor.code, 75);
      assert.match(poor.err, /SIGNUP_PAYMENT|the payment failed/);
      const file = JSON.stringify([...wallet.secretKey]);
      assert.ok(!poor.err.includes(file.slice(1, 40)));
      assert.equal(await balance(), before);
    });
  });
});
