import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Calls } from '../tool.ts';
import { docsTool } from './docs.ts';

test('the answer with a page is the same object as long as the page is the same, and changes with it', async () => {
  let page = Buffer.from('# Fées');
  const asked: string[] = [];
  const calls = {
    async bytes(path: string) {
      asked.push(path);
      return page;
    },
  } as unknown as Calls;
  const read = () => docsTool.run({ page: 'a-page-of-its-own' }, calls);
  const first = await read();
  assert.deepEqual([first.data, first.isLasting], [{ markdown: '# Fées' }, true]);
  assert.equal(await read(), first);
  page = Buffer.from(page);
  assert.equal(await read(), first, 'a copy is the same page');
  page = Buffer.from('# Fêtes');
  const second = await read();
  assert.deepEqual(second.data, { markdown: '# Fêtes' });
  assert.equal(await read(), second);
  // Each of them asked, so the key is checked each time.
  assert.deepEqual(asked, Array(5).fill('/docs/guide/a-page-of-its-own.md'));
});
