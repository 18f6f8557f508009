/** The rules that drills check a recorded history by: each finds what it is there for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHistoryRules } from './history-rules.ts';
import type { CursorWrite, DeliveryState, DeliveryWrite, HeaderWrite, Place, Write } from './write-history.ts';

const at = (slot: number): Place => ({ slot, blockhash: `hash-${slot}` });
const PENDING = { state: 'pending', attempts: 0 };
const RUNNING = { state: 'running', attempts: 0 };
const DONE = { state: 'done', attempts: 1 };

/** A leader's move to a slot; its transaction has the number of the slot. */
const move = (slot: number, more: Partial<CursorWrite> = {}): CursorWrite => ({
  id: slot,
  tx: slot,
  at: slot,
  process: 'indexer-1',
  what: 'cursor',
  op: 'UPDATE',
  from: at(slot - 1),
  to: at(slot),
  epoch: 1,
  leader: 'host:1',
  ...more,
});
const second = { process: 'indexer-2', epoch: 2, leader: 'host:2' };
const header = (slot: number, more: Partial<HeaderWrite> = {}): HeaderWrite => ({
  id: slot,
  tx: slot,
  at: slot,
  process: 'indexer-1',
  what: 'header',
  op: 'INSERT',
  place: at(slot),
  parent: at(slot - 1),
  ...more,
});
const delivery = (
  tx: number,
  from: DeliveryState | null,
  to: DeliveryState | null,
  more: Partial<DeliveryWrite> = {},
): DeliveryWrite => ({
  id: tx,
  tx,
  at: tx,
  process: 'indexer-1',
  what: 'delivery',
  key: 'hook:signature',
  from,
  to,
  op: from === null ? 'INSERT' : to === null ? 'DELETE' : 'UPDATE',
  ...more,
});
const faultOf = (...writes: readonly Write[]) => createHistoryRules().take(writes)?.split(':')[0] ?? null;

test('blocks, deliveries and leaders in their order are right', () => {
  const rules = createHistoryRules();
  const deliverer = { process: 'deliverer-1' };
  const writes = [
    move(1),
    header(1),
    move(2),
    header(2),
    delivery(2, null, PENDING),
    delivery(3, PENDING, RUNNING, deliverer),
    delivery(4, RUNNING, DONE, deliverer),
    move(5, { from: at(2), ...second }),
    header(5, { parent: at(2) }),
    header(1, { op: 'DELETE' }),
    { id: 6, tx: 6, at: 6, process: 'api-1', what: 'usage', op: 'UPDATE', begunAt: 5 } as const,
  ];
  assert.equal(rules.take(writes), null);
  assert.deepEqual([rules.blocks, rules.deliveries, rules.takeFirstAttempts()], [3, 1, [4]]);
  assert.deepEqual(rules.takeFirstAttempts(), []);
  assert.deepEqual([rules.writtenUntil('api-1'), rules.writtenUntil('api-2')], [5, null]);
});

test('a cursor that goes back, is removed, or moves from where it was not', () => {
  assert.equal(faultOf(move(5), move(4, { from: at(5) })), 'the cursor went back');
  assert.equal(faultOf(move(5), move(6, { op: 'DELETE', to: null })), 'the cursor was removed');
  assert.equal(faultOf(move(5), move(7)), 'the cursor was left at {"slot"');
});

test('two writers of one chain', () => {
  assert.equal(faultOf(move(1), move(2, second), move(3, { epoch: 3 })), 'it writes again after indexer-2');
  assert.equal(faultOf(move(1), move(2, { ...second, epoch: 1 })), 'epoch 1 was that of indexer-1');
  assert.equal(faultOf(move(1), move(2, { epoch: 2, leader: 'host:2' })), 'it wrote as host');
  assert.equal(faultOf(move(1, { leader: null })), 'nobody leads, and the cursor moves');
});

test('headers without their cursor, of another parent, changed or taken away', () => {
  assert.equal(faultOf(move(2), header(2, { tx: 9 })), 'a header without the cursor');
  assert.equal(faultOf(move(2), header(2, { parent: at(7) })), 'its parent is not where the cursor was');
  assert.equal(faultOf(move(2), header(2, { op: 'UPDATE' })), 'a header was changed');
  assert.equal(faultOf(move(2), header(2, { op: 'DELETE' })), 'the newest header was removed');
});

test('deliveries that are made twice or without a block, lost, forgotten, or begun again', () => {
  const made = [move(2), delivery(2, null, PENDING)];
  assert.equal(faultOf(...made, delivery(2, null, PENDING)), 'a delivery was made twice');
  assert.equal(faultOf(move(2), delivery(3, null, PENDING)), 'a delivery without its block');
  assert.equal(faultOf(move(2), delivery(2, null, PENDING, { process: 'api-0' })), 'a delivery without its block');
  assert.equal(faultOf(move(2), delivery(2, null, DONE)), 'a delivery does not begin as one');
  assert.equal(faultOf(...made, delivery(3, PENDING, null)), 'a delivery was removed');
  assert.equal(faultOf(...made, delivery(3, RUNNING, DONE)), 'it was {"state"');
  assert.equal(faultOf(move(2), delivery(3, PENDING, RUNNING)), 'a delivery that was never made');
  const done = [...made, delivery(3, PENDING, DONE)];
  assert.equal(faultOf(...done, delivery(4, DONE, PENDING)), 'a delivery that was done was changed');
  const retried = { state: 'pending', attempts: 2 };
  assert.equal(
    faultOf(...made, delivery(3, PENDING, retried), delivery(4, retried, RUNNING)),
    'attempts were forgotten',
  );
});
