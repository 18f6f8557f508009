import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCookie, writeCookie } from '../../../plugins/dashboard/session/cookie.ts';
import { createLoginBrake } from '../../../plugins/dashboard/session/login-brake.ts';
import { createSessions } from '../../../plugins/dashboard/session/sessions.ts';
import { createSystemRandom } from '../../../src/adapters/random.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';

const MINUTE_MS = 60_000;
const limits = { sessionIdleMinutes: 60, sessionMaxHours: 12, maxSessions: 3 };

test('a session ends when it is idle, and in any case at its end', async () => {
  const clock = createManualClock();
  const sessions = createSessions(clock, createSystemRandom(), limits);
  const idle = sessions.open({ role: 'operator' });
  const used = sessions.open({ role: 'operator' });
  assert.notEqual(idle.session.csrfToken, used.session.csrfToken);
  for (let minutes = 0; minutes < 12 * 60 - 30; minutes += 30) {
    assert.notEqual(sessions.find(used.token), null, `after ${minutes} minutes`);
    await clock.advance(30 * MINUTE_MS);
  }
  assert.equal(sessions.find(idle.token), null);
  assert.notEqual(sessions.find(used.token), null);
  await clock.advance(30 * MINUTE_MS);
  assert.equal(sessions.find(used.token), null, 'twelve hours are over');
  assert.equal(sessions.count(), 0);
});

test('there are no more sessions than may be: the one used longest ago goes', () => {
  const sessions = createSessions(createManualClock(), createSystemRandom(), limits);
  const opened = [1, 2, 3].map(() => sessions.open({ role: 'operator' }).token);
  sessions.find(opened[0]!);
  sessions.open({ role: 'operator' });
  assert.deepEqual(
    opened.map((token) => sessions.find(token) !== null),
    [true, false, true],
  );
  sessions.close(opened[0]!);
  assert.equal(sessions.find(opened[0]!), null);
});

test('one cookie is read, and only ours', () => {
  assert.equal(readCookie(`a=b; ${writeCookie('tok-en_1', false).split(';')[0]}; c=d`), 'tok-en_1');
  for (const header of [undefined, '', 'a=b', 'parhelion_session', 'parhelion_session=a; parhelion_session=b'])
    assert.equal(readCookie(header), null, header);
  assert.match(writeCookie('x', true), /; Secure/);
  assert.match(writeCookie('', false), /Max-Age=0/);
});

test('guesses are counted by address and together, and forgotten after a minute', async () => {
  const clock = createManualClock();
  const brake = createLoginBrake(clock, 2);
  for (const address of ['a', 'a']) brake.failed(address);
  assert.ok(brake.waitS('a') >= 1 && brake.waitS('a') <= 60);
  assert.equal(brake.waitS('b'), 0);
  brake.failed('b');
  brake.forgive('b');
  for (let at = 0; at < 18; at += 1) brake.failed(`c${at}`);
  assert.ok(brake.waitS('new') >= 1, 'all together');
  await clock.advance(MINUTE_MS);
  assert.deepEqual([brake.waitS('a'), brake.waitS('new')], [0, 0]);
});
