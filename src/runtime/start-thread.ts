import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

/**
 * Starts a thread that runs a module. The TypeScript loader of a source tree does not reach into threads, so there a first line of JavaScript
 * loads it before the entry.
 */
export function startThread(entry: URL, workerData: unknown): Worker {
  if (extname(fileURLToPath(entry)) !== '.ts') return new Worker(entry, { workerData });
  const loader = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  const module = JSON.stringify(entry.href);
  const boot = `import(${loader}).then(({ register }) => { register(); return import(${module}); })`;
  return new Worker(boot, { eval: true, workerData });
}
