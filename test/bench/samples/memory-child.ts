/** Prints how many bytes one structure of watched addresses keeps. Run with --expose-gc, one structure per process. */
import { encode32 } from '../../../src/lib/base58.ts';
import { indexOf, keyOf, watchedAddresses } from './watched.ts';

const [candidate, count, seed] = process.argv.slice(2);

function usedBytes(): number {
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  // `external` contains the array buffers.
  return heapUsed + external;
}

const watched = watchedAddresses(Number(seed), Number(count));
// Warms what is made on first use, so that it does not count.
indexOf(watchedAddresses(1, 10), 1);
encode32(keyOf(watched, 0));
const before = usedBytes();
const structure = candidate === 'index' ? indexOf(watched, Number(seed) + 1) : mapOfLists();
const after = usedBytes();

function mapOfLists(): Map<string, number[]> {
  const map = new Map<string, number[]>();
  for (let at = 0; at < watched.count; at++) map.set(encode32(keyOf(watched, at)), [...watched.owners[at]!]);
  return map;
}

// Both are still in use here, so that nothing was collected in between.
if (structure.size !== watched.owners.length)
  throw new Error(`${structure.size} of ${watched.owners.length} addresses`);
process.stdout.write(String(after - before));
