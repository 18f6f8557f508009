/** The book of calls that drills compare counted usage with: exact, but for what an end may have taken. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createCallsBook } from './calls-book.ts';

const counted = (requests: number, credits: number) => new Map([['webhooks', { requests, credits }]]);

test('where nothing has ended every call and every delivery counts once', () => {
  const book = createCallsBook();
  for (const kind of ['create', 'list', 'list'] as const) book.answered(kind);
  assert.equal(book.check(counted(4, 101), [performance.now()]).fault, null);
  book.answered('create');
  assert.equal(book.check(counted(5, 201), []).fault, null);
  assert.match(book.check(counted(6, 201), []).fault ?? '', /^1 requests .* 0 at most$/);
  book.answered('list');
  assert.match(book.check(counted(6, 201), []).fault ?? '', /^0 requests .* 1 at least$/);
  book.answered('create');
  assert.match(book.check(counted(7, 200), []).fault ?? '', /^-1 credits .* 100 at least$/);
});

test('unwritten usage of another process may be lost; a call without an answer may count', () => {
  const book = createCallsBook();
  const begunMs = performance.now();
  book.answered('create');
  book.ended('deliverer', begunMs, performance.now());
  assert.match(book.check(counted(0, 0), []).fault ?? '', /1 at least/);
  book.answered('create');
  book.ended('api', begunMs, performance.now());
  book.answered('list');
  assert.deepEqual(book.check(counted(1, 0), []), { fault: null, calls: 2, unknown: 0, mayBeLost: 1, lost: 1 });
  book.unknown('create');
  assert.equal(book.check(counted(2, 100), []).fault, null);
});
