import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { killAgainAndAgain } from './kills.ts';

const skip = (await chainMissing()) ?? false;

test('12 SIGKILLs of a daemon that is working, on SQLite, lose nothing and repeat nothing', { skip }, async (t) =>
  killAgainAndAgain(t, { while: 'working', kills: 12 }),
);
