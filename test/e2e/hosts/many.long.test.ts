/** Two processes of each role on one PostgreSQL database behave as one daemon. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BOOTSTRAP_KEY } from '../../helpers/built-daemon.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { runCommand } from '../../helpers/daemon.ts';
import { eventually, readinessOf } from '../roles/harness.ts';
import { endHosts, type HostsBed, startHosts, untilLeads, untilMoves } from './harness.ts';

const skip = (await chainMissing()) ?? false;

async function startAll(bed: HostsBed) {
  const [one, two] = [await bed.seat('api'), await bed.seat('api')];
  const others = [await bed.seat('deliverer'), await bed.seat('deliverer')];
  const indexers = [await bed.seat('indexer'), await bed.seat('indexer')];
  await untilLeads(bed, indexers[0]!);
  return { one, two, all: [one, two, ...others, ...indexers] };
}

test('changes in one API process apply in the other, and two deliverers send each delivery once', {
  skip,
}, async (t) => {
  const bed = await startHosts(t, 5_000);
  const { one, two, all } = await startAll(bed);
  const statusOf = async (api: string, key: string) => {
    const response = await fetch(`${api}/v0/webhooks?api-key=${key}`);
    await response.text();
    return response.status;
  };
  const command = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', bed.configFile], {
      env: { PARHELION_STORE__URL: bed.database().url },
    });
    assert.equal(code, 0, err);
    return JSON.parse(out) as Record<string, string>;
  };
  const projects = (await command('projects', 'list')) as unknown as { id: string }[];
  const { key, id } = await command('keys', 'create', '--project', projects[0]!.id);
  for (const { api } of [one, two])
    await eventually('a new key is good', async () => (await statusOf(api, key!)) === 200, bed.said);
  await command('keys', 'revoke', '--id', id!);
  for (const { api } of [one, two])
    await eventually('a revoked key is refused', async () => (await statusOf(api, key!)) === 401, bed.said);

  const addresses = bed.payments.addresses as [string, string, string];
  for (const { api } of [one, two, one, two])
    assert.equal(await bed.ledger.create(api, [addresses[bed.ledger.acknowledged % 3]!]), 200);
  const listed = async (api: string) => {
    const hooks = await (await fetch(`${api}/v0/webhooks?api-key=${BOOTSTRAP_KEY}`)).json();
    return (hooks as { webhookID: string }[]).map(({ webhookID }) => webhookID).sort();
  };
  assert.deepEqual(await listed(one.api), await listed(two.api));
  await bed.receiver.waitFor(40);
  const deliveries = await endHosts(bed, all);
  // Nothing was killed and nothing failed: then once means once.
  const ids = bed.receiver.received.map(({ headers }) => headers['webhook-id']);
  assert.equal(new Set(ids).size, ids.length, 'no request twice');
  assert.equal(ids.length, deliveries);
});

test('connections are ended by the server, and the server goes away and comes back: all processes go on', {
  skip,
}, async (t) => {
  const bed = await startHosts(t, 2_000);
  const { one, all } = await startAll(bed);
  assert.equal(await bed.ledger.create(one.api, [bed.payments.addresses[0] as string]), 200);
  await bed.receiver.waitFor(3);
  for (let round = 0; round < 10; round += 1) {
    await bed.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'parhelion%' and random() < 0.7`,
    );
    await sleep(150);
  }
  await untilMoves(bed);
  await bed.database().down();
  await eventually('the API says that the store is gone', async () => !(await readinessOf(one.admin)).ready, bed.said);
  await bed.database().up();
  await untilMoves(bed);
  for (const { role, daemon, admin } of all) {
    assert.equal(daemon.child.exitCode, null, `${role}: ${daemon.output()}`);
    await eventually(`${role} is ready`, async () => (await readinessOf(admin)).ready, bed.said);
  }
  const before = bed.receiver.received.length;
  await bed.receiver.waitFor(before + 5);
  assert.ok((await endHosts(bed, all)) > 0);
});
