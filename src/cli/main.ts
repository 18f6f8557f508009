#!/usr/bin/env node
import { processIo } from './io.ts';
import { runCli } from './run.ts';

// A finished command ends the process: whatever a plugin forgot to close must not keep it.
process.exit(await runCli(process.argv.slice(2), processIo()));
