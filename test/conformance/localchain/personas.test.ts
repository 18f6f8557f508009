/** What a local chain in the persona of a release says without a node beside it; `releases.long.test.ts` holds it against real ones. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { suite, test } from 'node:test';
import {
  createAssociatedTokenAccountIdempotentInstruction,
  getAssociatedTokenAddressSync,
  NATIVE_MINT,
} from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL, PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import { WebSocket } from 'ws';
import type { LocalChainOptions } from '../../../packages/local-chain/chain.ts';
import { decode } from '../../../src/lib/base58.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { until } from '../../helpers/until.ts';

const missing = await chainMissing();

type Answer = { readonly result?: never; readonly error?: { readonly code: number; readonly message: string } };

function clientOf({ rpcUrl }: TestChain) {
  return async (method: string, ...params: unknown[]): Promise<Answer> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(rpcUrl, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    return (await response.json()) as Answer;
  };
}

async function withChain<T>(options: LocalChainOptions, run: (chain: TestChain) => Promise<T>): Promise<T> {
  const chain = await startChain(options);
  try {
    return await run(chain);
  } finally {
    await chain.stop();
  }
}

suite('releases of Agave', { skip: missing ?? false }, () => {
  test('the newest release is the default of Alpenglow, and its rank map has the one validator', () =>
    withChain({ consensus: 'alpenglow' }, async (chain) => {
      const ask = clientOf(chain);
      const { result } = await ask('getRankMap', 0);
      const { epoch, totalStake, validators } = (
        result as unknown as {
          value: { epoch: number; totalStake: number; validators: Record<string, unknown>[] };
        }
      ).value;
      assert.deepEqual([epoch, validators.length], [0, 1]);
      const { blsPubkeyCompressed, nodePubkey, rank, stake, votePubkey } = validators[0]!;
      const { current } = (await ask('getVoteAccounts')).result as unknown as { current: Record<string, unknown>[] };
      assert.deepEqual([rank, stake, votePubkey], [0, totalStake, current[0]!['votePubkey']]);
      assert.deepEqual((await ask('getIdentity')).result, { identity: nodePubkey });
      assert.equal(decode(blsPubkeyCompressed as string)!.length, 48);
    }));

  test('a chain that refuses confirmed does so in every method, and answers the other commitments', () =>
    withChain({ consensus: 'alpenglow', refusesConfirmed: true }, async (chain) => {
      const ask = clientOf(chain);
      const key = Keypair.generate().publicKey.toBase58();
      const slot = (await ask('getSlot')).result as unknown as number;
      const signature = '5'.repeat(88);
      for (const [method, ...params] of [
        ['getSlot'],
        ['getBlockHeight'],
        ['getEpochInfo'],
        ['getLatestBlockhash'],
        ['getBalance', key],
        ['getAccountInfo', key],
        ['getMultipleAccounts', [key]],
        ['getProgramAccounts', key],
        ['getBlock', slot],
        ['getBlocks', slot, slot],
        ['getBlocksWithLimit', slot, 1],
        ['getSignaturesForAddress', key],
        ['getSignatureStatuses', [signature]],
        ['getTransaction', signature],
      ] as const) {
        const refused = await ask(method, ...params, { commitment: 'confirmed' });
        assert.deepEqual(
          refused.error,
          { code: -32602, message: 'Method does not support commitment `confirmed`' },
          method,
        );
        const answered = await ask(method, ...params, { commitment: 'finalized' });
        assert.equal(answered.error, undefined, method);
      }
      // What a client asks for without naming it goes on.
      await chain.fund(key, LAMPORTS_PER_SOL);
    }));

  test('a simulation shows inner instructions in the encoding that is asked for', () =>
    withChain({ consensus: 'alpenglow' }, async (chain) => {
      const ask = clientOf(chain);
      const payer = Keypair.generate();
      await chain.fund(payer.publicKey.toBase58(), LAMPORTS_PER_SOL);
      const { blockhash } = await chain.connection.getLatestBlockhash('finalized');
      // The associated token program calls the token program.
      const account = getAssociatedTokenAddressSync(NATIVE_MINT, payer.publicKey);
      const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(
        createAssociatedTokenAccountIdempotentInstruction(payer.publicKey, account, payer.publicKey, NATIVE_MINT),
      );
      transaction.sign(payer);
      const wire = transaction.serialize().toString('base64');
      const innerOf = async (innerInstructionsEncoding?: string) => {
        const config = { encoding: 'base64', innerInstructions: true, innerInstructionsEncoding };
        const { result } = await ask('simulateTransaction', wire, config);
        const { innerInstructions } = (
          result as unknown as { value: { innerInstructions: { instructions: object[] }[] } }
        ).value;
        return Object.keys(innerInstructions[0]!.instructions[0]!).sort();
      };
      assert.deepEqual(await innerOf('json'), ['accounts', 'data', 'programIdIndex', 'stackHeight']);
      assert.deepEqual(await innerOf('jsonParsed'), ['parsed', 'program', 'programId', 'stackHeight']);
      assert.deepEqual(await innerOf(), ['parsed', 'program', 'programId', 'stackHeight']);
    }));

  for (const [release, slice] of [
    ['4.2', 82],
    ['4.4', 4],
  ] as const)
    test(`notifications of Agave ${release} have ${slice} of the bytes of a mint when 4 are asked for`, () =>
      withChain({ release }, async (chain) => {
        const mint = Keypair.generate().publicKey.toBase58();
        const owner = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
        const account = { lamports: LAMPORTS_PER_SOL, owner, data: Buffer.alloc(82) };
        await chain.setAccount(mint, account);
        const socket = new WebSocket(chain.wsUrl);
        await once(socket, 'open');
        const config = { encoding: 'base64', commitment: 'confirmed', dataSlice: { offset: 0, length: 4 } };
        const messages: { params?: { result: { value: { data: [string, string] } } } }[] = [];
        socket.on('message', (text) => void messages.push(JSON.parse(String(text)) as never));
        socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'accountSubscribe', params: [mint, config] }));
        await until(() => messages.length === 1);
        const payer = Keypair.generate();
        await chain.fund(payer.publicKey.toBase58(), 2 * LAMPORTS_PER_SOL);
        const { blockhash } = await chain.connection.getLatestBlockhash();
        const transfer = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(
          SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: new PublicKey(mint), lamports: 1 }),
        );
        transfer.sign(payer);
        await chain.connection.sendRawTransaction(transfer.serialize());
        await until(() => messages.length > 1);
        socket.close();
        assert.equal(Buffer.from(messages[1]!.params!.result.value.data[0], 'base64').length, slice);
      }));
});
