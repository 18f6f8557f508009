import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { chooseJobs, type DueJob, type Room } from './due.ts';

const candidate = fc.record({
  kind: fc.constantFrom('a', 'b'),
  lane: fc.constantFrom(0 as const, 1 as const),
  group: fc.constantFrom('g1', 'g2', 'g3', 'g4', 'g5'),
  runAt: fc.nat(20),
});
const candidates = fc
  .array(candidate, { maxLength: 60 })
  .map((list) => list.map((one, id): DueJob => ({ id, ...one })));
const limits = fc.record({
  total: fc.nat(20),
  kinds: fc.record({ a: fc.nat(12), b: fc.nat(12) }),
  slow: fc.nat(6),
  slowKinds: fc.record({ a: fc.nat(4), b: fc.nat(4) }),
  groups: fc.array(fc.integer({ min: -1, max: 5 }), { minLength: 10, maxLength: 10 }),
  running: fc.array(fc.nat(3), { minLength: 10, maxLength: 10 }),
  served: fc.array(fc.nat(9), { minLength: 10, maxLength: 10 }),
});
const indexOf = (kind: string, group: string) => (kind === 'a' ? 0 : 5) + Number(group.slice(1)) - 1;

function roomOf(limit: typeof limits extends fc.Arbitrary<infer T> ? T : never): Room {
  return {
    total: limit.total,
    kind: (kind) => limit.kinds[kind as 'a'],
    slow: limit.slow,
    slowOfKind: (kind) => limit.slowKinds[kind as 'a'],
    group: (kind, group) => limit.groups[indexOf(kind, group)] as number,
    running: (kind, group) => limit.running[indexOf(kind, group)] as number,
    lastServed: (kind, group) => limit.served[indexOf(kind, group)] as number,
  };
}

const count = (list: readonly DueJob[], check: (one: DueJob) => boolean) => list.filter(check).length;

test('no limit is passed, no row is taken twice, and no room is left while a row fits', () => {
  fc.assert(
    fc.property(candidates, limits, (rows, limit) => {
      const room = roomOf(limit);
      const chosen = chooseJobs(rows, room);
      assert.equal(new Set(chosen).size, chosen.length);
      const fits = (extra: readonly DueJob[]) => {
        const all = [...chosen, ...extra];
        return (
          all.length <= room.total &&
          count(all, ({ lane }) => lane === 1) <= room.slow &&
          all.every(
            ({ kind, group }) =>
              count(all, (one) => one.kind === kind) <= room.kind(kind) &&
              count(all, (one) => one.kind === kind && one.lane === 1) <= room.slowOfKind(kind) &&
              count(all, (one) => one.kind === kind && one.group === group) <= room.group(kind, group),
          )
        );
      };
      assert.ok(chosen.length === 0 || fits([]));
      for (const row of rows) if (!chosen.includes(row)) assert.ok(!fits([row]), `${JSON.stringify(row)} would fit`);
      for (const row of chosen) {
        const before = rows.filter(
          (one) => one.kind === row.kind && one.group === row.group && one.lane === row.lane && one.runAt < row.runAt,
        );
        for (const one of before) assert.ok(chosen.includes(one), 'the older row of a group comes first');
      }
    }),
    { numRuns: 2_000 },
  );
});

test('groups take turns: a long queue gets no second job before everyone had a first', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 40 }), (groups, total) => {
      const long = Array.from(
        { length: 100 },
        (_, id): DueJob => ({ id, kind: 'a', lane: 0, group: 'long', runAt: 0 }),
      );
      const short = Array.from(
        { length: groups },
        (_, index): DueJob => ({ id: 1_000 + index, kind: 'a', lane: 0, group: `short-${index}`, runAt: 50 }),
      );
      const free = () => 1_000;
      const served = (_kind: string, group: string) => (group === 'long' ? 7 : 0);
      const room: Room = {
        total,
        kind: free,
        slow: 10,
        slowOfKind: free,
        group: free,
        running: () => 0,
        lastServed: served,
      };
      const chosen = chooseJobs([...long, ...short], room);
      assert.equal(
        count(chosen, ({ group }) => group !== 'long'),
        Math.min(groups, total),
      );
      assert.equal(chosen.length, Math.min(total, 100 + groups));
    }),
  );
});

test('the slow lane gets a quarter of the picks while both lanes have work, also with a single slot', () => {
  const rows = Array.from(
    { length: 400 },
    (_, id): DueJob => ({
      id,
      kind: 'a',
      lane: id % 2 === 0 ? 0 : 1,
      group: `g${id}`,
      runAt: 0,
    }),
  );
  const free = () => 1_000;
  const room: Room = {
    total: 100,
    kind: free,
    slow: 1_000,
    slowOfKind: free,
    group: free,
    running: () => 0,
    lastServed: () => 0,
  };
  assert.equal(
    count(chooseJobs(rows, room), ({ lane }) => lane === 1),
    25,
  );
});
