import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { startReceiver } from '../../helpers/receiver.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { keepBusy } from './busy-wallets.ts';
import { BOOTSTRAP_KEY, configFor, startDaemonProcess } from './daemon-process.ts';

const KILLS = Number(process.env['PARHELION_KILLS'] ?? 50);
const SEED = Number(process.env['PARHELION_SEED'] ?? 20261121);
const missing = await chainMissing();

test(`${KILLS} SIGKILLs while following and delivering lose nothing and repeat nothing`, {
  skip: missing ?? false,
}, async (t) => {
  const random = createSfc32(SEED);
  t.diagnostic(`seed ${SEED}`);
  const chain = await startChain({ slotMs: 100, time: { kind: 'wall' } });
  const receiver = await startReceiver();
  // Slow enough that kills hit deliveries under way.
  receiver.setFallback({ kind: 'answer', status: 200, delayMs: 60 });
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-crash-'));
  const configFile = join(dataDir, 'parhelion.yaml');
  writeFileSync(configFile, configFor(chain.rpcUrl, dataDir));
  t.after(async () => {
    await receiver.close();
    await chain.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  const first = startDaemonProcess(configFile, dataDir);
  const api = await first.ready();
  const busy = keepBusy(chain, 3, 40);
  const [one, two, three] = busy.addresses as [string, string, string];
  const hooks = [[one], [one, two], [three]];
  const ids: string[] = [];
  // Transfers that were sent before a webhook existed are not its business: the wallets are new, so the lists below start here.
  const before = new Map(busy.addresses.map((address) => [address, busy.sent.get(address)?.length ?? 0]));
  for (const [index, accountAddresses] of hooks.entries()) {
    const response = await fetch(`${api}/v0/webhooks?api-key=${BOOTSTRAP_KEY}`, {
      method: 'POST',
      body: JSON.stringify({ webhookType: 'raw', webhookURL: `${receiver.url}/${index}`, accountAddresses }),
    });
    assert.equal(response.status, 200, await response.clone().text());
    ids.push(((await response.json()) as { webhookID: string }).webhookID);
  }

  let daemon = first;
  for (let kill = 0; kill < KILLS; kill += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50 + random.below(1_450)));
    assert.equal(daemon.child.exitCode, null, `the daemon ended by itself before kill ${kill}:\n${daemon.output()}`);
    await daemon.kill('SIGKILL');
    assert.equal(integrity(dataDir), 'ok', `after kill ${kill}`);
    daemon = startDaemonProcess(configFile, dataDir);
  }
  await daemon.ready();
  await busy.stop();
  const expected = pairs(hooks, ids, busy.sent, before);
  await settle(dataDir, expected.required.size, daemon);
  await daemon.kill('SIGTERM');
  assert.equal(daemon.child.exitCode, 0, daemon.output());

  const rows = outbox(dataDir);
  assert.equal(new Set(rows).size, rows.length, 'no pair has two rows');
  assert.deepEqual(
    [...expected.required].filter((pair) => !rows.includes(pair)),
    [],
    'every matching transaction has its row',
  );
  assert.deepEqual(
    rows.filter((pair) => !expected.allowed.has(pair)),
    [],
    'no row without a matching transaction',
  );
  const seen = new Set(
    receiver.received.flatMap((request) =>
      (JSON.parse(request.body.toString()) as { transaction: { signatures: string[] } }[]).map(
        (element) => `${ids[Number(request.url.slice(1))]}:${element.transaction.signatures[0]}`,
      ),
    ),
  );
  assert.deepEqual(
    [...expected.required].filter((pair) => !seen.has(pair)),
    [],
    'the receiver saw each at least once',
  );
  assertCursor(dataDir);
  t.diagnostic(`${rows.length} deliveries, ${receiver.received.length} requests, ${KILLS} kills`);
});

/** Pairs of webhook and signature: those that must be there, and those that may be (sent around the creation of the webhook). */
function pairs(
  hooks: readonly (readonly string[])[],
  ids: readonly string[],
  sent: ReadonlyMap<string, readonly string[]>,
  before: ReadonlyMap<string, number>,
): { required: Set<string>; allowed: Set<string> } {
  /** Transfers that may still have been on their way when the last webhook was made: three webhooks at up to 40 ms each. */
  const onTheirWay = 10;
  const required = new Set<string>();
  const allowed = new Set<string>();
  for (const [index, addresses] of hooks.entries()) {
    for (const address of addresses) {
      for (const [position, signature] of (sent.get(address) ?? []).entries()) {
        allowed.add(`${ids[index]}:${signature}`);
        if (position >= (before.get(address) ?? 0) + onTheirWay) required.add(`${ids[index]}:${signature}`);
      }
    }
  }
  return { required, allowed };
}

function open(dataDir: string): Database.Database {
  return new Database(join(dataDir, 'parhelion.db'), { readonly: false, fileMustExist: true });
}

function integrity(dataDir: string): string {
  const db = open(dataDir);
  try {
    return db.pragma('integrity_check', { simple: true }) as string;
  } finally {
    db.close();
  }
}

function outbox(dataDir: string): string[] {
  const db = open(dataDir);
  try {
    return (db.prepare(`SELECT key FROM outbox WHERE kind = 'webhooks.deliver'`).all() as { key: string }[]).map(
      (row) => row.key,
    );
  } finally {
    db.close();
  }
}

/** Waits until at least `count` deliveries are there and none is open. */
async function settle(dataDir: string, count: number, daemon: ReturnType<typeof startDaemonProcess>): Promise<void> {
  for (let round = 0; round < 600; round += 1) {
    const db = open(dataDir);
    const row = db
      .prepare(
        `SELECT count(*) AS total, sum(state IN ('pending', 'running')) AS open FROM outbox WHERE kind = 'webhooks.deliver'`,
      )
      .get() as { total: number; open: number };
    db.close();
    if (row.total >= count && row.open === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  assert.fail(`deliveries did not settle:\n${daemon.output()}`);
}

/** The cursor stands on the newest stored header, and the headers link. */
function assertCursor(dataDir: string): void {
  const db = open(dataDir);
  const cursors = db.prepare('SELECT processor, slot, blockhash FROM follow_cursors').all() as {
    processor: string;
    slot: number;
    blockhash: string;
  }[];
  const headers = db
    .prepare(
      'SELECT slot, blockhash, parent_slot AS parentSlot, previous_blockhash AS previousBlockhash FROM follow_headers ORDER BY slot',
    )
    .all() as { slot: number; blockhash: string; parentSlot: number; previousBlockhash: string }[];
  db.close();
  const tip = headers.at(-1);
  assert.ok(tip !== undefined && cursors.length > 0);
  for (const cursor of cursors)
    assert.deepEqual([cursor.slot, cursor.blockhash], [tip.slot, tip.blockhash], cursor.processor);
  for (let index = 1; index < headers.length; index += 1) {
    assert.equal(headers[index]?.parentSlot, headers[index - 1]?.slot);
    assert.equal(headers[index]?.previousBlockhash, headers[index - 1]?.blockhash);
  }
}
