/** Loads the modules of the built daemon, then waits for a byte on standard input before anything of it runs. */
import { isMainThread } from 'node:worker_threads';

// Threads inherit the flag that names this file.
if (isMainThread) {
  const { loadCliConfig } = await import('../../dist/src/cli/load-config.js');
  await import('../../dist/src/cli/commands/serve.js');
  await import('better-sqlite3');
  await import('pg');
  const io = { env: {}, cwd: process.cwd(), out() {}, err() {}, isTerminal: false, program: 'parhelion' };
  await loadCliConfig({}, io).catch(() => undefined);
  process.stdout.write('warm\n');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  process.stdin.destroy();
}
