import type { Tables } from '../store/tables.ts';

/** One change of a concurrent tree. Steps of a tree count up without holes, from 1. */
export interface LeafStep {
  readonly seq: number;
  readonly slot: number;
  readonly leafIndex: number;
  /** 32 bytes, as all others. */
  readonly leaf: Uint8Array;
  /** Root of the tree after it. */
  readonly root: Uint8Array;
  /** The asset that the leaf claims to be. */
  readonly asset: { readonly id: Uint8Array; readonly nonce: bigint } | null;
}

type PendingRow = Tables['compression_pending'];

/** What waits of such a tree has this kind. */
export const STEP_KIND = 'concurrent';

export function pendingStep(tree: number, { seq, slot, leafIndex, leaf, root, asset }: LeafStep): PendingRow {
  const body = {
    leafIndex,
    leaf: base64(leaf),
    root: base64(root),
    ...(asset === null ? {} : { asset: base64(asset.id), nonce: String(asset.nonce) }),
  };
  return { tree, seq, kind: STEP_KIND, slot, body: JSON.stringify(body) };
}

export function stepOf({ seq, slot, body }: PendingRow): LeafStep {
  const { leafIndex, leaf, root, asset, nonce } = JSON.parse(body) as {
    readonly leafIndex: number;
    readonly leaf: string;
    readonly root: string;
    readonly asset?: string;
    readonly nonce?: string;
  };
  return {
    ...{ seq, slot, leafIndex, leaf: bytes(leaf), root: bytes(root) },
    asset: asset === undefined || nonce === undefined ? null : { id: bytes(asset), nonce: BigInt(nonce) },
  };
}

const base64 = (value: Uint8Array): string => Buffer.from(value).toString('base64');
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));
