import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { Connection, SystemProgram, Transaction } from '@solana/web3.js';
import { localChain, type Quirk, type RunningBackend, surfpool } from '../../helpers/backends.ts';
import { ask, plainRecord } from './plain-record.ts';
import { runScript, type ScriptRun, wallet } from './same-script.ts';

const skip = (await localChain.missing()) ?? (await surfpool.missing()) ?? false;
const START_LAMPORTS = 100_000_000_000;

interface Side {
  readonly backend: RunningBackend;
  readonly quirks: ReadonlySet<Quirk>;
  readonly connection: Connection;
  readonly run: ScriptRun;
}

suite('the local chain against a node that others wrote', { skip }, () => {
  const sides: Side[] = [];
  before(async () => {
    for (const { start, quirks } of [localChain, surfpool]) {
      const backend = await start();
      const connection = new Connection(backend.rpcUrl, { commitment: 'confirmed', wsEndpoint: backend.wsUrl });
      sides.push({ backend, quirks, connection, run: { sent: [], accounts: [], names: new Map() } });
      await backend.fund(wallet('payer').publicKey.toBase58(), START_LAMPORTS);
    }
    const runs = await Promise.all(sides.map(({ connection }) => runScript(connection)));
    runs.forEach((run, index) => {
      sides[index] = { ...sides[index]!, run };
    });
  });
  after(() => Promise.all(sides.map(({ backend }) => backend.stop())));

  /** The same question to both: ours, then theirs. */
  const both = async <T>(question: (side: Side) => Promise<T>): Promise<[T, T]> => {
    const [ours, theirs] = await Promise.all(sides.map(question));
    return [ours!, theirs!];
  };

  test('every transaction of the script left the same record', async (t) => {
    const names = sides[0]!.run.sent.map(({ name }) => name);
    assert.deepEqual(
      names,
      sides[1]!.run.sent.map(({ name }) => name),
    );
    for (const [index, name] of names.entries()) {
      await t.test(name, async () => {
        const [ours, theirs] = await both(({ backend, run, quirks }) =>
          plainRecord(backend.rpcUrl, run, run.sent[index]!, quirks),
        );
        assert.deepEqual(ours, theirs);
      });
    }
  });

  test('the accounts end in the same state', async () => {
    const [ours, theirs] = await both(async ({ backend, run }) => {
      const keys = run.accounts.map((key) => key.toBase58());
      const options = { encoding: 'base64', commitment: 'confirmed' };
      const { value } = (await ask(backend.rpcUrl, 'getMultipleAccounts', [keys, options])) as {
        value: ({ data: unknown; lamports: number; owner: string; executable: boolean; space: number } | null)[];
      };
      return value.map((account, index) => [
        keys[index],
        account && [account.lamports, account.owner, account.data, account.executable, account.space],
      ]);
    });
    assert.deepEqual(ours, theirs);
  });

  test('refusals are the same error objects', async () => {
    const payer = wallet('payer');
    const stranger = wallet('nobody');
    const pay = (from: typeof payer, lamports: number) =>
      new Transaction().add(
        SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: stranger.publicKey, lamports }),
      );
    const refusal = async (make: (blockhash: string) => Transaction) =>
      both(async ({ backend, connection, quirks }) => {
        const { blockhash } = await connection.getLatestBlockhash();
        const text = make(blockhash).serialize({ verifySignatures: false }).toString('base64');
        const options = { encoding: 'base64', preflightCommitment: 'confirmed' };
        const { error } = (await ask(backend.rpcUrl, 'sendTransaction', [text, options])) as {
          error: { code: number; message: string; data?: { err: unknown; logs: unknown } };
        };
        const message = quirks.has('logsInMessage')
          ? error.message.replace(/: \d+ log messages:[\s\S]*$/, '')
          : error.message;
        return { code: error.code, message, err: error.data?.err, logs: error.data?.logs };
      });
    const signed = (transaction: Transaction, from: typeof payer, recentBlockhash: string) => {
      Object.assign(transaction, { recentBlockhash, feePayer: from.publicKey });
      transaction.sign(from);
      return transaction;
    };
    for (const make of [
      (blockhash: string) => signed(pay(payer, 900_000_000_000), payer, blockhash),
      (blockhash: string) => signed(pay(stranger, 5), stranger, blockhash),
      () => signed(pay(payer, 5), payer, SystemProgram.programId.toBase58()),
    ]) {
      const [ours, theirs] = await refusal(make);
      assert.deepEqual(ours, theirs);
    }
    const [ours, theirs] = await refusal((blockhash) => {
      const transaction = signed(pay(payer, 6), payer, blockhash);
      transaction.signatures[0]!.signature![3]! ^= 1;
      return transaction;
    });
    assert.deepEqual(
      [ours.code, ours.message],
      [-32002, 'Transaction simulation failed: Transaction did not pass signature verification'],
    );
    assert.equal(theirs.code, ours.code);
    assert.match(theirs.message, /signature verification/);
  });
});
