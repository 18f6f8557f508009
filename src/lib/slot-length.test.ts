import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSlotLength } from './slot-length.ts';

for (const slotMs of [200, 300, 400])
  test(`slots of ${slotMs} ms: measured by tips, whatever polls and views of nodes do`, () => {
    const length = createSlotLength();
    let at = 5_000;
    for (let look = 0; look < 400; look += 1) {
      at += 400 + (look % 7) * 20;
      const tip = Math.floor(at / slotMs) - (look % 11 === 0 ? 9 : 0);
      // An outage of a minute, and a chain that halts for another one.
      if (look < 100 || look > 250) length.sawTip(tip, at);
    }
    assert.ok(Math.abs(length.ms()! - slotMs) < slotMs * 0.08, `${length.ms()}`);
  });

test('it follows a chain that becomes faster', () => {
  const length = createSlotLength();
  for (let look = 0; look < 60; look += 1) length.sawTip(look * 5, look * 2_000);
  assert.equal(length.ms(), 400);
  for (let look = 0; look < 60; look += 1) length.sawTip(300 + look * 10, 120_000 + look * 2_000);
  assert.equal(length.ms(), 200);
});

test('until tips were seen for long enough, block times are used, and nothing is assumed', () => {
  const length = createSlotLength();
  assert.equal(length.ms(), null);
  for (let slot = 0; slot < 40; slot += 1) length.sawBlock(slot, Math.floor(slot * 0.25));
  assert.equal(length.ms(), null, 'ten seconds of whole seconds say too little');
  for (let slot = 40; slot < 400; slot += 1) length.sawBlock(slot, slot % 9 === 0 ? null : Math.floor(slot * 0.25));
  assert.ok(Math.abs(length.ms()! - 250) < 5, `${length.ms()}`);
});

test('a rollback and a repeated block do not change it', () => {
  const length = createSlotLength();
  for (let slot = 0; slot < 200; slot += 1) length.sawBlock(slot, Math.floor(slot * 0.4));
  for (let slot = 190; slot < 260; slot += 1) length.sawBlock(slot, Math.floor(slot * 0.4));
  assert.ok(Math.abs(length.ms()! - 400) < 10, `${length.ms()}`);
});
