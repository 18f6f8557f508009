import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { postgresDatabase } from '../../helpers/store.ts';
import { runProcesses } from './processes.ts';

const skip = (await chainMissing()) ?? false;

test('a process per role on one PostgreSQL database', { skip }, async (t) =>
  runProcesses(t, (await postgresDatabase(t)).url),
);
