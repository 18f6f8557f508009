import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Queries, Store } from '../../src/ports/store.ts';
import { BOOTSTRAP_KEY } from './built-daemon.ts';
import type { TestChain } from './chain.ts';
import type { Payments } from './payments.ts';
import type { Receiver } from './receiver.ts';
import { Database } from './sqlite.ts';

interface Hook {
  readonly id: string;
  readonly path: string;
  readonly addresses: readonly string[];
  /** Payments of each address that were begun when the webhook was acknowledged: later ones must be delivered. */
  readonly from: ReadonlyMap<string, number>;
}

/** What a daemon acknowledged, and the checks that it kept its word. */
export interface DeliveryLedger {
  /** Makes a webhook and notes it once the daemon has said 200. Gives the status. */
  create(api: string, addresses: readonly string[]): Promise<number>;
  /** Webhooks that were acknowledged. */
  readonly acknowledged: number;
  /** Deliveries that have to be there by now. */
  required(): ReadonlySet<string>;
  /** Waits until every required delivery has its row and none is open; throws `seconds` after the daemon has caught up. */
  settle(openStore: () => Promise<Store>, seconds: number, said: () => string): Promise<void>;
  /** Compares the store of a stopped daemon with what was acknowledged, paid and received. Gives the number of deliveries. */
  check(store: Store): Promise<number>;
}

export function createDeliveryLedger(chain: TestChain, receiver: Receiver, payments: Payments): DeliveryLedger {
  const hooks: Hook[] = [];
  let made = 0;

  const pairs = (isIn: (hook: Hook, address: string, position: number) => boolean): ReadonlySet<string> => {
    const found = new Set<string>();
    for (const hook of hooks)
      for (const address of hook.addresses)
        for (const [position, signature] of (payments.sent.get(address) ?? []).entries())
          if (isIn(hook, address, position)) found.add(`${hook.id}:${signature}`);
    return found;
  };
  const required = () => pairs((hook, address, position) => position >= (hook.from.get(address) ?? 0));

  return {
    async create(api, addresses) {
      const path = `/${made++}`;
      const response = await fetch(`${api}/v0/webhooks?api-key=${BOOTSTRAP_KEY}`, {
        method: 'POST',
        body: JSON.stringify({
          webhookType: 'raw',
          webhookURL: `${receiver.url}${path}`,
          accountAddresses: addresses,
        }),
      });
      const text = await response.text();
      if (response.status === 200) {
        const { webhookID: id } = JSON.parse(text) as { webhookID: string };
        hooks.push({ id, path, addresses, from: new Map(addresses.map((one) => [one, payments.begun(one)])) });
      }
      return response.status;
    },
    get acknowledged() {
      return hooks.length;
    },
    required,
    async settle(openStore, seconds, said) {
      const tip = await chain.connection.getSlot('confirmed');
      let last = '';
      let absent: readonly string[] = [];
      // Time counts once the daemon has caught up: on a busy machine that alone may take long.
      for (let round = 0, caughtUp = 0; caughtUp < seconds * 3 && round < seconds * 30; round += 1) {
        const store = await openStore();
        try {
          const rows = await deliveries(store.read);
          const keys = new Set(rows.map(({ key }) => key));
          const open = rows.filter(({ state }) => state === 'pending' || state === 'running').length;
          absent = [...required()].filter((pair) => !keys.has(pair));
          if (open === 0 && absent.length === 0) return;
          const cursor = await sql<{ slot: number | null }>`select min(slot) as slot from follow_cursors`.execute(
            store.read,
          );
          const slot = cursor.rows[0]?.slot ?? 0;
          if (slot >= tip) caughtUp += 1;
          last = `${open} are open, ${absent.length} are missing of ${rows.length}; slot ${slot} of ${tip}`;
        } finally {
          await store.close();
        }
        await sleep(333);
      }
      const known = await Promise.all(absent.slice(0, 20).map((pair) => landed(chain, pair)));
      assert.fail(`deliveries did not settle: ${last}\n${known.join('\n')}\n${said()}`);
    },
    async check(store) {
      const rows = await deliveries(store.read);
      const keys = rows.map(({ key }) => key);
      assert.equal(new Set(keys).size, keys.length, 'no pair has two rows');
      const ids = new Set(
        (await sql<{ id: string }>`select id from webhooks`.execute(store.read)).rows.map((r) => r.id),
      );
      assert.deepEqual(
        hooks.filter(({ id }) => !ids.has(id)),
        [],
        'every acknowledged webhook is there',
      );
      const must = required();
      const allowed = pairs(() => true);
      const known = new Set(hooks.map(({ id }) => id));
      const ours = keys.filter((key) => known.has(key.slice(0, key.indexOf(':'))));
      const present = new Set(ours);
      assert.deepEqual(
        [...must].filter((pair) => !present.has(pair)),
        [],
        'every matching payment has its row',
      );
      assert.deepEqual(
        ours.filter((pair) => !allowed.has(pair)),
        [],
        'no row without a matching payment',
      );
      const seen = receivedPairs(receiver, new Map(hooks.map(({ id, path }) => [path, id])));
      assert.deepEqual(
        [...must].filter((pair) => !seen.has(pair)),
        [],
        'the receiver saw each at least once',
      );
      assert.deepEqual(
        rows.filter(({ state }) => state !== 'done').map(({ key }) => key),
        [],
        'each is done',
      );
      await checkRest(store.read, rows);
      await checkChain(store.read, chain);
      return rows.length;
    },
  };
}

interface DeliveryRow {
  readonly id: number;
  readonly key: string;
  readonly state: string;
}

async function deliveries(db: Queries): Promise<readonly DeliveryRow[]> {
  return (await sql<DeliveryRow>`select id, key, state from outbox where kind = 'webhooks.deliver'`.execute(db)).rows;
}

function receivedPairs(receiver: Receiver, idOfPath: ReadonlyMap<string, string>): ReadonlySet<string> {
  return new Set(
    receiver.received.flatMap(({ url, body }) =>
      (JSON.parse(body.toString()) as { transaction: { signatures: string[] } }[]).map(
        (element) => `${idOfPath.get(url)}:${element.transaction.signatures[0]}`,
      ),
    ),
  );
}

/** A delivery that is done was attempted; the stored elements count the deliveries that share them. */
async function checkRest(db: Queries, rows: readonly DeliveryRow[]): Promise<void> {
  const tried = await sql<{ job_id: number }>`select distinct job_id from webhook_attempts`.execute(db);
  const attempted = new Set(tried.rows.map((row) => row.job_id));
  assert.deepEqual(
    rows.filter(({ id }) => !attempted.has(id)),
    [],
    'what is done has an attempt',
  );
  const counts = new Map<string, number>();
  for (const { key } of rows) {
    const signature = key.slice(key.indexOf(':') + 1);
    counts.set(signature, (counts.get(signature) ?? 0) + 1);
  }
  const blobs = await sql<{ signature: string; refs: number }>`
    select signature, sum(refs) as refs from webhook_elements group by signature`.execute(db);
  assert.deepEqual(new Map(blobs.rows.map(({ signature, refs }) => [signature, refs])), counts, 'elements are counted');
}

/** All cursors stand on one block; the kept headers are linked and are those of the chain. */
async function checkChain(db: Queries, chain: TestChain): Promise<void> {
  interface Place {
    readonly slot: number;
    readonly blockhash: string;
  }
  const cursors = (await sql<Place>`select slot, blockhash from follow_cursors`.execute(db)).rows;
  assert.ok(cursors.length >= 2, 'the chain and its processors have cursors');
  assert.equal(new Set(cursors.map(({ slot, blockhash }) => `${slot} ${blockhash}`)).size, 1, JSON.stringify(cursors));
  const headers = (
    await sql<Place & { parent_slot: number; previous_blockhash: string }>`
      select slot, blockhash, parent_slot, previous_blockhash from follow_headers order by slot`.execute(db)
  ).rows;
  const top = headers.at(-1);
  assert.deepEqual({ slot: top?.slot, blockhash: top?.blockhash }, cursors[0], 'the newest header is the cursor');
  for (const [index, header] of headers.entries()) {
    const before = headers[index - 1];
    if (before === undefined) continue;
    assert.deepEqual([header.parent_slot, header.previous_blockhash], [before.slot, before.blockhash]);
  }
  const real = await chain.connection.getBlock(top?.slot ?? 0, {
    maxSupportedTransactionVersion: 0,
    transactionDetails: 'none',
    rewards: false,
  });
  assert.equal(real?.blockhash, top?.blockhash);
}

/** `ok`, or what SQLite finds wrong with the file. */
export function integrityOf(path: string): string {
  const db = new Database(path, { fileMustExist: true });
  try {
    return db.pragma('integrity_check', { simple: true }) as string;
  } finally {
    db.close();
  }
}

/** A payment that never landed is no lost delivery. */
async function landed({ connection }: TestChain, pair: string): Promise<string> {
  const signature = pair.slice(pair.indexOf(':') + 1);
  const { value } = await connection.getSignatureStatus(signature, { searchTransactionHistory: true });
  return `${pair}: ${value === null ? 'not on the chain' : `slot ${value.slot}`}`;
}
