import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { killRoles } from './kills.ts';

const skip = (await chainMissing()) ?? false;

test('72 SIGKILLs of processes with one role each, on SQLite, lose nothing and repeat nothing', { skip }, async (t) =>
  killRoles(t, { kills: 72 }),
);
