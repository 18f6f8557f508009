/** A thread that hashes pairs for as long as it is told to, and answers how many it made a second. */
import { parentPort, workerData } from 'node:worker_threads';
import { createPoseidon } from '../../../src/solana/merkle/poseidon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { HASHES_PER_ROUND, inputsFor } from './hashers.ts';

const poseidon = createPoseidon();
const src = inputsFor(2, createSfc32(workerData as number));
const dst = Buffer.alloc(32 * HASHES_PER_ROUND);
const round = () => poseidon.hash(2, src, 0, dst, 0, HASHES_PER_ROUND);
for (let i = 0; i < 20; i += 1) round();
parentPort?.on('message', (ms: number) => {
  const start = performance.now();
  let hashes = 0;
  while (performance.now() - start < ms) {
    round();
    hashes += HASHES_PER_ROUND;
  }
  parentPort?.postMessage((hashes / (performance.now() - start)) * 1000);
});
parentPort?.postMessage('ready');
