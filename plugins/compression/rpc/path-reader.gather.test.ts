import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGather } from './path-reader.ts';

function gatherOf(asked: number[][], refused: (question: number) => boolean = () => false) {
  return createGather<number, string>({
    most: 5,
    async many(questions) {
      asked.push([...questions]);
      const bad = questions.find(refused);
      if (bad !== undefined) throw new Error(`not ${bad}`);
      return questions.map(String);
    },
  });
}

test('questions of one turn are answered together, in batches', async () => {
  const asked: number[][] = [];
  const gather = gatherOf(asked);
  const numbers = Array.from({ length: 12 }, (_, i) => i);
  assert.deepEqual(await Promise.all(numbers.map(gather)), numbers.map(String));
  assert.deepEqual(asked, [numbers.slice(0, 5), numbers.slice(5, 10), [10, 11]]);
  assert.equal(await gather(40), '40');
  assert.deepEqual(asked.at(-1), [40]);
});

test('one bad question does not affect other answers', async () => {
  const gather = gatherOf([], (question) => question === 2);
  const answers = await Promise.allSettled([1, 2, 3, 4].map(gather));
  assert.deepEqual(
    answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : (answer.reason as Error).message)),
    ['1', 'not 2', '3', '4'],
  );
});
