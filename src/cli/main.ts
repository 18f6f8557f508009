#!/usr/bin/env node
import { processIo } from './command.ts';
import { runCli } from './run.ts';

// The timers of the clock do not keep a process alive: without this one Node would end a command that only waits, with 13.
setInterval(() => undefined, 0x7fffffff);
// A finished command ends the process, even if a plugin left something open.
process.exit(await runCli(process.argv.slice(2), processIo()));
