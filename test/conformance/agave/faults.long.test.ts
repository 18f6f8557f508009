/** A real node that is killed, that lags, and that becomes another chain. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, type PublicKey } from '@solana/web3.js';
import { agaveMissing } from '../../helpers/agave.ts';
import { startHttpServer } from '../../helpers/http-server.ts';
import { Database } from '../../helpers/sqlite.ts';
import { type HistoryItem, walletClient } from '../../helpers/wallet-client.ts';
import { type AgaveBed, arrivedOnce, caughtUp, eventually, signaturesOf, startBed } from './harness.ts';

const skip = agaveMissing() ?? false;
const LAMPORTS = 1_000_000_000;
const ROUNDS = 6;

interface Ready {
  readonly status: number;
  readonly text: string;
}

async function readyz({ daemon }: AgaveBed): Promise<Ready> {
  const response = await fetch(`${daemon.adminUrl}/readyz`);
  return { status: response.status, text: await response.text() };
}

async function ask(url: string, method: string, params: readonly unknown[] = []) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  return { status: response.status, body: (await response.json()) as { result?: unknown; error?: { code: number } } };
}

async function historyIsTheNodes(bed: AgaveBed, wallet: PublicKey): Promise<void> {
  const told = await walletClient(bed.daemon).all<HistoryItem>(
    `${wallet}/history?tokenAccounts=all`,
    'before',
    [7, 100],
  );
  assert.deepEqual(
    told.map(({ signature }) => signature),
    await signaturesOf(bed.node, [wallet]),
  );
}

test('a real node that is killed and comes back, with its ledger and with another one', { skip }, async (t) => {
  const bed = await startBed(t, { slotMs: 200 });
  const { node, daemon } = bed;
  const wallet = Keypair.generate().publicKey;
  const hook = await bed.watch('raw', [wallet]);
  const client = walletClient(daemon);

  await t.test('kill -9: the follower goes on where it was, nothing is lost, nothing comes twice', async () => {
    const sent = await node.fund([wallet], LAMPORTS);
    await caughtUp(bed);
    await client.get(`${wallet}/history`);
    for (let kills = 0; kills < 2; kills += 1) {
      sent.push(...(await node.fund([wallet], LAMPORTS + 1 + kills)));
      await node.kill();
      await eventually(async () => ((await ask(bed.url, 'getSlot')).status === 503 ? null : 'getSlot is answered'));
      await node.start('same');
      sent.push(...(await node.fund([wallet], LAMPORTS + 10 + kills)));
    }
    await caughtUp(bed);
    const all = await signaturesOf(node, [wallet]);
    // A node on its own loses its newest blocks with a kill, although they were confirmed.
    const lost = sent.filter((signature) => !all.includes(signature));
    assert.ok(lost.length <= 2 && all.length + lost.length === sent.length, `${lost.length} lost`);
    await arrivedOnce(hook, all, lost);
    await historyIsTheNodes(bed, wallet);
    await eventually(async () => {
      const { status, text } = await readyz(bed);
      return status === 200 ? null : text;
    });
  });

  await t.test('another genesis on the same port: nothing of it is ever written, reads are refused', async () => {
    const before = hook.arrived();
    const genesis = await node.call<string>('getGenesisHash', []);
    await node.kill();
    await node.start('new');
    const other = await node.call<string>('getGenesisHash', []);
    assert.notEqual(other, genesis);
    const theirs = await node.fund([wallet], LAMPORTS);
    await eventually(async () => {
      const { status, text } = await readyz(bed);
      return status === 503 && text.includes('UPSTREAM_OTHER_CHAIN') && text.includes(other) ? null : text;
    });
    // The new chain grows beyond the slots of the old one.
    for (let round = 0; round < ROUNDS; round += 1) {
      theirs.push(...(await node.fund([wallet], LAMPORTS + round)));
      assert.equal((await readyz(bed)).status, 503);
      for (const method of ['getSlot', 'getLatestBlockhash', 'getGenesisHash']) {
        const { status, body } = await ask(bed.url, method);
        // The genesis hash of our chain may be remembered; theirs is never passed on.
        if (method === 'getGenesisHash' && body.result !== undefined) assert.equal(body.result, genesis);
        else assert.deepEqual([status, body.result], [503, undefined], method);
      }
    }
    assert.deepEqual(hook.arrived(), before);
    const slots = await node.call<number[]>('getBlocks', [0, null, { commitment: 'confirmed' }]);
    const blockhashes = await Promise.all(
      slots.slice(0, 50).map(async (slot) => {
        const options = { transactionDetails: 'none', rewards: false, commitment: 'confirmed' };
        return (await node.call<{ blockhash: string }>('getBlock', [slot, options])).blockhash;
      }),
    );
    const store = textOf(daemon.dataDir);
    for (const word of [...theirs, ...blockhashes].filter((one) => one !== other))
      assert.ok(!store.includes(word), `${word} of the other chain is in the store`);
    assert.ok(store.includes(before[0] as string));
  });
});

/** Everything that the store holds, as text. */
function textOf(dataDir: string): string {
  const database = new Database(`${dataDir}/parhelion.db`, { readonly: true });
  try {
    const tables = database.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[];
    return tables
      .flatMap(({ name }) => database.prepare(`select * from "${name}"`).all())
      .map((row) =>
        JSON.stringify(row, (_, value) =>
          value?.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value,
        ),
      )
      .join('\n');
  } finally {
    database.close();
  }
}

/** The node as a copy that lags has it: whoever asks for what is confirmed gets what is final, 32 slots behind. The answers are the node's. */
async function startLaggingView(t: TestContext, rpcUrl: string): Promise<string> {
  const server = await startHttpServer(async (asked, _request, response) => {
    const body = asked.toString().replaceAll('"confirmed"', '"finalized"').replaceAll('"processed"', '"finalized"');
    const answer = await fetch(rpcUrl, { method: 'POST', body, headers: { 'content-type': 'application/json' } });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  t.after(() => server.close());
  return server.url;
}

test('a second node that lags: a client that polls its history loses nothing, webhooks get each once', {
  skip,
}, async (t) => {
  let lagging = '';
  const bed = await startBed(t, {
    slotMs: 200,
    upstream: async (node) => {
      lagging = await startLaggingView(t, node.rpcUrl);
      return node;
    },
    upstreams: (node) => [
      { url: lagging, websocketUrl: node.wsUrl },
      { url: node.rpcUrl, websocketUrl: node.wsUrl },
    ],
  });
  const { node } = bed;
  const wallet = Keypair.generate().publicKey;
  const hook = await bed.watch('raw', [wallet]);
  const client = walletClient(bed.daemon);
  const [first] = (await node.fund([wallet], LAMPORTS)) as [string];
  const polled: string[] = [first];
  let isOver = false;
  const polling = (async () => {
    for (;;) {
      const wasOver = isOver;
      const path = `${wallet}/history?tokenAccounts=all&limit=100&after=${polled.at(-1)}`;
      const { status, body } = await client.ask(path);
      // Newer ones are not known yet where the first one is not.
      if (status === 200) polled.push(...(body as { data: HistoryItem[] }).data.map(({ signature }) => signature));
      else assert.ok(status === 503 || status === 400, `${status} ${JSON.stringify(body)}`);
      if (wasOver && status === 200) return;
      await sleep(60);
    }
  })();
  for (let payments = 1; payments <= 8; payments += 1) await node.fund([wallet], LAMPORTS + payments);
  const truth = await signaturesOf(node, [wallet]);
  await arrivedOnce(hook, truth);
  await eventually(() => (polled.length >= truth.length ? null : `the client has ${polled.length} of ${truth.length}`));
  isOver = true;
  await polling;
  assert.deepEqual(polled, truth.toReversed());
  await historyIsTheNodes(bed, wallet);
});
