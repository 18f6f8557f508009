/** With a ledger, what is read again costs the upstream no block: replays, backfills by blocks and by addresses, histories of wallets. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { eachStore } from '../../helpers/store.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { FINALITY, makeBed, until } from './harness.ts';

const skip = (await chainMissing()) ?? false;

interface BlockCall {
  readonly method: string;
  readonly params: readonly [slot: number, config?: { readonly transactionDetails?: string }];
}

/** A node that forwards all calls, and what it was asked for. */
async function startRecorder(target: string) {
  const node = await startUpstream();
  const forward = async ({ body }: { readonly body: string }) => {
    const answer = await fetch(target, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    return { chunks: [await answer.text()] };
  };
  const known = ['getSlot', 'getHealth', 'getVersion', 'getFirstAvailableBlock', 'getGenesisHash'];
  for (const method of ['*', ...known]) node.on(method, forward);
  const calls = () => node.calls as unknown as readonly BlockCall[];
  return {
    url: node.url,
    stop: () => node.stop(),
    /** How often each whole block was asked for. */
    blocks(): ReadonlyMap<number, number> {
      const times = new Map<number, number>();
      for (const { method, params } of calls())
        if (method === 'getBlock' && params[1]?.transactionDetails === 'full')
          times.set(params[0], (times.get(params[0]) ?? 0) + 1);
      return times;
    },
    count: (asked: string) => calls().filter(({ method }) => method === asked).length,
  };
}

eachStore('one call for a block', ({ database }) => {
  test('replays, backfills and wallets read the ledger', { skip, timeout: 180_000 }, async (t) => {
    const bed = await makeBed(t, database, ['access', 'webhooks', 'wallet']);
    const node = await startRecorder(bed.chain.rpcUrl);
    t.after(() => node.stop());
    const start = () =>
      bed.start({ chain: { rpcUrl: node.url }, config: { ledger: { retain: { hours: 1 } }, follow: { pollMs: 50 } } });
    let daemon = await start();
    await bed.chain.seal();
    const get = async (path: string) => {
      const response = await fetch(`${daemon.apiUrl}${path}`, { headers: { 'x-api-key': daemon.key } });
      return { status: response.status, body: (await response.json()) as { data?: { signature: string }[] } };
    };
    const reached = async (slot: number) =>
      void (await until(
        async () => (await (await fetch(`${daemon.adminUrl}/readyz`)).json()) as { chain: { cursorSlot: number }[] },
        ({ chain }) => (chain[0]?.cursorSlot ?? -1) >= slot,
      ));
    await reached(await bed.tip());
    const fromSlot = (await bed.tip()) + 1;
    const paid = await bed.pay(12);
    const toSlot = await bed.tip();
    await reached(await bed.chain.seal(FINALITY + 3));

    // The route of webhooks that replays.
    await bed.watch(daemon);
    const hooks = await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`);
    const [hook] = (await hooks.json()) as [{ readonly webhookID: string }];
    const replay = await fetch(`${daemon.apiUrl}/v0/webhooks/${hook.webhookID}/replay?api-key=${daemon.key}`, {
      method: 'POST',
      body: JSON.stringify({ fromSlot, toSlot }),
    });
    assert.equal(replay.status, 202, await replay.text());
    await bed.expectReceived(paid);

    // The past of a wallet that nobody asked for before.
    const history = await until(
      () => get(`/v1/wallet/${bed.wallet}/history?limit=100`),
      ({ status }) => status === 200,
    );
    assert.deepEqual(
      history.body.data?.map(({ signature }) => signature),
      paid.toReversed(),
    );

    // The command: the daemon does the work, by addresses; then the same and all blocks without a daemon.
    const listed = () => node.count('getSignaturesForAddress');
    const before = listed();
    const range = ['--from', String(fromSlot), '--to', String(toSlot), '--config', daemon.configFile];
    const backfill = async (...options: string[]) => {
      const { code, err } = await runCommand(['backfill', ...range, '--processor', 'webhooks', ...options]);
      assert.equal(code, 0, err);
    };
    await bed.watch(daemon);
    await backfill('--by-address');
    await bed.expectReceived([...paid, ...paid]);
    await bed.watch(daemon);
    await daemon.stop();
    await backfill('--by-address');
    await backfill();
    daemon = await start();
    await bed.expectReceived([...paid, ...paid, ...paid]);

    assert.equal(listed(), before, 'lists of addresses come from the index');
    assert.equal(node.count('getTransaction'), 0);
    const blocks = node.blocks();
    for (let slot = fromSlot; slot <= toSlot; slot += 1) assert.equal(blocks.get(slot), 1, `slot ${slot}`);
    assert.ok([...blocks.values()].every((times) => times === 1));
  });
});
