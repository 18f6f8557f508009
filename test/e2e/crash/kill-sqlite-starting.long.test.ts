import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { killAgainAndAgain } from './kills.ts';

const skip = (await chainMissing()) ?? false;

test('16 SIGKILLs of a daemon that is starting, on SQLite, lose nothing and repeat nothing', { skip }, async (t) =>
  killAgainAndAgain(t, { while: 'starting', kills: 16 }),
);
