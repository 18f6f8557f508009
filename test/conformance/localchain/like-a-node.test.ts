import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { BAD_BODIES, BAD_CALLS } from './bad-calls.ts';
import { post, refusal, refusals } from './refused-calls.ts';

const missing = await chainMissing();

suite('a local chain refuses as a node does', { skip: missing ?? false }, () => {
  let url: string;
  let stop: () => Promise<void>;
  before(async () => {
    const chain = await startChain();
    ({ rpcUrl: url, stop } = chain);
  });
  after(() => stop());

  test('calls', async () => assert.deepEqual(await refusals(url), BAD_CALLS.map(refusal)));

  test('bodies', async () => {
    for (const [body, expected] of BAD_BODIES) assert.equal(await post(url, body), expected, body);
  });

  test('ids come back digit by digit', async () => {
    for (const id of [
      '9007199254740993',
      '18446744073709551615',
      '340282366920938463463374607431768211456',
      '-7',
      '"é"',
    ]) {
      const text = await post(url, `{"jsonrpc":"2.0","id":${id},"method":"getHealth"}`);
      assert.equal(text, `{"jsonrpc":"2.0","result":"ok","id":${id}}\n`);
    }
  });
});
