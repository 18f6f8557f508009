import { decode32 } from '../../../src/lib/base58.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { DeclaredTree } from '../config.ts';
import type { NewTree } from './tree-update.ts';

/** Levels below the root by type of tree. */
const TREE_HEIGHT = {
  [TREE_TYPE.stateV1]: 26,
  [TREE_TYPE.addressV1]: 26,
  [TREE_TYPE.stateV2]: 32,
  [TREE_TYPE.addressV2]: 40,
} as const;

/** The trees that every client of the Light programs knows: type, tree, queue. */
const WELL_KNOWN: readonly (readonly [keyof typeof TREE_HEIGHT, string, string])[] = [
  [1, 'smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT', 'nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148'],
  [1, 'smt2rJAFdyJJupwMKAqTNAJwvjhmiZ4JYGZmbVRw1Ho', 'nfq2hgS7NYemXsFaFUCe3EMXSDSfnZnAe27jC6aPP1X'],
  [2, 'amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2', 'aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F'],
  [3, 'bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU', 'oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto'],
  [3, 'bmt2UxoBxB9xWev4BkLvkGdapsz6sZGkzViPNph7VFi', 'oq2UkeMsJLfXt2QHzim242SUi3nvjJs8Pn7Eac9H9vg'],
  [3, 'bmt3ccLd4bqSVZVeCJnH1F6C8jNygAhaDfxDwePyyGb', 'oq3AxjekBWgo64gpauB6QtuZNesuv19xrhaC1ZM1THQ'],
  [3, 'bmt4d3p1a4YQgk9PeZv5s4DBUmbF5NxqYpk9HGjQsd8', 'oq4ypwvVGzCUMoiKKHWh4S1SgZJ9vCvKpcz6RT6A8dq'],
  [3, 'bmt5yU97jC88YXTuSukYHa8Z5Bi2ZDUtmzfkDTA2mG2', 'oq5oh5ZR3yGomuQgFduNDzjtGvVWfDRGLuDVjv9a96P'],
  [4, 'amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx', 'amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx'],
];

const key = (text: string): Uint8Array => {
  const bytes = decode32(text);
  if (bytes === null) throw new TypeError(`${text} is no key`);
  return bytes;
};

/** Trees that are there from the start, whatever the chain says: the well-known ones and those that the configuration declares. */
export function knownTrees(declared: readonly DeclaredTree[]): readonly NewTree[] {
  const wellKnown = WELL_KNOWN.map(([type, tree, queue]) => ({
    ...{ key: key(tree), type, queue: key(queue), height: TREE_HEIGHT[type] },
    ...{ rootCapacity: null, nextTree: null },
  }));
  const own = declared.map(({ tree, queue, type, height, rootHistoryCapacity }) => ({
    ...{ key: key(tree), type, height, rootCapacity: rootHistoryCapacity, nextTree: null },
    queue: queue === null ? (type === TREE_TYPE.addressV2 ? key(tree) : null) : key(queue),
  }));
  const redeclared = new Set(declared.map(({ tree }) => tree));
  return [...wellKnown.filter((_, i) => !redeclared.has(WELL_KNOWN[i]?.[1] ?? '')), ...own];
}
