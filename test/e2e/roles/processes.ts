import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Role } from '../../../src/ports/daemon-view.ts';
import { eventually, metricsOf, readinessOf, sampleOf, startRolesBed } from './harness.ts';

const ROLES: readonly Role[] = ['deliverer', 'indexer', 'api'];
/** Blocks come every 100 ms: two seconds. */
const MAX_LAG_SLOTS = 20;

/** One process per role on one store, from a payment to its delivery, with the end and the return of the indexer. */
export async function runProcesses(t: TestContext, store?: string): Promise<void> {
  const upstream = { healthIntervalMs: 200 };
  const bed = await startRolesBed(t, { follow: { pollMs: 100, maxReadyLagSlots: MAX_LAG_SLOTS } }, store);
  const env = { PARHELION_UPSTREAM__HEALTH_INTERVAL_MS: String(upstream.healthIntervalMs) };
  const daemons = new Map(ROLES.map((role) => [role, bed.start({ role, env })]));
  const said = () => [...daemons.values()].map((daemon) => daemon.output()).join('\n');
  const addresses = new Map<Role, { readonly api: string; readonly admin: string }>();
  for (const [role, daemon] of daemons) addresses.set(role, await daemon.ready());
  const { api, admin } = addresses.get('api') as { api: string; admin: string };

  // The indexer runs already: a webhook of this moment counts from the next block on.
  const [one, two] = bed.payments.addresses as [string, string];
  assert.equal(await bed.ledger.create(api, [one]), 200);
  await eventually('a delivery', () => bed.receiver.received.length > 0, said);
  const place = async () => (await readinessOf(admin)).chain[0];
  await eventually('the API knows the cursor', async () => ((await place())?.cursorSlot ?? 0) > 0);
  const then = (await place())?.cursorSlot ?? 0;
  await eventually('the cursor moves', async () => ((await place())?.cursorSlot ?? 0) > then);

  const metrics = new Map<Role, string>();
  for (const [role, { admin: own }] of addresses) metrics.set(role, await metricsOf(own));
  const released = 'parhelion_follow_blocks_released_total';
  assert.ok((sampleOf(metrics.get('indexer') ?? '', released) ?? 0) > 0, 'no label where a process has one role');
  assert.equal(sampleOf(metrics.get('api') ?? '', released), null);
  assert.match(metrics.get('api') ?? '', /^parhelion_http_/m);
  assert.doesNotMatch(metrics.get('deliverer') ?? '', /^parhelion_http_/m);
  for (const [role, { admin: own }] of addresses)
    await eventually(`${role} is ready`, async () => (await readinessOf(own)).ready, said);

  const indexer = daemons.get('indexer');
  await indexer?.kill('SIGKILL');
  await eventually('without an indexer the API falls behind and says so', async () => {
    const { ready, checks } = await readinessOf(admin);
    return !ready && checks.some(({ name, ok }) => name === 'chain main' && !ok);
  });
  assert.equal(await bed.ledger.create(api, [two]), 200, 'it serves all the same');
  daemons.set('indexer', bed.start({ role: 'indexer', env }));
  await daemons.get('indexer')?.ready();
  await eventually('ready again', async () => (await readinessOf(admin)).ready, said);

  // A second one by mistake does no harm: the cursor moves under one of the two, and that one ends. On PostgreSQL it stands by.
  if (store === undefined) {
    const second = bed.start({ role: 'indexer', env });
    const both = [daemons.get('indexer') as typeof second, second];
    await Promise.race(both.map(({ ended }) => ended));
    const [gone, left] = both.toSorted((a) => (a.child.exitCode === null ? 1 : -1));
    assert.equal(gone?.child.exitCode, 75, gone?.output());
    assert.match(gone?.output() ?? '', /FOLLOW_FENCED/);
    daemons.set('indexer', left as typeof second);
  }

  await bed.payments.stop();
  await bed.ledger.settle(bed.openStore, 120, said);
  for (const daemon of daemons.values()) {
    await daemon.kill('SIGTERM');
    assert.equal(daemon.child.exitCode, 0, daemon.output());
  }
  const opened = await bed.openStore();
  t.after(() => opened.close());
  assert.ok((await bed.ledger.check(opened)) > 0);
}
