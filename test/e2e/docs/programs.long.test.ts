/** Each program of examples/ runs against a daemon with a local chain, and does what its first line says. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { createAssociatedTokenAccount, createMint, mintTo } from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { coreConfig } from '../../../src/config/core.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { assetId } from '../../../src/solana/concurrent/tree.ts';
import { ACCOUNT_COMPRESSION_PROGRAM } from '../../../src/solana/programs.ts';
import { createModelTree, mintOf, treeAccount, treeTransaction } from '../../helpers/bubblegum.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';
import { until } from '../../helpers/until.ts';

const folder = `${findProjectRoot()}examples/`;
/** Parts of the others. */
const PARTS = ['client.mjs', 'keccak.mjs', 'verify.mjs'];
const TREE = new Uint8Array(32).fill(123);
const NFTS = 5;
const OWNER = 40;

describe('the programs of examples/', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  let daemon: DaemonInProcess;
  let state: string;
  const payer = Keypair.generate();
  const owner = Keypair.generate().publicKey;
  const wallet = owner.toBase58();
  const ran = new Set<string>();

  const pay = async (lamports: number): Promise<string> => {
    const transfer = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: owner, lamports });
    // On a busy machine the block of the newest blockhash can be too old when the payment arrives.
    const send = () => sendAndConfirmTransaction(chain.connection, new Transaction().add(transfer), [payer]);
    const tooOld = (error: unknown) => {
      if (/Blockhash not found/.test(String(error))) return null;
      throw error;
    };
    return await until(() => send().catch(tooOld), 'a payment');
  };

  const tree = createModelTree(TREE, 4);
  const setTree = (data: Uint8Array) =>
    chain.setAccount(encode32(TREE), { lamports: 1_000_000_000, data, owner: ACCOUNT_COMPRESSION_PROGRAM });
  /** The chain has no Bubblegum: what it would have written is recorded, and the account of the tree set. */
  async function mintNfts(): Promise<void> {
    let number = 0;
    const append = (call: Parameters<typeof treeTransaction>[2][number]) =>
      chain.appendRecorded(treeTransaction(1, ++number, [call]) as never);
    await append({ call: 'start', tree: TREE, told: tree.started() });
    for (let leaf = 0; leaf < NFTS; leaf += 1) {
      const { schema, data } = mintOf(TREE, leaf, OWNER, `Halo #${leaf}`);
      await append({ call: 'replace', tree: TREE, told: tree.set(leaf, hashLeaf(schema)), schema, data });
    }
    await setTree(treeAccount(tree));
  }

  before(async () => {
    state = mkdtempSync(join(tmpdir(), 'parhelion-programs-'));
    chain = await startChain({ slotMs: 200, time: { kind: 'wall' } });
    await chain.fund(payer.publicKey.toBase58(), 10 * LAMPORTS_PER_SOL);
    await mintNfts();
    daemon = await startDaemon({
      chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
      config: {
        plugins: [...coreConfig.properties.plugins.default, 'streams'],
        streams: { grpc: { port: 0 } },
        follow: { startSlot: 1_000, pollMs: 20, enabled: true },
        // That the account of the tree agrees is what the program finds out.
        compression: { verifyChain: false, cnft: { trees: [encode32(TREE)] } },
        ledger: { retain: { hours: 1 } },
        webhooks: { allowCidrs: ['127.0.0.1/32'] },
      },
    });
    await pay(LAMPORTS_PER_SOL);
  });
  after(async () => {
    await daemon?.stop();
    await chain?.stop();
    rmSync(state, { recursive: true, force: true });
  });

  interface Running {
    readonly child: ChildProcess;
    out(): string;
    readonly ended: Promise<number | null>;
  }
  function begin(t: TestContext, name: string, args: readonly string[] = [], env: object = {}): Running {
    ran.add(name);
    const flags = process.versions.node.startsWith('20.') ? ['--experimental-websocket', '--no-warnings'] : [];
    const child = spawn(process.execPath, [...flags, `${folder}${name}`, ...args], {
      cwd: state,
      env: { PATH: process.env['PATH'], PARHELION_URL: daemon.apiUrl, API_KEY: daemon.key, PORT: '0', ...env },
    });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (text += String(part)));
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    t.after(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    return { child, out: () => text, ended };
  }
  async function run(t: TestContext, name: string, ...args: readonly string[]): Promise<string> {
    const { out, ended } = begin(t, name, args);
    assert.equal(await ended, 0, out());
    return out();
  }

  test('wallet, explain, balance-at, accounting and priority-fee print what the chain has', async (t) => {
    const signature = await pay(LAMPORTS_PER_SOL / 2);
    const shown = await until(async () => {
      const text = await run(t, 'wallet.mjs', wallet);
      return /in 0\.5 SOL/.test(text) ? text : null;
    });
    assert.match(shown, /^SOL {2}1\.5$/m);
    assert.match(shown, new RegExp(`Z {2}in 0\\.5 SOL {2}${payer.publicKey.toBase58()}$`, 'm'));
    const words = new RegExp(`^${signature}\n {2}TRANSFER by SYSTEM_PROGRAM, fee 5000\n {2}.*0\\.5 SOL`, 'm');
    await until(async () => words.test(await run(t, 'explain.mjs', wallet)), 'the payment in words');
    const now = new Date(Date.now() - 1_000).toISOString();
    assert.match(await run(t, 'balance-at.mjs', wallet, now), /"balance": "?[\d.]+/);
    const csv = await until(async () => {
      const lines = (await run(t, 'accounting.mjs', wallet)).trim().split('\n');
      return lines.length === 3 ? lines : null;
    }, 'both transfers');
    assert.equal(csv[0], 'time,direction,amount,mint,counterparty,type,signature');
    assert.match(csv[2]!, new RegExp(`Z,in,0\\.5,So1{41},${payer.publicKey.toBase58()},transfer,${signature}$`));
    assert.match(
      await run(t, 'priority-fee.mjs', wallet),
      /^medium +\d+(\.\d+)? micro-lamports a unit, \d+ lamports$/m,
    );
  });

  test('token-accounts lists all of an owner', async (t) => {
    const mint = await createMint(chain.connection, payer, payer.publicKey, null, 6);
    const account = await createAssociatedTokenAccount(chain.connection, payer, mint, owner);
    await mintTo(chain.connection, payer, mint, account, payer, 2_500_000);
    const line = `${account.toBase58()}  2.5 of ${mint.toBase58()}\n1 token accounts\n`;
    await until(async () => (await run(t, 'token-accounts.mjs', wallet)) === line);
  });

  test('cnft-proof finds the root of a proof on the chain, and refuses one that is not there', async (t) => {
    const id = encode32(assetId(TREE, 3n));
    const shown = `${id} is leaf 3 of ${encode32(TREE)}\nits 4 siblings lead to the root on the chain\n`;
    await until(async () => {
      const { out, ended } = begin(t, 'cnft-proof.mjs', [id]);
      return (await ended) === 0 ? out() === shown : null;
    }, 'the proof');
    const other = treeAccount(tree);
    // The last byte of the newest root.
    other.writeUInt8(other.readUInt8(111) ^ 1, 111);
    await setTree(other);
    const { out, ended } = begin(t, 'cnft-proof.mjs', [id]);
    assert.equal(await ended, 1);
    assert.match(out(), /the tree on the chain has no such root: the proof is wrong/);
  });

  test('deposits prints each once, also those that came while it was not running', async (t) => {
    const env = { STATE: join(state, 'deposits.json') };
    const seen = (text: string) => text.split('\n').flatMap((line) => /^(\w{64,}) /.exec(line)?.[1] ?? []);
    const start = () => begin(t, 'deposits.mjs', [wallet], env);
    const first = await pay(1_000_000);
    const one = start();
    await until(() => seen(one.out()).includes(first), 'the deposit');
    one.child.kill('SIGTERM');
    await one.ended;
    const second = await pay(2_000_000);
    const other = start();
    await until(() => seen(other.out()).includes(second), 'the deposit of the time between');
    assert.deepEqual(seen(other.out()), [second]);
  });

  test('webhook-receiver takes signed deliveries only; resend says how they go', async (t) => {
    const { out, child, ended } = begin(t, 'webhook-receiver.mjs', [wallet]);
    const [, id] = await until(() => /^webhook (\S+)$/m.exec(out()), 'the webhook');
    const signature = await pay(3_000_000);
    await until(() => out().includes(signature), 'the delivery');
    assert.match(out(), new RegExp(`^${signature} {2}.*0\\.003 SOL`, 'm'));
    const headers = { 'x-api-key': daemon.key };
    const { webhookURL } = (await (await fetch(`${daemon.apiUrl}/v0/webhooks/${id}`, { headers })).json()) as {
      readonly webhookURL: string;
    };
    const forged = { 'webhook-id': 'msg_1', 'webhook-timestamp': `${Math.floor(Date.now() / 1_000)}` };
    for (const given of [{}, { 'webhook-signature': 'v1,AAAA' }])
      assert.equal(
        (await fetch(webhookURL, { method: 'POST', headers: { ...forged, ...given }, body: '[]' })).status,
        400,
      );
    await until(async () =>
      /^Example: working, 100\.0 % of today's attempts, 0 waiting$/m.test(await run(t, 'resend.mjs')),
    );
    assert.match(await run(t, 'resend.mjs', '--resend'), /^ {2}0 sent now$/m);
    child.kill('SIGINT');
    assert.equal(await ended, 0);
    assert.equal((await fetch(`${daemon.apiUrl}/v0/webhooks/${id}`, { headers })).status, 404, 'it is deleted');
  });

  test('stream-bot hears of a payment with the names of its instructions', async (t) => {
    const { out } = begin(t, 'stream-bot.mjs', [wallet]);
    await until(() => /^subscribed as /m.test(out()), 'the subscription');
    const signature = await pay(4_000_000);
    await until(() => out().includes(signature), 'the notification');
    assert.match(out(), /"instructionName":"transfer"/i);
  });

  test('every program was run, stands in the list, and is short', () => {
    const names = readdirSync(folder).filter((name) => name.endsWith('.mjs'));
    assert.deepEqual([...ran, ...PARTS].sort(), names);
    const page = readFileSync(`${folder}README.md`, 'utf8');
    for (const name of names) {
      assert.ok(page.includes(`(${name})`), name);
      assert.ok(readFileSync(folder + name, 'utf8').split('\n').length <= 60, name);
    }
  });
});
