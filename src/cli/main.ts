#!/usr/bin/env node
import { processIo } from './io.ts';
import { runCli } from './run.ts';

// A finished command ends the process, even if a plugin left something open.
process.exit(await runCli(process.argv.slice(2), processIo()));
