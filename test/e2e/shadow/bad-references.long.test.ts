/** A reference that is slow, dead, endless or lying costs nothing but a metric; the budget is kept. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { answer, type Receiver, type Step, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const SLOTS = 30;

interface Bed {
  readonly daemon: DaemonInProcess;
  readonly receiver: Receiver;
  /** Answers that clients got. */
  ask(count: number): Promise<readonly string[]>;
  metric(line: string): Promise<number>;
  stop(): Promise<void>;
}

async function startBed(shadow: Readonly<Record<string, unknown>>): Promise<Bed> {
  const upstream = await startUpstream();
  const receiver = await startReceiver();
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'proxy', 'shadow'],
      follow: { enabled: false },
      shadow: {
        share: 1,
        recheckMs: 0,
        ...shadow,
        reference: {
          url: receiver.url,
          apiKey: 'key-of-the-reference',
          timeoutMs: 200,
          ...(shadow['reference'] as object),
        },
      },
    },
  });
  return {
    daemon,
    receiver,
    async ask(count) {
      const calls = Array.from({ length: count }, async (_, id) => {
        const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'getSlot', params: [] });
        const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
        assert.equal(response.status, 200);
        return await response.text();
      });
      return await Promise.all(calls);
    },
    async metric(line) {
      const text = await (await fetch(`${daemon.adminUrl}/metrics`)).text();
      const found = text.split('\n').find((one) => one.startsWith(`parhelion_shadow_${line}`));
      return Number(found?.split(' ').at(-1) ?? 0);
    },
    async stop() {
      await daemon.stop();
      await receiver.close();
      await upstream.stop();
    },
  };
}

const BAD: readonly (readonly [name: string, step: Step, kind: string])[] = [
  ['silent', { kind: 'silent' }, 'broken'],
  ['dropping connections', { kind: 'reset', at: 'start' }, 'broken'],
  ['cut in the body', { kind: 'reset', at: 'body' }, 'broken'],
  ['endless', { kind: 'endless', status: 200, everyMs: 1 }, 'broken'],
  ['failing', answer(500, {}, 'no'), 'broken'],
  ['moved', answer(301, { location: 'http://127.0.0.1:9/' }), 'broken'],
  ['busy', answer(429, {}, 'later'), 'busy'],
  ['talking of something else', answer(200, {}, '{"hello":1}'), 'broken'],
  ['too long', answer(200, {}, `{"jsonrpc":"2.0","id":1,"result":"${'x'.repeat(5_000)}"}`), 'large'],
];

for (const [name, step, kind] of BAD)
  test(`a reference that is ${name} costs a metric`, async (t) => {
    const bed = await startBed({ maxBodyBytes: 2_048, maxWaiting: 8, maxConcurrent: 2 });
    t.after(() => bed.stop());
    bed.receiver.setFallback(step);
    const texts = await bed.ask(SLOTS);
    for (const text of texts) assert.match(text, /"result":\d+/);
    await until(async () => (await bed.metric(`reference_replies_total{kind="${kind}"}`)) > 0, kind);
    await until(async () => (await bed.metric('held_bytes')) === 0, 'nothing is held');
    const skipped =
      (await bed.metric('skipped_total{reason="full"}')) +
      (await bed.metric('skipped_total{reason="unanswered"}')) +
      (await bed.metric('skipped_total{reason="long"}'));
    assert.equal(skipped, SLOTS, 'each of them is counted');
    for (const { url, headers, body } of bed.receiver.received)
      assert.ok(!`${url} ${JSON.stringify(headers)} ${body}`.includes(bed.daemon.key));
  });

const BUDGETS: readonly (readonly [name: string, budget: Readonly<Record<string, number>>])[] = [
  ['requests', { requestsPerDay: 10 }],
  // A call has the price of one credit.
  ['credits', { creditsPerDay: 10 }],
  // Before a call its longest answer is set aside, and given back when it was shorter.
  ['bytes', { bytesPerDay: 9_000 }],
];

for (const [name, budget] of BUDGETS)
  test(`the budget of ${name} of a day is never exceeded`, async (t) => {
    const bed = await startBed({ budget, maxBodyBytes: 2_048, maxConcurrent: 2 });
    t.after(() => bed.stop());
    const text = '{"jsonrpc":"2.0","id":1,"result":5}';
    bed.receiver.setFallback(answer(200, {}, text));
    await bed.ask(SLOTS);
    await until(async () => (await bed.metric('skipped_total{reason="budget"}')) > 0, 'the budget is used up');
    await until(async () => (await bed.metric('waiting_requests')) === 0, 'nothing waits');
    const { received } = bed.receiver;
    assert.ok(received.length > 0);
    if (name === 'bytes') {
      const bytes = received.reduce((sum, { body }) => sum + body.length + text.length, 0);
      assert.ok(bytes <= 9_000, `${bytes} bytes`);
    } else assert.ok(received.length <= 10, String(received.length));
  });

test('when the reference answers, clients get its answers, and ours when it is late', async (t) => {
  const bed = await startBed({ answers: 'reference', answerWithinMs: 150 });
  t.after(() => bed.stop());
  bed.receiver.setFallback(answer(200, {}, '{"jsonrpc":"2.0","id":0,"result":123456789}'));
  const [theirs] = await bed.ask(1);
  assert.match(theirs!, /123456789/);
  await until(async () => (await bed.metric('compared_total{product="rpc",outcome="different"}')) === 1, 'compared');
  bed.receiver.setFallback({ kind: 'silent' });
  const [ours] = await bed.ask(1);
  assert.match(ours!, /"result":\d+/);
  assert.doesNotMatch(ours!, /123456789/);
});
