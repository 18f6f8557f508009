import { Worker } from 'node:worker_threads';

/** Starts a TypeScript module as a thread; the loader of this process does not reach into threads. */
export function startTsThread(url: URL, workerData: unknown): Worker {
  const loader = JSON.stringify(import.meta.resolve('tsx/esm/api'));
  const boot = `import(${loader}).then(({ register }) => { register(); return import(${JSON.stringify(url.href)}); })`;
  return new Worker(boot, { eval: true, workerData });
}
