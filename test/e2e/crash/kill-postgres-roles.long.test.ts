import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { killRoles } from './kills.ts';

const skip = (await chainMissing()) ?? false;

test(
  '72 SIGKILLs of processes with one role each, on PostgreSQL, lose nothing and repeat nothing',
  { skip },
  async (t) => killRoles(t, { store: (await postgresDatabase(t)).url, kills: 72 }),
);
