import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProgramInterface } from '../../src/solana/idl/read-idl.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { blockTime, CostlyInterface, createDecodeCosts, demandUsable } from './costs.ts';

const DATA = new Uint8Array(1);

/** Costs on a clock that each decode of an interface moves by its time. */
function createCosts() {
  const manual = createManualClock();
  let spentMs = 0;
  const setAside: ProgramInterface[] = [];
  const clock = { ...manual, monotonic: () => manual.monotonic() + spentMs };
  const costs = createDecodeCosts(clock, (program) => setAside.push(program));
  let decodes = 0;
  const interfaceOf = (costMs: () => number): ProgramInterface =>
    ({
      decode() {
        decodes += 1;
        spentMs += costMs();
        return { name: 'call', args: {}, accounts: [] };
      },
    }) as unknown as ProgramInterface;
  return { costs, clock: manual, setAside, interfaceOf, decodes: () => decodes };
}

const isDecoded = (program: ProgramInterface): boolean => program.decode(DATA, [], 'x') !== null;

test('an interface of the chain that takes long decodes nothing for a while, and is said to be set aside', async () => {
  const { costs, clock, setAside, interfaceOf, decodes } = createCosts();
  const slow = interfaceOf(() => 10);
  const measured = costs.measured(slow);
  let decoded = 0;
  for (let i = 0; i < 1_000; i += 1) if (isDecoded(measured)) decoded += 1;
  assert.ok(decoded < 20 && decodes() === decoded, `${decoded} of 1,000`);
  assert.deepEqual(setAside, [slow]);
  assert.throws(() => demandUsable(measured, 'x'), CostlyInterface);
  await clock.advance(600_001);
  assert.ok(isDecoded(measured));
});

test('an interface of a project that takes long is refused with its code', () => {
  const { costs, interfaceOf } = createCosts();
  const slow = interfaceOf(() => 10);
  const refusals = Array.from({ length: 100 }, () => {
    try {
      return isDecoded(costs.ofProject(slow, 'program', null)) ? null : 'nothing';
    } catch (error) {
      return (error as CostlyInterface).details;
    }
  }).filter((text) => text !== null);
  assert.ok(refusals.length > 80);
  for (const text of refusals) assert.match(String(text), /^PARSED_IDL_COSTLY: program/);
});

test('usual interfaces stay, also on a machine that makes some of their decodes slow', () => {
  const { costs, setAside, interfaceOf } = createCosts();
  let count = 0;
  const usual = costs.measured(interfaceOf(() => (count++ % 10 === 0 ? 30 : 0.004)));
  for (let i = 0; i < 10_000; i += 1) assert.ok(isDecoded(usual));
  assert.deepEqual(setAside, []);
});

test('the interfaces of a project take no more than their time of a block, however many they are', () => {
  const { costs, interfaceOf, decodes } = createCosts();
  const time = blockTime();
  const many = Array.from({ length: 5_000 }, () => interfaceOf(() => 0.9));
  let refused = 0;
  for (const one of many) {
    try {
      costs.ofProject(one, 'program', time).decode(DATA, [], 'x');
    } catch (error) {
      assert.ok(error instanceof CostlyInterface);
      refused += 1;
    }
  }
  assert.ok(refused > 4_000 && decodes() + refused === many.length, `${refused} of ${many.length} refused`);
});
