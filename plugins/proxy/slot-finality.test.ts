/** `getSlotFinality` where the upstreams and the certificates are not equally far. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainStatus, VerifiedSlot } from '../../src/ports/chain.ts';
import { describeSlotFinality } from './slot-finality.ts';

interface Answer {
  readonly context: { readonly slot: number };
  readonly value: { readonly slot: number; readonly isFinal: boolean; readonly certificate: VerifiedSlot | null };
}

test('a slot is final by the upstreams or by a certificate, whichever is further', async () => {
  const cases: readonly {
    readonly upstreams: number | null;
    readonly proven: number | null;
    readonly newest: number | null;
  }[] = [
    { upstreams: null, proven: null, newest: null },
    { upstreams: 5, proven: null, newest: 5 },
    { upstreams: null, proven: 7, newest: 7 },
    { upstreams: 5, proven: 7, newest: 7 },
    { upstreams: 9, proven: 7, newest: 9 },
    { upstreams: 0, proven: null, newest: 0 },
  ];
  for (const { upstreams, proven, newest } of cases) {
    const ask = asker(upstreams, proven);
    if (newest === null) {
      await assert.rejects(ask(1), /unavailable|no final slot is known/);
      continue;
    }
    const label = JSON.stringify({ upstreams, proven });
    assert.deepEqual((await ask()).value.slot, newest, label);
    for (const slot of [0, 5, 6, 7, 8, 9, 10]) {
      const { context, value } = await ask(slot);
      assert.equal(context.slot, newest, label);
      assert.equal(value.isFinal, slot <= newest, `${label} ${slot}`);
      assert.equal(value.certificate !== null, proven !== null && slot <= proven, `${label} ${slot}`);
      // What a certificate proves is final.
      assert.ok(value.isFinal || value.certificate === null, `${label} ${slot}`);
    }
  }
});

function asker(finalizedSlot: number | null, proven: number | null): (slot?: number) => Promise<Answer> {
  const verified: VerifiedSlot | null = proven === null ? null : { slot: proven, stakePercent: 83, rounds: 'fast' };
  const finality = {
    state: 'checking',
    reason: null,
    verified,
    recent: verified === null ? [] : [verified],
    alarm: null,
  };
  const status = { finalizedSlot, finality } as unknown as ChainStatus;
  const ctx = { chain: () => ({ status: () => status }), clock: { now: () => 0 } };
  const { handler } = describeSlotFinality(ctx as never, { credits: 1 } as never);
  return async (slot) => (await handler({ params: slot === undefined ? [] : [slot] } as never)) as Answer;
}
