import { decode32 } from '../../../src/lib/base58.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';

/** What has to be known of a tree before anything can be put into it. Keys are 32 bytes. */
export interface KnownTree {
  readonly key: Uint8Array;
  /** `TREE_TYPE`. */
  readonly type: number;
  /** The tree itself where it is its own queue. */
  readonly queue: Uint8Array | null;
  readonly height: number;
  /** Null until the account was read: deployments differ. */
  readonly rootCapacity: number | null;
  readonly nextTree: Uint8Array | null;
}

const STATE_V1 = { type: TREE_TYPE.stateV1, height: 26 } as const;
const ADDRESS_V1 = { type: TREE_TYPE.addressV1, height: 26 } as const;
const STATE_V2 = { type: TREE_TYPE.stateV2, height: 32 } as const;
const ADDRESS_V2 = { type: TREE_TYPE.addressV2, height: 40 } as const;

/** The trees that every cluster and every client knows. */
const TREES = [
  ['smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT', 'nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148', STATE_V1],
  ['smt2rJAFdyJJupwMKAqTNAJwvjhmiZ4JYGZmbVRw1Ho', 'nfq2hgS7NYemXsFaFUCe3EMXSDSfnZnAe27jC6aPP1X', STATE_V1],
  ['amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2', 'aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F', ADDRESS_V1],
  ['bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU', 'oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto', STATE_V2],
  ['bmt2UxoBxB9xWev4BkLvkGdapsz6sZGkzViPNph7VFi', 'oq2UkeMsJLfXt2QHzim242SUi3nvjJs8Pn7Eac9H9vg', STATE_V2],
  ['bmt3ccLd4bqSVZVeCJnH1F6C8jNygAhaDfxDwePyyGb', 'oq3AxjekBWgo64gpauB6QtuZNesuv19xrhaC1ZM1THQ', STATE_V2],
  ['bmt4d3p1a4YQgk9PeZv5s4DBUmbF5NxqYpk9HGjQsd8', 'oq4ypwvVGzCUMoiKKHWh4S1SgZJ9vCvKpcz6RT6A8dq', STATE_V2],
  ['bmt5yU97jC88YXTuSukYHa8Z5Bi2ZDUtmzfkDTA2mG2', 'oq5oh5ZR3yGomuQgFduNDzjtGvVWfDRGLuDVjv9a96P', STATE_V2],
  ['amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx', 'amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx', ADDRESS_V2],
] as const;

/** Made anew at each call, because nothing is worked out while modules are loaded. */
export function defaultTrees(): KnownTree[] {
  return TREES.map(([key, queue, kind]) => ({
    ...{ key: decode32(key)!, queue: decode32(queue)! },
    ...{ ...kind, rootCapacity: null, nextTree: null },
  }));
}
