import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { startWorker } from '../../../src/adapters/workers/start-worker.ts';
import { CodedError, codeOf } from '../../../src/lib/coded-error.ts';

const ENTRY = new URL('./commands-thread.ts', import.meta.url);

function hire(t: TestContext, entry = ENTRY) {
  const lines: string[] = [];
  let gone = 0;
  const member = startWorker({
    name: 'indexer',
    role: 'indexer',
    entry,
    data: {},
    clock: createSystemClock(),
    writeLog: (text) => void lines.push(text),
    gone: () => {
      gone += 1;
    },
  });
  t.after(() => member.end());
  return { member, lines, gone: () => gone };
}

test('answers and errors come over as they are: code, exit code, facts; an error without a code stays one', async (t) => {
  const { member } = hire(t);
  await member.ask('ping', null);
  assert.deepEqual(await member.ask('checks', 10_000), [{ name: 'a', ok: true, detail: 'ä' }]);
  await assert.rejects(member.ask('start', null), (error: unknown) => {
    assert.ok(error instanceof CodedError);
    const { code, message, exitCode, facts, retryable } = error;
    assert.deepEqual(
      { code, message, exitCode, facts, retryable },
      { code: 'STORE_WRONG_CHAIN', message: 'another chain', exitCode: 78, facts: { known: 'x' }, retryable: true },
    );
    return true;
  });
  await assert.rejects(member.ask('takeConfig', null, { core: {}, values: {} }), (error: unknown) => {
    assert.equal(codeOf(error), undefined);
    assert.equal((error as Error).message, 'a bug');
    return true;
  });
});

test('the lines of its log come whole and in order', async (t) => {
  const { member, lines } = hire(t);
  await member.ask('takeConfig', null, { core: { a: 1 }, values: {} });
  for (let tries = 0; tries < 200 && !lines.join('').includes('"taken"'); tries++) await member.ask('ping', null);
  const parsed = lines
    .join('')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    parsed.slice(0, 500).map(({ n }) => n),
    Array.from({ length: 500 }, (_, n) => n),
  );
  assert.ok(parsed.every(({ role }) => role === 'indexer'));
  assert.deepEqual(parsed[500]?.['next'], { core: { a: 1 }, values: {} });
});

test('it reports what stops it, and continues to answer', async (t) => {
  const { member } = hire(t);
  await member.ask('drain', null);
  const error = await member.failed;
  assert.equal(codeOf(error), 'STORE_FULL');
  assert.equal((error as CodedError).exitCode, 75);
  await member.ask('ping', null);
});

test('a hung thread is silent within the limit, and can be ended; that is no failure', async (t) => {
  const { member, gone } = hire(t);
  await member.ask('ping', null);
  await assert.rejects(member.ask('metrics', 50), {
    code: 'ROLE_SILENT',
    facts: { role: 'indexer', command: 'metrics' },
  });
  const waiting = member.ask('ping', null);
  waiting.catch(() => undefined);
  await member.end();
  await assert.rejects(waiting, { code: 'ROLE_ENDED' });
  await assert.rejects(member.ask('ping', null), { code: 'ROLE_ENDED' });
  assert.equal(gone(), 1);
  const first = await Promise.race([member.failed, Promise.resolve('nothing')]);
  assert.equal(first, 'nothing');
  await member.end();
});

test('an error that nobody catches ends it, with the reason', async (t) => {
  const { member, gone } = hire(t);
  await member.ask('ping', null);
  await assert.rejects(member.ask('stop', null), {
    code: 'ROLE_CRASHED',
    message: /nobody catches this/,
    exitCode: 70,
  });
  assert.equal(codeOf(await member.failed), 'ROLE_CRASHED');
  await member.end();
  assert.equal(gone(), 1);
});

test('a thread whose memory is full ends the daemon with 75: it is started again', async (t) => {
  const { member } = hire(t, new URL('./memory-thread.ts', import.meta.url));
  const error = await member.failed;
  assert.ok(error instanceof CodedError);
  assert.deepEqual([error.code, error.exitCode], ['ROLE_CRASHED', 75]);
});
