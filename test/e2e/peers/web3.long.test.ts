import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  type Connection,
  Keypair,
  LAMPORTS_PER_SOL,
  SendTransactionError,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import { until } from '../../conformance/proxy/rpc-client.ts';
import { backends } from '../../helpers/backends.ts';
import { type PeerBed, startPeerBed } from './harness.ts';

const version = { maxSupportedTransactionVersion: 0 } as const;

for (const backend of backends) {
  suite(`web3.js over ${backend.name}`, { skip: (await backend.missing()) ?? false }, () => {
    let bed: PeerBed;
    let connection: Connection;
    before(async () => {
      bed = await startPeerBed(backend);
      connection = bed.connect();
    });
    after(() => bed?.stop());

    const transfer = (from: Keypair, to: Keypair, lamports: number) =>
      new Transaction().add(SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports }));
    const pay = (from: Keypair, to: Keypair, lamports: number) =>
      sendAndConfirmTransaction(connection, transfer(from, to, lamports), [from]);

    test('an airdrop is asked for and confirmed', async () => {
      const to = Keypair.generate();
      const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash();
      const signature = await connection.requestAirdrop(to.publicKey, 2 * LAMPORTS_PER_SOL);
      const { value } = await connection.confirmTransaction({ signature, blockhash, lastValidBlockHeight });
      assert.equal(value.err, null);
      assert.equal(await connection.getBalance(to.publicKey), 2 * LAMPORTS_PER_SOL);
    });

    test('sends, confirms by websocket and reads', async () => {
      const [from, to] = [await bed.funded(), Keypair.generate()];
      const signature = await pay(from, to, 1_000_000);
      assert.equal(await connection.getBalance(to.publicKey), 1_000_000);
      const account = await connection.getAccountInfo(to.publicKey);
      assert.deepEqual([account?.lamports, account?.owner.equals(SystemProgram.programId)], [1_000_000, true]);
      const parsed = await connection.getParsedTransaction(signature, version);
      const [instruction] = parsed?.transaction.message.instructions ?? [];
      assert.ok(instruction !== undefined && 'parsed' in instruction);
      assert.deepEqual(instruction.parsed, {
        type: 'transfer',
        info: { source: from.publicKey.toBase58(), destination: to.publicKey.toBase58(), lamports: 1_000_000 },
      });
      const [status] = (await connection.getSignatureStatuses([signature])).value;
      assert.deepEqual([status?.err, status?.slot], [null, parsed?.slot]);
    });

    test('the history of an address, newest first', async () => {
      const [from, to] = [await bed.funded(), Keypair.generate()];
      const first = await pay(from, to, 1_000_000);
      const second = await pay(from, to, 2_000_000);
      const list = await connection.getSignaturesForAddress(to.publicKey);
      assert.deepEqual(
        list.map((one) => one.signature),
        [second, first],
      );
      const older = await connection.getSignaturesForAddress(to.publicKey, { before: second, limit: 5 });
      assert.deepEqual(
        older.map((one) => one.signature),
        [first],
      );
      const { blockTime, slot } = list[0]!;
      const apartSeconds = Math.abs((await connection.getBlockTime(slot))! - blockTime!);
      assert.ok(apartSeconds <= (bed.has('unsteadyTime') ? 2 : 0), `${apartSeconds} s apart`);
      const shown = (await connection.getTransaction(second, version))?.blockTime;
      if (!bed.has('recordTime')) assert.equal(shown, blockTime);
    });

    test('a block with its transaction', async () => {
      const [from, to] = [await bed.funded(), Keypair.generate()];
      const signature = await pay(from, to, 1_000_000);
      const slot = (await connection.getTransaction(signature, version))!.slot;
      const block = await connection.getBlockSignatures(slot, 'confirmed');
      assert.ok(block.signatures.includes(signature));
      const read = connection.getBlock(slot, version);
      if (bed.has('parsedBlocks')) await assert.rejects(read, /Expected/);
      else assert.ok((await read)?.transactions.some((one) => one.transaction.signatures[0] === signature));
      assert.ok((await connection.getBlocks(slot - 2, slot)).includes(slot));
      const later = bed.has('futureNull') ? /not found/ : /Block not available for slot/;
      await assert.rejects(connection.getBlockSignatures(slot + 100_000, 'confirmed'), later);
    });

    test('batches are answered, also where the node refuses them', async () => {
      const [from, to] = [await bed.funded(), Keypair.generate()];
      const sent = [await pay(from, to, 1_000_000), await pay(from, to, 2_000_000), await pay(from, to, 3_000_000)];
      const found = await connection.getTransactions(sent, version);
      assert.deepEqual(
        found.map((one) => one?.transaction.signatures[0]),
        sent,
      );
      const parsed = await connection.getParsedTransactions(sent.toReversed(), version);
      assert.deepEqual(
        parsed.map((one) => one?.transaction.signatures[0]),
        sent.toReversed(),
      );
      const items = [
        {
          jsonrpc: '2.0',
          id: 'a',
          method: 'getBalance',
          params: [to.publicKey.toBase58(), { commitment: 'confirmed' }],
        },
        7,
        { jsonrpc: '2.0', id: 'b', method: 'noSuchMethod' },
        { jsonrpc: '2.0', method: 'getSlot' },
        { jsonrpc: '2.0', id: 'a', method: 'getGenesisHash' },
      ];
      const batch = async (url: string) => {
        const headers = { 'content-type': 'application/json' };
        const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(items) });
        // biome-ignore lint/suspicious/noExplicitAny: a list of answers, or the refusal of all.
        return (await response.json()) as any;
      };
      const answers = await batch(bed.url);
      assert.deepEqual(
        answers.map((one: { id: unknown; error?: { code: number } }) => [one.id, one.error?.code]),
        [
          ['a', undefined],
          [null, -32600],
          ['b', -32601],
          ['a', undefined],
        ],
      );
      assert.equal(answers[0].result.value, 6_000_000);
      assert.equal(answers[3].result, await connection.getGenesisHash());
      const direct = await batch(bed.chain.rpcUrl);
      assert.ok(!Array.isArray(direct), 'a node refuses a batch whole for one element that is no call');
    });

    test('the error object of the node reaches the client whole', async () => {
      const [poor, to] = [await bed.funded(1_000_000), Keypair.generate()];
      await assert.rejects(pay(poor, to, LAMPORTS_PER_SOL), (error: unknown) => {
        assert.ok(error instanceof SendTransactionError);
        assert.ok(error.logs?.some((line) => line.includes('insufficient lamports')));
        return true;
      });
      const signature = await connection.sendTransaction(transfer(poor, to, LAMPORTS_PER_SOL), [poor], {
        skipPreflight: true,
      });
      await until('the failure', async () => (await connection.getTransaction(signature, version)) !== null);
      const landed = await connection.getTransaction(signature, version);
      assert.deepEqual(landed?.meta?.err, { InstructionError: [0, { Custom: 1 }] });
    });

    test('subscriptions of every kind', async () => {
      const [from, to] = [await bed.funded(), Keypair.generate()];
      const seen = new Set<string>();
      const sawProgram = new Set<string>();
      const ends = [
        connection.onAccountChange(to.publicKey, ({ lamports }) => seen.add(`account ${lamports}`), 'confirmed'),
        connection.onLogs(from.publicKey, ({ err, signature }) => seen.add(`logs ${err} ${signature}`), 'confirmed'),
        connection.onSlotChange(() => seen.add('slot')),
        connection.onSlotUpdate(({ type }) => seen.add(type)),
        connection.onProgramAccountChange(
          SystemProgram.programId,
          ({ accountId, accountInfo }) => sawProgram.add(`${accountId.toBase58()} ${accountInfo.lamports}`),
          'confirmed',
        ),
      ];
      const roots: number[] = [];
      if (!bed.has('noRootSubscribe')) ends.push(connection.onRootChange((root) => roots.push(root)));
      // One socket's calls are answered in their order: an account that moves shows that all before it are in place.
      await until('a slot', () => seen.has('slot'));
      let lamports = 1_000_000;
      let signature = '';
      await until('an account', async () => {
        signature = await pay(from, to, 1_000_000);
        for (let round = 0; round < 50 && !seen.has(`account ${lamports}`); round += 1) {
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
        const found = seen.has(`account ${lamports}`);
        if (!found) lamports += 1_000_000;
        return found;
      });
      await until('the logs', () => seen.has(`logs null ${signature}`));
      await until('the program account', () => sawProgram.has(`${to.publicKey.toBase58()} ${lamports}`));
      for (const type of ['createdBank', 'frozen']) await until(type, () => seen.has(type));
      if (!bed.has('noRootSubscribe')) await until('a root', () => roots.length > 0);
      await connection.removeAccountChangeListener(ends[0]!);
      await connection.removeOnLogsListener(ends[1]!);
      await connection.removeSlotChangeListener(ends[2]!);
      await connection.removeSlotUpdateListener(ends[3]!);
      await connection.removeProgramAccountChangeListener(ends[4]!);
      if (ends[5] !== undefined) await connection.removeRootChangeListener(ends[5]);
    });
  });
}
