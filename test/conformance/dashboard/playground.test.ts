/** The playground's routes: who may call them, and what they refuse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDashboard } from './harness.ts';

const API = '/dashboard/api';
const ADDRESS = 'So11111111111111111111111111111111111111112';

test('there is no playground where the daemon follows another chain than its own', async (t) => {
  const bed = await startDashboard();
  t.after(() => bed.stop());
  const operator = await bed.operator();
  const airdrop = { address: ADDRESS, lamports: 1 };
  for (const answer of [
    await operator.ask('GET', `${API}/playground`),
    await operator.ask('POST', `${API}/playground/airdrop`, airdrop),
    await operator.ask('POST', `${API}/playground/transfer`, airdrop),
    await operator.ask('POST', `${API}/playground/fork`, { depth: 1, keepsTransactions: true }),
  ]) {
    assert.equal(answer.status, 501, answer.text);
    assert.match(answer.body.details, /runs its local chain/);
  }
  const { body } = await operator.ask('POST', `${API}/projects/${bed.daemon.projectId}/secret`);
  const owner = await bed.logIn({ project: bed.daemon.projectId, secret: body.secret });
  assert.equal((await owner.ask('GET', `${API}/playground`)).status, 403);
  assert.equal((await owner.ask('POST', `${API}/playground/airdrop`, airdrop)).status, 403);
  assert.equal((await bed.stranger.ask('GET', `${API}/playground`)).status, 401);
});
