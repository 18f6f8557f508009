/** Loads the modules that `serve` loads of the built program, then waits for a byte on standard input before anything of it runs. */
import { readdirSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

// Threads inherit the flag that names this file.
if (isMainThread) {
  const dist = new URL('../../dist/', import.meta.url);
  for (const piece of readdirSync(new URL('pieces', dist))) {
    if (/^(serve|fronts|sqlite|prom-client)-\w+\.js$/.test(piece)) await import(new URL(`pieces/${piece}`, dist).href);
  }
  for (const plugin of readdirSync(new URL('plugins', dist))) {
    await import(new URL(`plugins/${plugin}/index.js`, dist).href);
  }
  await import(Number.parseInt(process.versions.node, 10) >= 22 ? 'better-sqlite3-13' : 'better-sqlite3');
  process.stdout.write('warm\n');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  process.stdin.destroy();
}
