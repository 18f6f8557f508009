/** Sessions end with what they were opened with, in every process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand } from '../../helpers/daemon.ts';
import { OPERATOR_TOKEN, startDashboard, type Visitor } from './harness.ts';

const API = '/dashboard/api';
const statusOf = async (visitor: Visitor) => (await visitor.ask('GET', `${API}/session`)).status;

/** Fails when it does not end. */
async function ends(visitor: Visitor): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    if ((await statusOf(visitor)) === 401) return;
    await sleep(50);
  }
  assert.fail('the session goes on');
}

test('renewing the secret of a project ends its sessions and its live page, and no others', {
  timeout: 60_000,
}, async (t) => {
  const bed = await startDashboard();
  t.after(() => bed.stop());
  const { projectId: project, adminUrl } = bed.daemon;
  const operator = await bed.operator();
  const renew = async () => (await operator.ask('POST', `${API}/projects/${project}/secret`)).body.secret as string;
  const secret = await renew();
  const [one, two] = [await bed.logIn({ project, secret }), await bed.logIn({ project, secret })];
  const live = await fetch(`${adminUrl}${API}/live`, { headers: { cookie: one.cookie } });
  const rest = live.text();
  const next = await renew();
  await ends(one);
  await ends(two);
  await rest;
  const keys = await one.ask('POST', `${API}/projects/${project}/keys`, { name: 'after' });
  assert.equal(keys.status, 401);
  assert.equal(await statusOf(operator), 200);
  assert.equal((await bed.logIn({ project, secret })).answer.status, 401);
  assert.equal(await statusOf(await bed.logIn({ project, secret: next })), 200);
});

test('a renewed operator token ends the sessions of operators, though another process renewed it', async (t) => {
  const bed = await startDashboard({ dashboard: { operatorToken: null } });
  t.after(() => bed.stop());
  const renew = async () => {
    const { out } = await runCommand(['dashboard', 'renew-token', '--json', '--config', bed.daemon.configFile]);
    return (JSON.parse(out) as { token: string }).token;
  };
  const token = await renew();
  const operator = await bed.logIn({ token });
  assert.equal(await statusOf(operator), 200);
  const next = await renew();
  await ends(operator);
  assert.equal(await statusOf(await bed.logIn({ token: next })), 200);
});

test('all sessions can be ended: an owner those of the project, an operator those of everybody', async (t) => {
  const bed = await startDashboard();
  t.after(() => bed.stop());
  const { projectId: project } = bed.daemon;
  const operator = await bed.operator();
  const { secret } = (await operator.ask('POST', `${API}/projects/${project}/secret`)).body;
  const [one, two] = [await bed.logIn({ project, secret }), await bed.logIn({ project, secret })];
  const forged = await one.ask('POST', `${API}/sessions/end`, undefined, { 'x-csrf-token': 'wrong' });
  assert.equal(forged.status, 403);
  assert.equal((await one.ask('POST', `${API}/sessions/end`)).status, 200);
  await ends(one);
  await ends(two);
  assert.equal(await statusOf(operator), 200);
  const three = await bed.logIn({ project, secret });
  assert.equal(await statusOf(three), 200);
  assert.equal((await operator.ask('POST', `${API}/sessions/end`)).status, 200);
  await ends(operator);
  await ends(three);
  const again = await bed.operator();
  const { text } = await again.ask('GET', `${API}/audit?limit=200`);
  assert.ok(text.includes('sessions.end'));
});

test('many logins of one owner end no session of an operator', async (t) => {
  const bed = await startDashboard({
    dashboard: { maxSessions: 6, maxSessionsPerIdentity: 4, operatorToken: OPERATOR_TOKEN },
  });
  t.after(() => bed.stop());
  const { projectId: project } = bed.daemon;
  const operator = await bed.operator();
  const { secret } = (await operator.ask('POST', `${API}/projects/${project}/secret`)).body;
  for (let n = 0; n < 12; n += 1) assert.equal((await bed.logIn({ project, secret })).answer.status, 200);
  assert.equal(await statusOf(operator), 200);
});
