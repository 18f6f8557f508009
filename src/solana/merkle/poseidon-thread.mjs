/** Hashes (1, 2) with kernels that were compiled in the thread that started this one. */
import { parentPort, workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
const { createPoseidon } = await import('./poseidon.ts');
const poseidon = createPoseidon(workerData);
const src = Buffer.alloc(64);
src[31] = 1;
src[63] = 2;
const dst = Buffer.alloc(32);
poseidon.hash(2, src, 0, dst, 0, 1);
parentPort.postMessage(dst.toString('hex'));
