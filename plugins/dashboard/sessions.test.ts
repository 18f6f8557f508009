import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSystemRandom } from '../../src/adapters/clock.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createLoginBrake, createSessions, readCookie, writeCookie } from './sessions.ts';

const unwatched = { add: () => () => undefined, lookNow: () => undefined, stop: () => undefined };
const MINUTE_MS = 60_000;
const limits = { sessionIdleMinutes: 60, sessionMaxHours: 12, maxSessions: 3, maxSessionsPerIdentity: 3 };

test('a session ends when it is idle, and in any case at its end', async () => {
  const clock = createManualClock();
  const sessions = createSessions(clock, createSystemRandom(), limits, unwatched);
  const idle = sessions.open({ role: 'operator', name: null }, '');
  const used = sessions.open({ role: 'operator', name: null }, '');
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
  const sessions = createSessions(createManualClock(), createSystemRandom(), limits, unwatched);
  const opened = [1, 2, 3].map(() => sessions.open({ role: 'operator', name: null }, '').token);
  sessions.find(opened[0]!);
  sessions.open({ role: 'operator', name: null }, '');
  assert.deepEqual(
    opened.map((token) => sessions.find(token) !== null),
    [true, false, true],
  );
  sessions.close(opened[0]!);
  assert.equal(sessions.find(opened[0]!), null);
});

test('many sessions of one project end none of others', () => {
  const sessions = createSessions(
    createManualClock(),
    createSystemRandom(),
    { ...limits, maxSessions: 5, maxSessionsPerIdentity: 3 },
    unwatched,
  );
  const operator = sessions.open({ role: 'operator', name: null }, '');
  const owners = Array.from({ length: 20 }, (_, n) =>
    sessions.open({ role: 'project', projectId: n % 2 === 0 ? 'a' : 'b' }, ''),
  );
  assert.notEqual(sessions.find(operator.token), null);
  assert.equal(sessions.count(), 5);
  assert.notEqual(sessions.find(owners.at(-1)!.token), null);
  sessions.closeAll('project:a');
  assert.ok(sessions.count() < 5);
  assert.equal(operator.session.ended.aborted, false);
  sessions.closeAll(null);
  assert.deepEqual([sessions.count(), operator.session.ended.aborted], [0, true]);
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
  const brake = createLoginBrake(clock, () => 2);
  for (const address of ['a', 'a']) brake.failed(address);
  assert.ok(brake.waitS('a') >= 1 && brake.waitS('a') <= 60);
  assert.equal(brake.waitS('b'), 0);
  await brake.pause();
  for (let at = 0; at < 19; at += 1) brake.failed(`c${at}`);
  assert.equal(brake.waitS('new'), 0, 'whoever is right gets in, however many others are wrong');
  let answered = 0;
  const waiting = Array.from({ length: 10 }, () => brake.pause().then(() => answered++));
  await assert.rejects(brake.pause(), { status: 429 });
  assert.equal(answered, 0);
  for (let second = 0; second < 11; second += 1) await clock.advance(1_000);
  await Promise.all(waiting);
  brake.failed('2001:db8::1');
  brake.failed('2001:db8::2');
  assert.ok(brake.waitS('2001:db8::3') >= 1, 'a /64 is one client');
  await clock.advance(MINUTE_MS);
  assert.deepEqual([brake.waitS('a'), brake.waitS('new')], [0, 0]);
});
