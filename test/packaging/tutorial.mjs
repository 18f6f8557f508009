/**
 * Inside a root of its own, as root: follows the tutorial of the first webhook by its lines alone, from the installation of the package to a
 * delivery. `tutorial.mjs FOLDER PAGE`, the folder being the one with the package; deb.long.test.ts makes the root.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

// It is copied beside this file.
const { runTutorial } = await import(new URL('./run-tutorial.mjs', import.meta.url).href);

const MAX_MS = 120_000;
const [folder, page] = process.argv.slice(2);
const started = performance.now();
const seconds = () => `${((performance.now() - started) / 1_000).toFixed(1)} s`;

let installed = '';
const { running, stop } = await runTutorial({
  markdown: readFileSync(page, 'utf8'),
  folder,
  env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', DEBIAN_FRONTEND: 'noninteractive' },
  runs: ({ text }) => text.startsWith('apt install'),
  done: ({ text }, printed) => {
    if (!text.startsWith('apt install')) return;
    installed = seconds();
    console.log(printed);
  },
});
try {
  const receiver = running.find(({ command }) => command.includes('webhooks listen'));
  const delivered = /attempt 1, \d+ bytes, signature good, answered 200/;
  const end = Date.now() + MAX_MS;
  while (!delivered.test(receiver.output())) {
    assert.ok(Date.now() < end, receiver.output());
    await sleep(50);
  }
  console.log(`tutorial: installed after ${installed}, delivered after ${seconds()}`);
} finally {
  await stop();
}
