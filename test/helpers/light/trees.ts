import { localTestActiveStateTreeInfos, type TreeInfo, TreeType } from '@lightprotocol/stateless.js';

/** Output queues of the local deployment hold two batches of 50, and nobody empties them: no forester runs. */
const QUEUE_ROOM = 100;

/** State trees of the local chain, as the client library lists them, with what room is left in the queues. */
export interface StateTrees {
  readonly v1: readonly TreeInfo[];
  readonly v2: readonly TreeInfo[];
  /** V2 trees whose queue still takes so many outputs. */
  withRoom(outputs: number): TreeInfo[];
  /** False only for a V2 tree whose queue is as good as full. */
  hasRoom(tree: TreeInfo, outputs: number): boolean;
  /** Counts outputs that go into the queue of a tree. */
  take(tree: TreeInfo, outputs: number): void;
}

export function createStateTrees(): StateTrees {
  const all = localTestActiveStateTreeInfos();
  const v2 = all.filter(({ treeType }) => treeType === TreeType.StateV2);
  const room = new Map(v2.map(({ tree }) => [tree.toBase58(), QUEUE_ROOM]));
  const left = ({ tree }: TreeInfo) => room.get(tree.toBase58()) ?? Number.POSITIVE_INFINITY;
  return {
    v1: all.filter(({ treeType }) => treeType === TreeType.StateV1),
    v2,
    withRoom: (outputs) => v2.filter((info) => left(info) >= outputs),
    hasRoom: (info, outputs) => left(info) >= outputs,
    take: (info, outputs) => void room.set(info.tree.toBase58(), left(info) - outputs),
  };
}
