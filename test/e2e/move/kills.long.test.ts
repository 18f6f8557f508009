import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fingerprintOf, planHelius } from '../../../src/cli/move/hosted.ts';
import { cliArguments, startDaemon } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { HOSTED_KEY, type HostedWebhook, startHosted, webhooksOf } from './hosted-server.ts';

const WEBHOOKS = Number(process.env['PARHELION_MOVE_WEBHOOKS'] ?? 1_000);
const MIN_KILLS = 3;

test(`a move of ${WEBHOOKS} webhooks, killed at random until it ends, loses none and doubles none`, async (t) => {
  const seed = Date.now() % 1_000_000;
  t.diagnostic(`seed ${seed}`);
  const draw = createSfc32(seed);
  const theirs = webhooksOf(draw, WEBHOOKS);
  const hosted = await startHosted(theirs);
  const node = await startUpstream();
  const daemon = await startDaemon({
    chain: { rpcUrl: node.url },
    config: {
      upstream: { urls: [node.url], devnet: { urls: [node.url] } },
      plugins: ['access', 'webhooks'],
      follow: { enabled: false },
      webhooks: { maxPerProject: WEBHOOKS + 10, allowHttp: true, allowPorts: null, allowCidrs: ['127.0.0.0/8'] },
    },
  });
  const folder = mkdtempSync(join(tmpdir(), 'move-'));
  t.after(async () => {
    await daemon.stop();
    await hosted.stop();
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  writeFileSync(join(folder, 'from'), HOSTED_KEY);
  writeFileSync(join(folder, 'to'), daemon.key);
  const source = ['--from', 'helius', '--from-url', hosted.url, '--from-key-file', join(folder, 'from')];
  const target = ['--url', daemon.apiUrl, '--key-file', join(folder, 'to'), '--state', join(folder, 'state')];
  const secrets = ['--secrets', join(folder, 'secrets')];
  const own = async () =>
    (await (await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`)).json()) as HostedWebhook[];

  let kills = 0;
  for (;;) {
    const before = (await own()).length;
    const child = spawn(process.execPath, [...cliArguments, 'move', 'run', ...source, ...target, ...secrets], {
      stdio: 'ignore',
    });
    const ended = once(child, 'exit');
    // Killed after so many more of ours; near the end, and after some kills, it may end by itself.
    const more = 1 + draw.below(Math.ceil(WEBHOOKS / 8));
    const isLast = kills >= 30;
    while (!isLast && child.exitCode === null && (await own()).length < Math.min(before + more, WEBHOOKS))
      await sleep(5);
    if (!isLast && child.exitCode === null && (kills < MIN_KILLS || draw.float() < 0.9)) {
      await sleep(draw.below(20));
      child.kill('SIGKILL');
    }
    const [code] = (await ended) as [number | null];
    if (code === 0) break;
    assert.equal(code, null, 'it ends by a kill or well');
    kills += 1;
  }
  assert.ok(kills >= MIN_KILLS, `${kills} kills`);
  const ours = await own();
  assert.equal(ours.length, WEBHOOKS);
  const whole = [];
  for (const { webhookID } of ours)
    whole.push(await (await fetch(`${daemon.apiUrl}/v0/webhooks/${webhookID}?api-key=${daemon.key}`)).json());
  const contentOf = (webhook: HostedWebhook) => {
    const label = JSON.stringify([webhook['name'] ?? null, webhook['description'] ?? null]);
    return `${fingerprintOf(planHelius(webhook).wanted!)} ${webhook.active === false ? 'off' : 'on'} ${label}`;
  };
  assert.deepEqual((whole as HostedWebhook[]).map(contentOf).sort(), theirs.map(contentOf).sort());
});
