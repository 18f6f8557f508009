import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { runCommand } from '../../helpers/daemon.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-access-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const config = join(dir, 'parhelion.yaml');
writeFileSync(
  config,
  JSON.stringify({ dataDir: dir, plugins: ['access'], upstream: { urls: ['http://127.0.0.1:9'] } }),
);

const run = (...args: string[]) => runCommand([...args, '--config', config]);
before(async () => assert.equal((await run('migrate')).code, 0));
async function json<T>(...args: string[]): Promise<T> {
  const { code, out, err } = await run(...args, '--json');
  assert.equal(code, 0, err);
  return JSON.parse(out) as T;
}

test('projects and keys on a stopped daemon: made, shown, changed, granted; tables have a head line', async () => {
  const { id } = await json<{ id: string }>(
    'projects',
    'create',
    '--name',
    'a\u001b[31mb',
    '--plan',
    'free',
    '--billing-day',
    '31',
  );
  const list = await run('projects', 'list');
  const [head, line] = list.out.split('\n');
  assert.match(head!, /^ID +PLAN +STATE +REQUESTS 7 D +LAST USE +CREATED \(UTC\) +NAME$/);
  assert.match(line!, new RegExp(`^${id} +free +active +0 +- +\\d{4}-\\d{2}-\\d{2} \\d{2}:\\d{2} +a\\?\\[31mb$`));
  await json('projects', 'set-plan', '--id', id, '--plan', 'developer', '--override', '{"ratePerSecond":{"rpc":7}}');
  await json('projects', 'grant', '--id', id, '--credits', '250');
  await json('projects', 'set-plan', '--id', id, '--admin-api', 'off');
  const shown = await json<Record<string, unknown>>('projects', 'show', '--id', id);
  assert.deepEqual(
    [shown['plan'], shown['billingDay'], shown['overrides'], shown['adminApi'], shown['prepaidGranted']],
    ['developer', 31, { ratePerSecond: { rpc: 7 } }, false, 250],
  );
  assert.match((await run('projects', 'show', '--id', id)).out, /calls per second +rpc 7, das 10/);
  const usage = await json<Record<string, unknown>>('projects', 'usage', '--id', id);
  assert.equal(usage['prepaidCreditsRemaining'], 250);
  assert.match((await run('projects', 'usage', '--id', id)).out, /^PRODUCT +CREDITS +REQUESTS +BYTES$/m);
  await json('projects', 'set-plan', '--id', id, '--override', '{}');
  assert.equal((await json<Record<string, unknown>>('projects', 'show', '--id', id))['overrides'], null);

  const key = await json<{ id: string; key: string }>(
    'keys',
    'create',
    '--project',
    id,
    '--ips',
    '10.0.0.0/8, ::1',
    '--permissions',
    'rpc,das',
  );
  const listed = await run('keys', 'list');
  assert.match(listed.out, /^ID +KEY +STATE +EXPIRES \(UTC\) +PROJECT +LIMITS +NAME$/m);
  assert.match(listed.out, /active +never .*rpc das 10\.0\.0\.0\/8 ::1/);
  assert.equal(listed.out.includes(key.key), false, 'the key is shown once');
  const rotated = await run('keys', 'rotate', '--id', key.id);
  assert.match(rotated.out, /^key [0-9a-f-]{36}\nIt is shown only once\. The old key ends \d{4}-/);
});

test('an invalid value exits with 64, names the valid ones and changes nothing', async () => {
  const { id } = await json<{ id: string }>('projects', 'create', '--name', 'p');
  const key = await json<{ id: string }>('keys', 'create', '--project', id);
  const before = JSON.stringify([await json('projects', 'list'), await json('keys', 'list')]);
  for (const [args, expected] of [
    [['projects', 'create', '--name', 'x', '--plan', 'gold'], /ACCESS_UNKNOWN_PLAN.*gold.*unlimited/],
    [['projects', 'create', '--name', ''], /ACCESS_BAD_NAME/],
    [['projects', 'create', '--name', 'x', '--billing-day', '32'], /ACCESS_BAD_BILLING_DAY/],
    [['projects', 'set-plan', '--id', id, '--override', '{"creditLimit":1}'], /ACCESS_BAD_OVERRIDES.*creditLimit/],
    [['projects', 'set-plan', '--id', id, '--override', '{'], /ACCESS_BAD_OVERRIDES/],
    [['projects', 'set-plan', '--id', id, '--admin-api', 'yes'], /ACCESS_BAD_SWITCH/],
    [['projects', 'grant', '--id', id, '--credits', '0'], /ACCESS_BAD_CREDITS/],
    [['projects', 'grant', '--id', id, '--credits', '-5'], /ACCESS_BAD_CREDITS/],
    [['projects', 'grant', '--id', id, '--credits', '99999999999999999'], /ACCESS_BAD_CREDITS/],
    [['projects', 'grant', '--id', 'nobody', '--credits', '5'], /ACCESS_UNKNOWN_PROJECT/],
    [['projects', 'show', '--id', 'nobody'], /ACCESS_UNKNOWN_PROJECT/],
    [['projects', 'usage', '--id', 'nobody'], /ACCESS_UNKNOWN_PROJECT/],
    [['keys', 'create', '--project', 'nobody'], /ACCESS_UNKNOWN_PROJECT/],
    [
      ['keys', 'create', '--project', id, '--ips', '10.0.0.0/33'],
      /ACCESS_BAD_NETWORK: not an IP address or a range .*: 10\.0\.0\.0\/33/,
    ],
    [['keys', 'create', '--project', id, '--origins', 'app.example'], /ACCESS_BAD_ORIGIN.*app\.example/],
    [['keys', 'create', '--project', id, '--permissions', 'all'], /ACCESS_BAD_PERMISSION.*all/],
    [['keys', 'rotate', '--id', key.id, '--overlap', 'soon'], /ACCESS_BAD_OVERLAP/],
    [['keys', 'rotate', '--id', 'nobody'], /ACCESS_UNKNOWN_KEY/],
    [['keys', 'allow-ip', '--id', key.id, '--ips', 'localhost'], /ACCESS_BAD_NETWORK/],
    [['keys', 'allow-origin', '--id', key.id, '--origins', 'https://a.example/path'], /ACCESS_BAD_ORIGIN/],
  ] as const) {
    const { code, out, err } = await run(...args);
    assert.equal(code, 64, `${args.join(' ')}: ${out}${err}`);
    assert.match(err, expected, args.join(' '));
  }
  assert.equal(JSON.stringify([await json('projects', 'list'), await json('keys', 'list')]), before);
});
