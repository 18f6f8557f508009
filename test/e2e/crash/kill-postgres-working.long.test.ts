import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { killAgainAndAgain } from './kills.ts';

const skip = (await chainMissing()) ?? false;

test('12 SIGKILLs of a daemon that is working, on PostgreSQL, lose nothing and repeat nothing', { skip }, async (t) =>
  killAgainAndAgain(t, { store: (await postgresDatabase(t)).url, while: 'working', kills: 12 }),
);
