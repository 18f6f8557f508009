import { decode } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import type { Tenant } from '../../src/ports/access.ts';
import type { BankLevel, Commitment } from '../../src/ports/chain.ts';
import type { JoinedHistory, PastReader } from '../../src/ports/ledger.ts';

/** What standard methods are answered from, and how their configurations are read. */
export type Members = Readonly<Record<string, unknown>>;

export interface HeldHistory {
  readonly past: PastReader;
  readonly joined: JoinedHistory;
  readonly context: StatusContext;
  readonly tenant: Tenant;
}

export const isSlot = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** A configuration of known members, or absent; undefined: an upstream has to read it. */
export function configOf(value: unknown, names: readonly string[]): Members | undefined {
  if (value === undefined || value === null) return {};
  if (!isPlainObject(value) || Object.keys(value).some((name) => !names.includes(name))) return undefined;
  const { commitment } = value;
  return commitment == null || commitment === 'confirmed' || commitment === 'finalized' ? value : undefined;
}

/** Like a node: everything but `confirmed` is read as finalized. */
export const commitmentOf = ({ commitment }: Members): Commitment =>
  commitment === 'confirmed' ? 'confirmed' : 'finalized';

/** The newest held slot of a commitment. What is final in the ledger needs no upstream to say so. */
export async function reaches(
  { past, joined, tenant }: HeldHistory,
  slot: number,
  commitment: Commitment,
): Promise<boolean> {
  const { finalSlot, newestSlot } = await past.heads();
  if (slot <= finalSlot) return true;
  if (slot > newestSlot) return false;
  return commitment === 'confirmed' || slot <= (await joined.heads(tenant)).finalSlot;
}

/** Whether what is held has reached `minContextSlot`; a node judges and refuses anything else. */
export async function includes(held: HeldHistory, minContextSlot: unknown, commitment: Commitment): Promise<boolean> {
  return minContextSlot == null || (isSlot(minContextSlot) && (await reaches(held, minContextSlot, commitment)));
}

/** A transaction in a held block; null when it is not known as that. */
export async function heldTransaction(held: HeldHistory, signature: unknown, commitment: Commitment) {
  const bytes = typeof signature === 'string' && signature.length <= 88 ? decode(signature) : null;
  if (bytes === null || bytes.length !== 64) return null;
  const place = await held.past.find(bytes);
  if (place === null || !(await reaches(held, place.slot, commitment))) return null;
  const found = await held.past.transaction(place);
  // A fork may have put another block in its place.
  return found?.signature === signature ? found : null;
}

/** The slot that statuses are of, whoever answers them: that of the node, by bank, which never goes back. */
export interface StatusContext {
  /** A node has told this one. */
  saw(bank: BankLevel, slot: number): void;
  /** `held`: the newest held slot, for as long as no upstream answers. */
  slot(bank: BankLevel, held: number): Promise<number>;
}

export function createStatusContext(joined: JoinedHistory): StatusContext {
  const newest = new Map<BankLevel, number>();
  const saw = (bank: BankLevel, slot: number) => void newest.set(bank, Math.max(slot, newest.get(bank) ?? -1));
  return {
    saw,
    async slot(bank, held) {
      saw(bank, Math.max(held, (await joined.tip(bank)) ?? -1));
      return newest.get(bank)!;
    },
  };
}
