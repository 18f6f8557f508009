/** `getSlotFinality` where nothing can be checked, before what follows, and with wrong parameters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { call, post, startBed, until } from './rpc-client.ts';

interface Answer {
  readonly result?: { readonly context: { readonly slot: number }; readonly value: Record<string, unknown> };
  readonly error?: { readonly code: number; readonly data?: { readonly details?: string } };
}

test('a slot is final or not by the word of the node, and the answer says why no certificate proves it', {
  skip: (await chainMissing()) ?? false,
}, async (t) => {
  const chain = await startChain();
  const daemon = await startDaemon({
    chain,
    config: { plugins: ['access', 'proxy', 'fees'], follow: { pollMs: 50, startSlot: 0 } },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
  });
  const ask = async (params?: unknown) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getSlotFinality', params });
    return JSON.parse((await post({ daemon }, body)).text) as Answer;
  };
  await until('a block is final', async () => {
    await chain.fund('11111111111111111111111111111112', 1_000_000);
    return ((await ask([])).result?.context.slot ?? 0) > 0;
  });
  const reason = 'follow.stream names no Yellowstone server, which sends the certificates';
  const { result } = await ask([]);
  const newest = result!.context.slot;
  assert.deepEqual(result!.value, { slot: newest, isFinal: true, certificate: null, reason, alarm: null });
  assert.deepEqual((await ask()).result?.value['isFinal'], true);
  assert.deepEqual((await ask([0])).result?.value['slot'], 0);
  const beyond = await ask([Number.MAX_SAFE_INTEGER]);
  assert.deepEqual([beyond.result?.value['isFinal'], beyond.result?.value['reason']], [false, reason]);
  for (const params of [['1'], [-1], [1.5], [null], [1, 2], { slot: 1 }, [2 ** 53], 5]) {
    const { error } = await ask(params);
    assert.equal(error?.code, -32602, JSON.stringify(params));
  }
});

test('before a chain that is not followed it is unavailable, and says so', async (t) => {
  const bed = await startBed(t);
  const { status, text } = await post(bed, call('getSlotFinality', [1]));
  const { error } = JSON.parse(text) as Answer;
  assert.deepEqual([status, error?.data?.details], [503, 'no final slot is known: the chain is not followed yet']);
  assert.equal(bed.first.callsOf('getSlotFinality').length, 0);
});
