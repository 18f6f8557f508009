import { encode32 } from '../../../src/lib/base58.ts';
import { LayoutError } from '../../../src/lib/bytes.ts';
import type { AccountHasher } from '../../../src/solana/compression/accounts.ts';
import {
  type CompressionEvent,
  type CreatedOutput,
  type IndexedEvent,
  TREE_TYPE,
  type TransactionEvent,
} from '../../../src/solana/compression/events.ts';
import type { TreeRow } from '../store/tables.ts';
import { isAddressTree, isStateTree } from '../trees/hashing.ts';
import type { DecodedBlock, DecodedTransaction } from './decode-block.ts';

export interface PlannedOutput {
  readonly output: CreatedOutput;
  readonly tree: TreeRow;
  /** V1 only. */
  readonly seq: number | null;
  readonly signature: Uint8Array;
}

export interface PlannedSpend {
  readonly hash: Uint8Array;
  readonly signature: Uint8Array;
  /** Position of the queued nullifier; null for V1. */
  readonly queued: {
    readonly nullifier: Uint8Array;
    /** Null when unknown. */
    readonly nullifierIndex: number | null;
    readonly txHash: Uint8Array;
  } | null;
}

/** One update of a tree. Sequence numbers have no gaps; `slot` is that of the block. */
export type TreeUpdate = LeafUpdate | NullifyUpdate | IndexedUpdate | BatchUpdate;

interface Step {
  readonly seq: number;
  readonly slot: number;
}

/** V1: a leaf is appended. */
interface LeafUpdate extends Step {
  readonly kind: 'leaf';
  readonly index: number;
  readonly hash: Uint8Array;
}

/** V1: a leaf becomes zero. */
interface NullifyUpdate extends Step {
  readonly kind: 'nullify';
  readonly index: number;
}

/** V1: a leaf of an address tree is set. */
export interface IndexedUpdate extends Step {
  readonly kind: 'indexed';
  readonly index: number;
  readonly hash: Uint8Array;
  readonly value: Uint8Array;
  readonly nextIndex: number;
  readonly nextValue: Uint8Array;
}

/** V2: the part `[oldNextIndex, newNextIndex)` of a queue goes into the tree. */
export interface BatchUpdate extends Step {
  readonly kind: 'append' | 'batchNullify' | 'addressAppend';
  readonly oldNextIndex: number;
  readonly newNextIndex: number;
  readonly newRoot: Uint8Array;
}

/** Changes of a block, validated as far as possible without rows. */
export interface Plan {
  readonly slot: number;
  readonly outputs: PlannedOutput[];
  readonly spends: PlannedSpend[];
  readonly addresses: { readonly tree: TreeRow; readonly queueIndex: number; readonly address: Uint8Array }[];
  /** By id of the tree. */
  readonly updates: Map<number, TreeUpdate[]>;
  /** Trees that can no longer be trusted, and why. */
  readonly suspects: Map<number, string>;
  readonly faults: { readonly signature: Uint8Array; readonly reason: string }[];
}

export interface PlanParts {
  readonly hasher: AccountHasher;
  /** The tree with this key or queue; null for a foreign one. */
  readonly find: (key: Uint8Array) => TreeRow | null;
}

/** Maximum number of leaves per batch. */
const MAX_PER_BATCH = 2 ** 16;

/**
 * Plans the events in order. An invalid event is skipped as a whole, and its trees become suspects.
 */
export function planBlock({ slot, transactions }: DecodedBlock, parts: PlanParts): Plan {
  const plan: Plan = {
    slot,
    outputs: [],
    spends: [],
    addresses: [],
    updates: new Map(),
    suspects: new Map(),
    faults: [],
  };
  for (const transaction of transactions) {
    for (const { reason, trees } of transaction.faults) suspect(plan, parts, transaction, trees, reason);
    for (const event of transaction.events) {
      try {
        mergePlan(plan, planEvent(event, slot, transaction.signature, parts));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        suspect(plan, parts, transaction, keysOfEvent(event), reason);
      }
    }
  }
  return plan;
}

function suspect(
  { suspects, faults }: Plan,
  { find }: PlanParts,
  { signature }: DecodedTransaction,
  keys: readonly Uint8Array[],
  reason: string,
): void {
  faults.push({ signature, reason });
  for (const key of keys) {
    const tree = find(key);
    if (tree !== null) suspects.set(tree.id, 'decode');
  }
}

type EventPlan = Pick<Plan, 'outputs' | 'spends' | 'addresses' | 'suspects'> & {
  readonly updates: { readonly tree: number; readonly update: TreeUpdate }[];
};

function mergePlan(plan: Plan, event: EventPlan): void {
  plan.outputs.push(...event.outputs);
  plan.spends.push(...event.spends);
  plan.addresses.push(...event.addresses);
  for (const [tree, reason] of event.suspects) plan.suspects.set(tree, reason);
  for (const { tree, update } of event.updates) {
    const known = plan.updates.get(tree);
    if (known === undefined) plan.updates.set(tree, [update]);
    else known.push(update);
  }
}

function planEvent(event: CompressionEvent, slot: number, signature: Uint8Array, parts: PlanParts): EventPlan {
  const plan: EventPlan = { outputs: [], spends: [], addresses: [], suspects: new Map(), updates: [] };
  if (event.kind === 'transaction') planTransaction(plan, event, slot, signature, parts);
  else {
    const tree = parts.find(event.tree);
    if (tree === null) return plan;
    const updates = updatesOf(event, slot, tree);
    plan.updates.push(...updates.map((update) => ({ tree: tree.id, update })));
  }
  return plan;
}

function updatesOf(event: Exclude<CompressionEvent, TransactionEvent>, slot: number, tree: TreeRow): TreeUpdate[] {
  const first = numberOf(event.seq);
  if (event.kind === 'nullify') {
    expect(tree.type === TREE_TYPE.stateV1, tree, 'is no V1 state tree');
    return event.leafIndexes.map((index, i) => {
      checkIndex(index, tree);
      return { kind: 'nullify', seq: first + i, slot, index };
    });
  }
  if (event.kind === 'indexed') {
    expect(tree.type === TREE_TYPE.addressV1, tree, 'is no V1 address tree');
    return indexedUpdates(event, first, slot, tree);
  }
  const wanted = event.kind === 'addressAppend' ? TREE_TYPE.addressV2 : TREE_TYPE.stateV2;
  expect(tree.type === wanted, tree, `is no tree for ${event.kind}`);
  const { kind, oldNextIndex, newNextIndex, newRoot } = event;
  const count = newNextIndex - oldNextIndex;
  expect(count > 0 && count <= MAX_PER_BATCH, tree, `cannot take a batch of ${count}`);
  if (kind !== 'batchNullify') checkIndex(newNextIndex - 1, tree);
  if (kind === 'addressAppend') expect(oldNextIndex > 0, tree, 'has a first leaf that no batch appends');
  return [{ kind, seq: first, slot, oldNextIndex, newNextIndex, newRoot }];
}

/** The low leaf has the sequence number of its pair, the new leaf the next one. */
function indexedUpdates({ updates }: IndexedEvent, first: number, slot: number, tree: TreeRow): TreeUpdate[] {
  return updates
    .flatMap(({ low, lowHash, high, highHash }) => [
      { leaf: low, hash: lowHash },
      { leaf: high, hash: highHash },
    ])
    .map(({ leaf, hash }, i) => {
      checkIndex(leaf.index, tree);
      return { kind: 'indexed', seq: first + i, slot, hash, ...leaf };
    });
}

function planTransaction(
  plan: EventPlan,
  event: TransactionEvent,
  slot: number,
  signature: Uint8Array,
  { hasher, find }: PlanParts,
): void {
  for (const output of event.outputs) {
    const tree = (output.tree === null ? null : find(output.tree)) ?? find(output.treeOrQueue);
    if (tree === null) continue;
    expect(isStateTree(tree.type), tree, 'is no state tree');
    checkIndex(output.leafIndex, tree);
    const seq = tree.type === TREE_TYPE.stateV1 && output.seq !== null ? numberOf(output.seq) : null;
    if (tree.type === TREE_TYPE.stateV1) {
      expect(seq !== null, tree, 'gets a leaf without a sequence number');
      const update = { kind: 'leaf', seq: seq ?? 0, slot, index: output.leafIndex, hash: output.hash } as const;
      plan.updates.push({ tree: tree.id, update });
    }
    plan.outputs.push({ output, tree, seq, signature });
  }
  for (const { hash, queued } of event.inputs) {
    const nullifier = queued === null ? null : hasher.nullifier(hash, queued.leafIndex, event.txHash);
    const nullifierIndex = queued?.queueIndex == null ? null : numberOf(queued.queueIndex);
    plan.spends.push({
      hash,
      signature,
      queued: nullifier === null ? null : { nullifier, nullifierIndex, txHash: event.txHash },
    });
  }
  for (const { address, tree: key, queueIndex } of event.newAddresses) {
    const tree = queueIndex === null ? null : find(key);
    if (tree === null || queueIndex === null) continue;
    expect(isAddressTree(tree.type), tree, 'is no address tree');
    plan.addresses.push({ tree, queueIndex: numberOf(queueIndex), address });
  }
  for (const key of event.missesQueueIndexes) {
    const tree = find(key);
    if (tree !== null) plan.suspects.set(tree.id, 'cpi-context');
  }
}

/** Every key that an event names as a tree or a queue. */
export function keysOfEvent(event: CompressionEvent): Uint8Array[] {
  if (event.kind !== 'transaction') return [event.tree];
  return [
    ...event.outputs.map(({ tree, treeOrQueue }) => tree ?? treeOrQueue),
    ...event.newAddresses.flatMap(({ tree, queueIndex }) => (queueIndex === null ? [] : [tree])),
    ...event.inputs.flatMap(({ queued }) => (queued === null ? [] : [queued.tree])),
    ...event.missesQueueIndexes,
  ];
}

function numberOf(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new LayoutError(`${value} counts nothing`);
  return Number(value);
}

function checkIndex(index: number, tree: TreeRow): void {
  expect(Number.isSafeInteger(index) && index >= 0 && index < 2 ** tree.height, tree, `has no leaf ${index}`);
}

function expect(condition: boolean, { key }: TreeRow, otherwise: string): void {
  if (!condition) throw new LayoutError(`tree ${encode32(key)} ${otherwise}`);
}

/** A row of `compression_pending`. */
export interface PendingRow {
  tree: number;
  seq: number;
  kind: string;
  slot: number;
  body: string;
}

const BYTES = new Set(['hash', 'value', 'nextValue', 'newRoot']);

export function pendingRow(tree: number, { seq, slot, kind, ...rest }: TreeUpdate): PendingRow {
  const body = Object.fromEntries(
    Object.entries(rest).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value,
    ]),
  );
  return { tree, seq, kind, slot, body: JSON.stringify(body) };
}

export function updateOf({ seq, kind, slot, body }: PendingRow): TreeUpdate {
  const fields = Object.entries(JSON.parse(body) as Record<string, unknown>).map(([name, value]) => [
    name,
    BYTES.has(name) ? new Uint8Array(Buffer.from(value as string, 'base64')) : value,
  ]);
  return { ...Object.fromEntries(fields), seq, slot, kind } as TreeUpdate;
}
