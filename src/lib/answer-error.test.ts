import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerError } from './answer-error.ts';

test('an error that is an answer has no stack, and other errors keep theirs', () => {
  const cause = new Error('why');
  const error = new AnswerError('not here', { cause });
  assert.ok(error instanceof Error);
  assert.deepEqual([error.message, error.cause], ['not here', cause]);
  assert.doesNotMatch(String(error.stack), /\n\s+at /);
  assert.match(String(new Error('other').stack), /\n\s+at /);
});
