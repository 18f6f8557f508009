import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { FAULTS, type NetworkBed, startNetworkBed } from './harness.ts';

const skip = (await chainMissing()) ?? false;

/** Questions whose answers do not change, as the node itself answers them. */
async function truths(bed: NetworkBed, signature: string): Promise<readonly { body: string; truth: unknown }[]> {
  const found = await bed.chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
  assert.ok(found);
  const options = '{"maxSupportedTransactionVersion":0,"commitment":"confirmed"}';
  const bodies = [
    `{"jsonrpc":"2.0","id":1,"method":"getTransaction","params":["${signature}",${options}]}`,
    `{"jsonrpc":"2.0","id":2,"method":"getBlock","params":[${found.slot},${options}]}`,
    `{"jsonrpc":"2.0","id":3,"method":"getGenesisHash"}`,
    `[{"jsonrpc":"2.0","id":4,"method":"getGenesisHash"},{"jsonrpc":"2.0","id":5,"method":"getBlockTime","params":[${found.slot}]}]`,
  ];
  return Promise.all(
    bodies.map(async (body) => {
      const response = await fetch(bed.chain.rpcUrl, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      });
      return { body, truth: await response.json() };
    }),
  );
}

/** Right, or an honest error: anything else fails. Gives whether it was right. */
async function askThrough(bed: NetworkBed, body: string, truth: unknown): Promise<boolean> {
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${bed.daemon.apiUrl}/?api-key=${bed.daemon.key}`, { method: 'POST', body });
    text = await response.text();
  } catch {
    // A stream that broke off may be cut: that is no answer at all.
    return false;
  }
  const value = JSON.parse(text) as { error?: { code: number } };
  if (Array.isArray(truth)) {
    assert.equal(response.status, 200, text);
    for (const [i, item] of (value as unknown as { error?: { code: number } }[]).entries())
      if (item.error !== undefined) assert.ok([-32002, -32003].includes(item.error.code), text);
      else assert.deepEqual(item, truth[i]);
    return true;
  }
  if (response.status === 200) assert.deepEqual(value, truth);
  else {
    assert.ok([503, 504].includes(response.status), `${response.status} ${text}`);
    assert.ok([-32002, -32003].includes(value.error?.code ?? 0), text);
  }
  return response.status === 200;
}

test('an upstream behind each fault delays, and never makes an answer wrong', { skip }, async (t: TestContext) => {
  const bed = await startNetworkBed(t);
  const sent: string[] = [];
  for (const [name, plan] of Object.entries(FAULTS)) {
    await t.test(name, async () => {
      const signature = await bed.pay();
      sent.push(signature);
      const questions = await truths(bed, signature);
      bed.upstreamSide.set(plan);
      bed.upstreamSide.cut();
      sent.push(await bed.pay());
      for (const { body, truth } of questions) await askThrough(bed, body, truth);
      bed.upstreamSide.clear();
      bed.upstreamSide.cut();
      // It has got over it: the chain is followed, and the proxy answers again.
      await bed.untilArrived(sent);
      for (const { body, truth } of questions) {
        let right = false;
        for (let round = 0; round < 50 && !right; round += 1) {
          right = await askThrough(bed, body, truth);
          if (!right) await new Promise((resolve) => setTimeout(resolve, 50));
        }
        assert.ok(right, body);
      }
    });
  }
  assert.deepEqual([...bed.arrived()].sort(), [...sent].sort(), 'each payment once: only the upstream was at fault');
});

test('a receiver behind each fault gets every event at least once', { skip }, async (t: TestContext) => {
  const bed = await startNetworkBed(t);
  const sent: string[] = [];
  for (const [name, plan] of Object.entries(FAULTS)) {
    await t.test(name, async () => {
      bed.receiverSide.set(plan);
      bed.receiverSide.cut();
      const before = bed.receiverSide.seen.connections;
      sent.push(await bed.pay(), await bed.pay());
      for (let round = 0; round < 500 && bed.receiverSide.seen.connections === before; round += 1)
        await new Promise((resolve) => setTimeout(resolve, 10));
      assert.ok(bed.receiverSide.seen.connections > before, 'a delivery met the fault');
      bed.receiverSide.clear();
      bed.receiverSide.cut();
      await bed.untilArrived(sent);
    });
  }
  // A repeated event is the same event: id and body.
  const byId = new Map<string, string>();
  for (const { headers, body } of bed.receiver.received) {
    const id = String(headers['webhook-id']);
    assert.equal(byId.get(id) ?? body.toString(), body.toString());
    byId.set(id, body.toString());
  }
  assert.equal(byId.size, sent.length);
});
