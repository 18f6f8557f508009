import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import { until } from '../../conformance/proxy/rpc-client.ts';
import { localChain } from '../../helpers/backends.ts';
import { startChain } from '../../helpers/chain.ts';
import { startPeerBed } from './harness.ts';

const skip = (await localChain.missing()) ?? false;

test('a client of the daemon outlives half a frame from the node', { skip }, async (t) => {
  const chain = await startChain({ slotMs: 400, finalityDepth: 4, time: { kind: 'wall' } });
  const { rpcUrl, wsUrl, stop } = chain;
  const fund = async (address: string, lamports: number) => {
    await chain.fund(address, lamports);
    await chain.seal();
  };
  const bed = await startPeerBed({ ...localChain, start: async () => ({ rpcUrl, wsUrl, fund, stop }) });
  t.after(() => bed.stop());
  const connection = bed.connect();
  const [from, to] = [await bed.funded(), await bed.funded(1_000_000)];
  const slots: number[] = [];
  const balances: number[] = [];
  connection.onSlotChange(({ slot }) => slots.push(slot));
  connection.onAccountChange(to.publicKey, ({ lamports }) => balances.push(lamports), 'confirmed');
  await until('slots', () => slots.length > 3);
  chain.faults.set([{ match: { subscription: 'slot' }, action: 'wsHalf', times: 1 }]);
  await until('the half frame', () => chain.faults.log().some(({ action }) => action === 'wsHalf'));
  const before = slots.at(-1)!;
  await until('slots again', () => slots.at(-1)! > before + 3);
  const pay = SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to.publicKey, lamports: 2_000_000 });
  await sendAndConfirmTransaction(connection, new Transaction().add(pay), [from]);
  await until('the account', () => balances.includes(3_000_000));
  assert.ok(
    slots.every((slot, index) => index === 0 || slot > slots[index - 1]!),
    'no slot twice, none backwards',
  );
});
