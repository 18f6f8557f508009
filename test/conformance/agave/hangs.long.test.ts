/** A real node that hangs, quiet and under load: every silence is told, in time, and ends with the next block. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair } from '@solana/web3.js';
import { agaveMissing, namedNode } from '../../helpers/agave.ts';
import { arrivedOnce, caughtUp, eventually, signaturesOf, startBed } from './harness.ts';

const HANGS = Number(process.env['PARHELION_AGAVE_HANGS'] ?? 2);
const LAMPORTS = 1_000_000_000;
const LIMIT_SECONDS = 3;
const LOAD_PAYMENTS = 10;

const { release } = namedNode() ?? { release: '4.4' as const };

interface Ready {
  readonly chain: readonly { readonly stalled: string | null }[];
}

test('a node that hangs: the silence is told, and nothing is lost', {
  skip: agaveMissing(release) ?? false,
}, async (t) => {
  const bed = await startBed(t, {
    slotMs: 200,
    ...(namedNode() ?? { release, alpenglow: true }),
    config: { follow: { stalledAfterSeconds: LIMIT_SECONDS } },
  });
  const { node, daemon } = bed;
  const wallet = Keypair.generate().publicKey;
  const hook = await bed.watch('raw', [wallet]);
  const stalled = async () => {
    const response = await fetch(`${daemon.adminUrl}/readyz`);
    return ((await response.json()) as Ready).chain[0]?.stalled ?? null;
  };
  const metric = async (name: string) => {
    const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
    return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
  };
  const late: string[] = [];
  for (let hang = 0; hang < HANGS; hang += 1) {
    await node.fund([wallet], LAMPORTS + hang);
    await caughtUp(bed);
    await eventually(stalled);
    const before = await metric('parhelion_follow_stalls_total');
    // Under load the node stops in the middle of blocks.
    const load = hang % 2 === 0 ? 0 : LOAD_PAYMENTS;
    const payments = Array.from({ length: load }, (_, at) => node.fund([wallet], LAMPORTS + 1_000 + hang * 100 + at));
    if (load > 0) await Promise.race(payments);
    node.freeze();
    const frozenMs = performance.now();
    await eventually(async () => ((await stalled()) === null ? 'the silence is not told' : null));
    await eventually(async () =>
      (await metric('parhelion_follow_stalls_total')) > before ? null : 'the silence is not counted',
    );
    late.push(((performance.now() - frozenMs) / 1_000 - LIMIT_SECONDS).toFixed(1));
    node.thaw();
    await Promise.all(payments);
    await node.fund([wallet], LAMPORTS + 50 + hang);
    await caughtUp(bed);
    await eventually(async () => await stalled());
    await sleep(100);
  }
  t.diagnostic(`${HANGS} hangs; told so many seconds after the limit: ${late.join(', ')}`);
  assert.equal(await metric('parhelion_follow_forks_total'), 0);
  await arrivedOnce(hook, await signaturesOf(node, [wallet]));
});
