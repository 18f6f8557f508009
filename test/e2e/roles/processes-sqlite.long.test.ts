import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { runProcesses } from './processes.ts';

const skip = (await chainMissing()) ?? false;

test('a process per role on one SQLite file', { skip }, (t) => runProcesses(t));
