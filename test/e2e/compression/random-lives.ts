import type { Landed, Operation } from '../../helpers/light/sender.ts';
import { type LightBed, proveLeaf, v1LeavesOf } from './harness.ts';

/** Kinds of what was done, and how often. */
export type Tally = Record<string, number>;

export interface Life {
  readonly operations: number;
  /** Everything is compared after so many, and at the end. */
  readonly compareEvery: number;
  readonly operation: Operation;
  compare(): Promise<number>;
}

/** Random operations one after another; after each the newest leaf of each V1 tree is proved against the tree's account. */
export async function live(bed: LightBed, { operations, compareEvery, operation, compare }: Life) {
  const tally: Tally = {};
  const landed: Landed[] = [];
  const newest = new Map<string, string>();
  let compared = 0;
  for (let done = 1; done <= operations; done += 1) {
    for (const one of await operation()) {
      landed.push(one);
      tally[one.kind] = (tally[one.kind] ?? 0) + 1;
      await bed.caughtUp();
      if (one.failed) continue;
      for (const { hash, tree } of await v1LeavesOf(bed, one.signature)) newest.set(tree, hash);
    }
    for (const hash of newest.values()) await proveLeaf(bed, hash);
    if (done % compareEvery === 0 || done === operations) compared = await compare();
  }
  return { tally, landed, accounts: compared };
}
