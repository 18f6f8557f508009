import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGather } from './path-reader.ts';

interface Asked {
  readonly alone: number[];
  readonly together: number[][];
}

function gatherOf(asked: Asked, refused: (question: number) => boolean = () => false) {
  return createGather<number, string>({
    ...{ most: 5, fewest: 3 },
    async one(question) {
      asked.alone.push(question);
      if (refused(question)) throw new Error(`not ${question}`);
      return `${question}`;
    },
    async many(questions) {
      asked.together.push([...questions]);
      if (questions.some(refused)) throw new Error('not all');
      return questions.map(String);
    },
  });
}

test('questions of one turn are answered together, in batches; a few are answered individually', async () => {
  const asked: Asked = { alone: [], together: [] };
  const gather = gatherOf(asked);
  const numbers = Array.from({ length: 12 }, (_, i) => i);
  assert.deepEqual(await Promise.all(numbers.map(gather)), numbers.map(String));
  assert.deepEqual(asked, { alone: [10, 11], together: [numbers.slice(0, 5), numbers.slice(5, 10)] });
  assert.equal(await gather(40), '40');
  assert.deepEqual(asked.alone, [10, 11, 40]);
});

test('one bad question does not affect other answers', async () => {
  const asked: Asked = { alone: [], together: [] };
  const gather = gatherOf(asked, (question) => question === 2);
  const answers = await Promise.allSettled([1, 2, 3, 4].map(gather));
  assert.deepEqual(
    answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : (answer.reason as Error).message)),
    ['1', 'not 2', '3', '4'],
  );
});
