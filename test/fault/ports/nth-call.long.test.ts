import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DaemonParts } from '../../../src/daemon/parts.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { type CallCount, failingOutbound, failingStore, jumpingClock, type NthCall } from '../../helpers/nth-call.ts';
import { type PortBed, startPortBed } from './harness.ts';

const skip = (await chainMissing()) ?? false;
/** 1 = every call is tried; 12 = every twelfth, beginning with the first. */
const STEP = Number(process.env['PARHELION_NTH_STEP'] ?? 12);
const FIRST_LIFE_CALLS = 14;
const LATER_LIFE_CALLS = 33;
const HOUR_MS = 3_600_000;
let bed: PortBed;
before(async () => {
  if (skip === false) bed = await startPortBed();
});
after(() => bed?.stop());

const upTo = (most: number): number[] => Array.from({ length: Math.ceil(most / STEP) }, (_, index) => 1 + index * STEP);

type Fault = (parts: DaemonParts, at: NthCall, count: CallCount) => DaemonParts;
const FAULTS: Readonly<Record<string, { readonly fault: Fault; readonly calls: number; readonly isLater?: boolean }>> =
  {
    'a write fails': { fault: (parts, at, count) => failingStore(parts, 'write', at, count), calls: LATER_LIFE_CALLS },
    'a write is done and its answer lost': {
      fault: (parts, at, count) => failingStore(parts, 'answer', at, count),
      calls: LATER_LIFE_CALLS,
    },
    'a query fails': { fault: (parts, at, count) => failingStore(parts, 'read', at, count), calls: LATER_LIFE_CALLS },
    'a request to a receiver fails': {
      fault: (parts, at, count) => failingOutbound(parts, 'request', at, count),
      calls: 4,
      isLater: true,
    },
    'the answer of a receiver is lost': {
      fault: (parts, at, count) => failingOutbound(parts, 'answer', at, count),
      calls: 4,
      isLater: true,
    },
    'the clock jumps ahead': {
      fault: (parts, at, count) => jumpingClock(parts, HOUR_MS, at, count),
      calls: 24,
      isLater: true,
    },
    'the clock jumps back': {
      fault: (parts, at, count) => jumpingClock(parts, -HOUR_MS, at, count),
      calls: 24,
      isLater: true,
    },
  };

for (const [name, { fault, calls, isLater }] of Object.entries(FAULTS))
  describe(name, { skip }, () => {
    for (const mode of ['once', 'from'] as const)
      for (const life of ['first', 'later'] as const) {
        if (life === 'first' && isLater === true) continue;
        test(`${mode === 'once' ? 'once' : 'from then on'}, in the ${life} life, at call after call`, async (t) => {
          const before = bed.descriptors();
          const total: CallCount = { calls: 0, failed: 0 };
          const places = upTo(life === 'first' ? FIRST_LIFE_CALLS : calls);
          for (const n of places) {
            const count: CallCount = { calls: 0, failed: 0 };
            await t.test(`call ${n}`, () =>
              bed.run(
                life,
                (parts) => fault(parts, { n, mode }, count),
                () => count.failed > 0,
              ),
            );
            total.calls += count.calls;
            total.failed += count.failed;
          }
          assert.ok(total.failed > 0, 'something failed');
          // Connections to receivers and nodes close when they have been idle for a while.
          for (let tries = 0; bed.descriptors() >= before + 12 && tries < 100; tries += 1) await sleep(100);
          assert.ok(bed.descriptors() < before + 12, `${before} -> ${bed.descriptors()} descriptors`);
          t.diagnostic(`${places.length} places, ${total.failed} of ${total.calls} calls failed`);
        });
      }
  });
