import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKeptResults } from './kept-results.ts';

const answerOf = (n: number) => ({ summary: `${n}`, data: {} });

test('results are kept up to the bound, and what was not asked for the longest is made anew', () => {
  const kept = createKeptResults(1_000);
  const answers = Array.from({ length: 20 }, (_, n) => answerOf(n));
  let made = 0;
  const ask = (n: number, bytes = 100, most = 65_536) =>
    kept.resultOf(answers[n]!, most, () => {
      made += 1;
      return Buffer.alloc(bytes, n);
    });
  for (let n = 0; n < 20; n += 1) {
    assert.equal(ask(n), ask(n), 'the same bytes');
    ask(0);
    assert.ok(kept.bytes <= 1_000, `${kept.bytes}`);
  }
  assert.equal(kept.bytes, 1_000);
  assert.equal(made, 20, 'the one that was asked for again and again has stayed');
  ask(1);
  assert.equal(made, 21);
  const large = ask(2, 2_000);
  assert.deepEqual([large.length, kept.bytes <= 1_000], [2_000, true]);
});

test('a result is made anew for another largest length of answers, and takes the place of the other one', () => {
  const kept = createKeptResults(1_000);
  const answer = answerOf(1);
  const ask = (most: number, text: string) => kept.resultOf(answer, most, () => Buffer.from(text)).toString();
  assert.deepEqual([ask(8, 'short'), ask(9, 'longer'), ask(9, 'other')], ['short', 'longer', 'longer']);
  assert.equal(kept.bytes, 6);
  assert.equal(ask(8, 'again'), 'again');
});
