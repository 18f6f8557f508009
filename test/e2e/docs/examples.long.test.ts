import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createMint } from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, runCommand, startDaemon } from '../../helpers/daemon.ts';
import { docsPages } from '../../helpers/documents.ts';
import { commandsOf } from '../../helpers/readme.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

const missing =
  (await chainMissing()) ?? (spawnSync('curl', ['--version']).status === 0 ? null : 'curl is not installed');
if (missing !== null) console.error(`SKIPPED: ${missing}`);

/** Run as a whole by tutorials.long.test.ts. */
const WHOLE = /^docs\/(tutorials\/|how-to\/javascript\.md$)/;
/** An index is made, a block heard of, a change noticed: what is refused for that reason comes in a moment. */
const TRIES = 150;
const OPERATOR_TOKEN = 'operator-token-of-the-docs';

describe('the examples of docs/', { skip: missing ?? false }, () => {
  let chain: TestChain;
  let daemon: DaemonInProcess;
  let receiver: Receiver;
  const values = new Map<string, string>();

  before(async () => {
    chain = await startChain();
    daemon = await startDaemon({
      chain: { rpcUrl: chain.rpcUrl, wsUrl: chain.wsUrl },
      config: {
        follow: { startSlot: 1_000, pollMs: 20, enabled: true },
        ledger: { retain: { hours: 1 } },
        webhooks: { allowCidrs: ['127.0.0.1/32'] },
        dashboard: { operatorToken: OPERATOR_TOKEN },
      },
    });
    receiver = await startReceiver();
    const payer = Keypair.generate();
    const wallet = Keypair.generate().publicKey;
    await chain.fund(payer.publicKey.toBase58(), 10 * LAMPORTS_PER_SOL);
    const pay = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: wallet, lamports: LAMPORTS_PER_SOL });
    const { connection } = chain;
    const signature = await sendAndConfirmTransaction(connection, new Transaction().add(pay), [payer]);
    const mint = await createMint(connection, payer, payer.publicKey, null, 6);
    const { blockhash } = await connection.getLatestBlockhash();
    const again = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add({ ...pay });
    again.sign(payer);
    values.set('http://127.0.0.1:8787', daemon.apiUrl).set('http://127.0.0.1:8790', daemon.adminUrl);
    values.set('http://127.0.0.1:9900', receiver.url).set('KEY', daemon.key).set('PROJECT_ID', daemon.projectId);
    values.set('OPERATOR_TOKEN', OPERATOR_TOKEN);
    values.set('WALLET', wallet.toBase58()).set('MINT', mint.toBase58()).set('SIGNATURE', signature);
    values.set('TRANSACTION', again.serialize().toString('base64'));
    values.set('SLOT', String(await connection.getSlot()));
  });
  after(async () => {
    await daemon?.stop();
    await receiver?.close();
    await chain?.stop();
  });

  const filledIn = (command: string) => {
    let real = command;
    for (const [word, value] of values) {
      real = /^[A-Z]/.test(word)
        ? real.replaceAll(new RegExp(`\\b${word}\\b`, 'g'), value)
        : real.replaceAll(word, value);
    }
    return real;
  };

  async function curl(command: string): Promise<string> {
    let out = '';
    for (let tries = 0; tries < TRIES; tries += 1) {
      // Not spawnSync: the daemon that answers is in this process.
      const child = spawn('bash', ['-c', `${filledIn(command)} -sS --fail-with-body`]);
      out = '';
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk: Buffer) => (out += chunk.toString()));
      const [code] = await once(child, 'close');
      if (code === 0) return out;
      await sleep(100);
    }
    throw new Error(`${filledIn(command)}: ${out}`);
  }

  for (const { path, blocks } of docsPages().filter((page) => !WHOLE.test(page.path))) {
    const here = blocks.filter(({ language, words }) => language === 'sh' && words.length === 0);
    for (const command of here.flatMap(({ text }) => commandsOf(text))) {
      test(`${path}: ${command.slice(0, 90)}`, async () => {
        if (command.startsWith('parhelion ')) {
          const args = filledIn(command).replace('parhelion.yaml', daemon.configFile).split(' ').slice(1);
          const { code, err } = await runCommand(args);
          assert.equal(code, 0, err);
          return;
        }
        assert.match(command, /^curl /);
        const out = await curl(command);
        const isRpc = command.includes('"jsonrpc"');
        if (isRpc) assert.doesNotMatch(out, /"error"/);
        const { webhookID } = out.startsWith('{') ? (JSON.parse(out) as { webhookID?: string }) : {};
        if (webhookID !== undefined) values.set('WEBHOOK_ID', webhookID);
      });
    }
  }
});
