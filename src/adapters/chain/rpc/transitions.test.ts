/** Every event of the tables of an upstream in every state: what may come happens, all else changes nothing. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { testCore } from '../../../../test/helpers/http-front.ts';
import { createMemoryLog } from '../../../../test/helpers/memory-log.ts';
import { stateAfter } from '../../../lib/transitions.ts';
import type { UpstreamOutcome } from '../../../ports/upstream.ts';
import { createSystemClock } from '../../clock.ts';
import { createIdentityWatch } from './identity.ts';
import {
  applyOutcome,
  isHealthy,
  isInService,
  makeMember,
  newHealth,
  type UpstreamHealth,
  unhealthyReasonOf,
} from './member.ts';
import { COOL_DOWN, type CoolDown, SERVED_CHAIN, type ServedChain } from './transitions.ts';

const core = testCore();
const GENESIS = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG';
const FIRST_OTHER = 'another chain';
const SECOND_OTHER = 'a third chain';

const FAILED: UpstreamOutcome = { kind: 'failed', reason: 'UPSTREAM_TIMEOUT' };
const LIMITED: UpstreamOutcome = { kind: 'limited', retryAfterMs: 3_000 };
const CONTRADICTED: UpstreamOutcome = { kind: 'contradicted', reason: 'another parent' };
const DENIED: UpstreamOutcome = { kind: 'denied', status: 403 };

/** Outcomes that lead to a state, from the beginning. */
const COOL_DOWNS: Readonly<Record<CoolDown, readonly UpstreamOutcome[]>> = {
  none: [],
  failing: [FAILED, FAILED],
  limited: [LIMITED],
  refused: [DENIED],
  distrusted: [CONTRADICTED],
};

type CoolDownEvent = keyof typeof COOL_DOWN;

/** What the event is, at a time; failures before it count. */
const OUTCOMES: Readonly<Record<CoolDownEvent, readonly (readonly [UpstreamOutcome, failures: number])[]>> = {
  ok: [[{ kind: 'ok' }, 0]],
  failed: [[FAILED, 0]],
  'failed again': [[FAILED, 1]],
  limited: [
    [LIMITED, 0],
    [{ kind: 'limited', retryAfterMs: null }, 0],
  ],
  refused: [
    [DENIED, 0],
    [{ kind: 'exhausted' }, 0],
  ],
  contradicted: [[CONTRADICTED, 0]],
  'time is up': [],
};

const REASONS: Readonly<Record<CoolDown, RegExp>> = {
  none: /^$/,
  failing: /^failing: /,
  limited: /^rate limited$/,
  refused: /^refuses us/,
  distrusted: /^contradicted the chain: /,
};

/** By what others see of it. */
const coolDownOf = (health: UpstreamHealth, now: number): CoolDown | undefined =>
  (Object.keys(REASONS) as CoolDown[]).find((state) => REASONS[state].test(unhealthyReasonOf(health, now) ?? ''));

test('a cool-down begins and ends where the table says so, and a graver one is not replaced', () => {
  for (const event of Object.keys(COOL_DOWN) as CoolDownEvent[])
    for (const state of Object.keys(COOL_DOWNS) as CoolDown[]) {
      const expected = stateAfter(COOL_DOWN, event, state) ?? state;
      const start = () => {
        const health = newHealth();
        for (const outcome of COOL_DOWNS[state]) applyOutcome(health, outcome, 0, core);
        return health;
      };
      const after: [UpstreamHealth, number][] = OUTCOMES[event].map(([outcome, failures]) => {
        const health = start();
        health.failures = failures;
        applyOutcome(health, outcome, 1, core);
        return [health, 1];
      });
      if (event === 'time is up') after.push([start(), Number.MAX_SAFE_INTEGER]);
      for (const [health, now] of after) {
        assert.equal(coolDownOf(health, now), expected, `${event} in ${state}`);
        assert.equal(isHealthy(health, now), expected === 'none', `${event} in ${state}`);
      }
    }
});

test('an upstream that was proven wrong stays out for the whole time, whatever fails or succeeds meanwhile', () => {
  const health = newHealth();
  for (const outcome of [CONTRADICTED, FAILED, FAILED, LIMITED, { kind: 'ok' } as const])
    applyOutcome(health, outcome, 0, core);
  const { distrustMs } = core.upstream;
  assert.deepEqual([isHealthy(health, distrustMs - 1), isHealthy(health, distrustMs)], [false, true]);
  assert.match(unhealthyReasonOf(health, 0) ?? '', REASONS.distrusted);
});

test('an upstream is in service where the table says that it serves our chain', async (t) => {
  /** Null: the connection breaks. */
  let answer: object | null = null;
  const server = createServer((request, response) => {
    request.resume();
    if (answer === null) return void request.socket.destroy();
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, ...answer }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const clock = createSystemClock();

  const occur = async (event: keyof typeof SERVED_CHAIN, state: ServedChain): Promise<UpstreamHealth> => {
    const member = makeMember({ url }, 'main-0', { label: 'main', clock });
    const parts = { label: 'main', members: () => [member], clock, log: createMemoryLog(), changed: () => undefined };
    const watch = createIdentityWatch(parts);
    const isBinding = event === 'has to tell' || event === 'need not tell';
    if (!isBinding) watch.bind(GENESIS);
    Object.assign(member.health, { chain: state, otherChain: state === 'other' ? FIRST_OTHER : null });
    if (isBinding) watch.bind(GENESIS, event === 'need not tell');
    else await watch.ask();
    await watch.stop();
    await member.transport.close?.();
    return member.health;
  };
  const answers: Readonly<Record<keyof typeof SERVED_CHAIN, object | null>> = {
    'names ours': { result: GENESIS },
    'names another': { result: SECOND_OTHER },
    'cannot tell': { error: { code: -32_601, message: 'Method not found' } },
    'does not answer': null,
    'has to tell': null,
    'need not tell': null,
  };
  for (const event of Object.keys(SERVED_CHAIN) as (keyof typeof SERVED_CHAIN)[])
    for (const state of ['ours', 'unknown', 'other'] as const) {
      answer = answers[event];
      const health = await occur(event, state);
      const expected = stateAfter(SERVED_CHAIN, event, state) ?? state;
      const named = event === 'names another' ? SECOND_OTHER : FIRST_OTHER;
      assert.deepEqual(
        [health.chain, isInService(health), health.otherChain],
        [expected, expected === 'ours', expected === 'other' ? named : null],
        `${event} in ${state}`,
      );
    }
});
