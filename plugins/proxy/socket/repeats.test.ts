import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createRepeats } from './repeats.ts';

/** A notification with the place of its id, as a link hands it on. */
function told(method: string, result: unknown, subscription: number) {
  const head = `{"jsonrpc":"2.0","method":"${method}","params":{"result":${JSON.stringify(result)},"subscription":`;
  const start = Buffer.byteLength(head);
  return [Buffer.from(`${head}${subscription}}}`), { start, end: start + String(subscription).length }] as const;
}

const logs = (signature: string, slot: number, lines: readonly string[]) =>
  told('logsNotification', { context: { slot }, value: { signature, err: null, logs: lines } }, slot % 7);

test('each transaction is told once, whatever the slot, the id and the lines of its repetitions', () => {
  const attempt = fc.record({
    signature: fc.constantFrom('5aa', '5ab', '5ac', '6aa'),
    slot: fc.nat(1_000),
    // Lines that look like the member are no member.
    lines: fc.array(fc.constantFrom('"signature":"5aa"', '\\"signature\\":\\"5ab\\"', 'Program log: 5ac', '"')),
  });
  fc.assert(
    fc.property(fc.array(attempt, { maxLength: 30 }), (attempts) => {
      const repeats = createRepeats();
      const passed = attempts
        .filter(({ signature, slot, lines }) => !repeats.isRepeat('logs', ...logs(signature, slot, lines)))
        .map(({ signature }) => signature);
      assert.deepEqual(passed, [...new Set(attempts.map(({ signature }) => signature))]);
    }),
  );
});

test('of other kinds only equal notifications are repetitions; the id of another upstream makes no difference', () => {
  const repeats = createRepeats();
  const isRepeat = (family: string, result: unknown, id: number) =>
    repeats.isRepeat(family, ...told(`${family}Notification`, result, id));
  assert.equal(isRepeat('root', 5, 1), false);
  assert.equal(isRepeat('root', 5, 4_711), true);
  assert.equal(isRepeat('root', 6, 1), false);
  const account = (slot: number, lamports: number) => ({ context: { slot }, value: { lamports } });
  assert.equal(isRepeat('account', account(5, 1), 2), false);
  assert.equal(isRepeat('account', account(6, 1), 2), false);
  assert.equal(isRepeat('account', account(6, 2), 2), false);
  assert.equal(isRepeat('account', account(6, 1), 3), true);
});
