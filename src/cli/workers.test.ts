import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ROLES } from '../ports/daemon-view.ts';
import type { CliIo } from './command.ts';
import { chooseRoles, splitRoles } from './workers.ts';

const io = (role?: string): CliIo => ({
  env: role === undefined ? {} : { PARHELION_ROLE: role },
  cwd: '/',
  out: () => undefined,
  err: () => undefined,
  isTerminal: false,
  program: 'parhelion',
});

test('all roles run by default; the flag wins over the environment; order and repetition do not matter', () => {
  assert.deepEqual(chooseRoles({}, io()), ROLES);
  assert.deepEqual(chooseRoles({}, io(' ')), ROLES);
  assert.deepEqual(chooseRoles({ role: 'api' }, io('indexer')), ['api']);
  assert.deepEqual(chooseRoles({}, io('deliverer, api')), ['api', 'deliverer']);
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...ROLES), { minLength: 1, maxLength: 6 }), (names) => {
      const chosen = chooseRoles({ role: names.join(',') }, io());
      assert.deepEqual(
        chosen,
        ROLES.filter((role) => names.includes(role)),
      );
    }),
  );
});

test('an unknown role is a usage error that names the roles and its origin', () => {
  for (const [values, env, origin] of [
    [{ role: 'api,indexr' }, undefined, /--role: "indexr"/],
    [{ role: '' }, undefined, /--role: ""/],
    [{}, 'all', /PARHELION_ROLE: "all"/],
  ] as const) {
    assert.throws(() => chooseRoles(values, io(env)), { code: 'CONFIG_INVALID', exitCode: 64, message: origin });
  }
});

test('requests have the main thread to themselves; a single role needs no other thread', () => {
  for (const role of ROLES) assert.deepEqual(splitRoles([role], false), { main: [role], threads: [] });
  assert.deepEqual(splitRoles(ROLES, false), { main: ['api'], threads: ['indexer', 'deliverer'] });
  assert.deepEqual(splitRoles(ROLES, true), { main: ROLES, threads: [] });
  assert.deepEqual(splitRoles(['indexer', 'deliverer'], false), { main: [], threads: ['indexer', 'deliverer'] });
});
