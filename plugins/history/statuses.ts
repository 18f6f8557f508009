import { stringify } from '../../src/lib/json.ts';
import type { BankLevel } from '../../src/ports/chain.ts';
import { ceilingOf, type Heads } from '../../src/ports/ledger.ts';
import { commitmentOf, configOf, type HeldHistory, heldTransaction, includes, isSlot } from './held.ts';

const LEVELS: readonly unknown[] = ['processed', 'confirmed', 'finalized'];

/** How far a transaction has got; -1 for null. */
export const rankOf = (status: unknown): number =>
  status === null ? -1 : LEVELS.indexOf((status as { readonly confirmationStatus?: unknown }).confirmationStatus);

export interface Statuses {
  readonly context: { readonly slot: number };
  readonly value: readonly unknown[];
}

export function isStatuses(value: unknown): value is Statuses {
  const { context, value: list } = (value ?? {}) as { readonly context?: { slot?: unknown }; readonly value?: unknown };
  return isSlot(context?.slot) && Array.isArray(list);
}

const MAX_STATUSES = 256;
const STATUS_MEMBERS = ['searchTransactionHistory', 'commitment', 'minContextSlot'];
/** Blocks whose transactions a node knows without its history (Agave 4.4.0, MAX_RECENT_BLOCKHASHES). */
const RECENT_BLOCKS = 300;

interface HeldStatuses {
  readonly bank: BankLevel;
  /** The newest held slot of that bank. */
  readonly slot: number;
  readonly value: readonly unknown[];
  readonly areFinal: boolean;
}

/** A named commitment chooses the bank that is looked into; by default it is the newest one. */
export function bankLevelOf(given: unknown): BankLevel {
  const config = configOf(given, STATUS_MEMBERS);
  return config?.['commitment'] == null ? 'processed' : commitmentOf(config);
}

/** Statuses of what is held, null for the rest; null for a question of another form. */
export async function statusesOf(held: HeldHistory, [list, given]: readonly unknown[]): Promise<HeldStatuses | null> {
  const config = configOf(given, STATUS_MEMBERS);
  if (config === undefined || !(await includes(held, config['minContextSlot'], commitmentOf(config)))) return null;
  if (!Array.isArray(list) || list.length < 1 || list.length > MAX_STATUSES) return null;
  const bank = bankLevelOf(given);
  const kept = await held.past.heads();
  const found = await Promise.all(list.map((signature) => heldTransaction(held, signature, 'confirmed')));
  // An upstream is asked what is final only where the ledger does not know it.
  const isOpen = found.some((one) => one !== null && one.slot > kept.finalSlot);
  const heads = isOpen ? await held.joined.heads(held.tenant) : kept;
  const newest = (await held.past.header(heads.newestSlot))?.blockHeight ?? null;
  const value = found.map((one) => {
    const height = one?.header.blockHeight ?? null;
    const depth = newest === null || height === null ? null : newest - height;
    const isKnown = config['searchTransactionHistory'] === true || (depth !== null && depth < RECENT_BLOCKS);
    const isThere = one !== null && (bank !== 'finalized' || one.slot <= heads.finalSlot);
    return isThere && isKnown ? statusOf(one, heads, depth) : null;
  });
  const areFinal = found.every((one, at) => one !== null && value[at] !== null && one.slot <= heads.finalSlot);
  return { bank, slot: bank === 'processed' ? heads.newestSlot : ceilingOf(heads, bank), value, areFinal };
}

const statusesText = async ({ context }: HeldHistory, { bank, slot, value }: HeldStatuses): Promise<string> =>
  stringify({ context: { slot: await context.slot(bank, slot) }, value });

/** Where all of them are held: what a node does not find needs a node to say so. */
export async function getStatusesAlone(held: HeldHistory, params: readonly unknown[]): Promise<string | null> {
  const ours = await statusesOf(held, params);
  if (ours === null || ours.value.includes(null)) return null;
  return await statusesText(held, ours);
}

function statusOf(
  { slot, text }: { readonly slot: number; readonly text: Buffer },
  { finalSlot }: Heads,
  depth: number | null,
): unknown {
  const { meta } = JSON.parse(text.toString('utf8')) as { readonly meta: { readonly err: unknown } | null };
  if (meta === null) return null;
  const { err } = meta;
  const isFinal = slot <= finalSlot;
  return {
    confirmationStatus: isFinal ? 'finalized' : 'confirmed',
    confirmations: isFinal ? null : (depth ?? 0),
    err,
    slot,
    status: err === null ? { Ok: null } : { Err: err },
  };
}

/** Answers only calls that search the whole history, and only when all transactions are final here: "not found" is for a node to say. */
export async function getSignatureStatuses(held: HeldHistory, params: readonly unknown[]): Promise<string | null> {
  const config = configOf(params[1], STATUS_MEMBERS);
  if (config?.['searchTransactionHistory'] !== true) return null;
  const found = await statusesOf(held, params);
  if (found === null || !found.areFinal) return null;
  return await statusesText(held, found);
}
