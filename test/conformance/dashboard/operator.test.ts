import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCommand } from '../../helpers/daemon.ts';
import { type DashboardBed, OPERATOR_TOKEN, startDashboard } from './harness.ts';

const API = '/dashboard/api';
const configOf = ({ daemon }: DashboardBed) => ['--config', daemon.configFile];

test('without a token in the configuration the one of the command counts, and else none', async () => {
  const own = await startDashboard({ dashboard: { operatorToken: null } });
  const renew = async () => {
    const { code, out, err } = await runCommand(['dashboard', 'renew-token', '--json', ...configOf(own)]);
    assert.equal(code, 0, err);
    return (JSON.parse(out) as { token: string }).token;
  };
  const status = async (token: string) => (await own.logIn({ token })).answer.status;
  try {
    for (const token of ['null', 'x', OPERATOR_TOKEN]) assert.equal(await status(token), 401, token);
    const first = await renew();
    assert.equal(await status(first), 200);
    const second = await renew();
    assert.deepEqual([await status(first), await status(second)], [401, 200]);
    const { body } = await (await own.logIn({ token: second })).ask('GET', `${API}/audit`);
    const renewals = body.entries.filter(({ action }: { action: string }) => action === 'operator.renew-token');
    assert.deepEqual(
      renewals.map(({ actor, outcome }: Record<string, string>) => [actor, outcome]),
      [
        ['command line', 'done'],
        ['command line', 'done'],
      ],
    );
    assert.ok(!JSON.stringify(body).includes(second), 'no secret in the log');
  } finally {
    await own.stop();
  }
});

test('a token of the configuration is changed there and not by the command', async () => {
  const own = await startDashboard();
  try {
    const { code, err } = await runCommand(['dashboard', 'renew-token', ...configOf(own)]);
    assert.equal(code, 64);
    assert.match(err, /DASHBOARD_TOKEN_CONFIGURED/);
    assert.equal((await own.logIn({ token: OPERATOR_TOKEN })).answer.status, 200);
  } finally {
    await own.stop();
  }
});
