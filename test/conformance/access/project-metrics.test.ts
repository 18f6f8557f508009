import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccessDaemon, rpcCall, startAccessDaemon } from './harness.ts';

const KINDS = ['requests', 'errors', 'credits', 'rate_limited'] as const;

async function projectSamples({ daemon }: AccessDaemon): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
  const lines = text.matchAll(/^parhelion_access_project_(\w+)_total\{project="([^"]+)"\} (\S+)$/gm);
  return new Map([...lines].map(([, kind, project, value]) => [`${kind} ${project}`, Number(value)]));
}

describe('metrics per project', () => {
  let bed: AccessDaemon;
  before(async () => {
    bed = await startAccessDaemon({ access: { metricsProjects: 2, usageFlushMs: 10 } });
  });
  after(() => bed.stop());

  test('the first projects have series by id, all others share one; errors, credits and rate limits are counted', async () => {
    const first = await bed.makeKey({ override: { ratePerSecond: { rpc: 2 } } });
    const statuses: number[] = [];
    for (let n = 0; n < 8; n += 1) statuses.push((await bed.rpc(first.key, rpcCall('getBalance'))).status);
    const limited = statuses.filter((status) => status === 429).length;
    assert.ok(limited > 0 && limited < 8, statuses.join());

    const second = await bed.makeKey();
    bed.upstream.on('getBalance', { fault: 'reset' });
    assert.ok((await bed.rpc(second.key, rpcCall('getBalance'))).status >= 500);
    bed.upstream.on('getBalance', { result: '[]' });
    const others = [await bed.makeKey(), await bed.makeKey()];
    for (const { key } of others) assert.equal((await bed.rpc(key, rpcCall('getBalance'))).status, 200);

    let samples = await projectSamples(bed);
    for (let round = 0; round < 600 && (samples.get('credits other') ?? 0) < 2; round += 1)
      samples = await projectSamples(bed);
    const of = (project: string) => KINDS.map((kind) => samples.get(`${kind} ${project}`));
    assert.deepEqual(of(first.project), [8, 0, 8 - limited, limited]);
    assert.deepEqual(of(second.project), [1, 1, 0, 0]);
    assert.deepEqual(of('other'), [2, 0, 2, 0]);
    assert.equal(samples.size, 3 * KINDS.length, 'no more series than configured');
  });
});

test('0 projects: no metrics per project', async () => {
  const bed = await startAccessDaemon({ access: { metricsProjects: 0 } });
  try {
    const { key } = await bed.makeKey();
    assert.equal((await bed.rpc(key, rpcCall('getBalance'))).status, 200);
    assert.equal((await projectSamples(bed)).size, 0);
  } finally {
    await bed.stop();
  }
});
