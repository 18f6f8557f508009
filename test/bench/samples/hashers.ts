import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import type { BenchModule } from '../sibling.ts';

export const HASHES_PER_ROUND = 256;

/** Numbers below the prime, 32 bytes each. */
export function inputsFor(inputs: number, random: Sfc32): Buffer {
  const bytes = Buffer.alloc(32 * inputs * HASHES_PER_ROUND);
  random.fill(bytes);
  for (let at = 0; at < bytes.length; at += 32) bytes[at] = (bytes[at] as number) & 0x1f;
  return bytes;
}

export interface Hashers {
  /** Hashes per second of so many threads together. */
  rate(threads: number, ms: number): Promise<number>;
  stop(): Promise<void>;
}

export async function startHashers({ path, execArgv }: BenchModule, count: number, seed: number): Promise<Hashers> {
  const workers = Array.from({ length: count }, () => new Worker(path, { execArgv: [...execArgv], workerData: seed }));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  return {
    async rate(threads, ms) {
      const rates = workers.slice(0, threads).map(async (worker) => {
        worker.postMessage(ms);
        const [rate] = (await once(worker, 'message')) as [number];
        return rate;
      });
      return (await Promise.all(rates)).reduce((sum, rate) => sum + rate, 0);
    },
    async stop() {
      await Promise.all(workers.map((worker) => worker.terminate()));
    },
  };
}
