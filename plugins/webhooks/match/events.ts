import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { TransactionMatch } from '../../../src/solana/match-block.ts';
import type { BlockBodies, BodyBuilder } from '../bodies/builder.ts';
import { type BodyForm, formOf } from '../bodies/form.ts';
import { chainOf, takesEvents, type Webhook, wantsOutcome, wantsType } from '../model/webhook.ts';
import type { HookIndex } from './hook-index.ts';

/** A transaction in one form, with the webhooks that want it so. */
export interface MatchedEvent {
  readonly signature: string;
  /** Position in the block. */
  readonly index: number;
  readonly form: BodyForm;
  readonly hooks: readonly Webhook[];
  /** The element of the request body. */
  readonly json: string;
}

export function matchedEvents(
  block: ChainBlock,
  chain: ChainId,
  index: HookIndex,
  found: readonly TransactionMatch[],
  builder: BodyBuilder,
): readonly MatchedEvent[] {
  const events: MatchedEvent[] = [];
  const bodies = builder.ofBlock(block, chain);
  for (const match of found) {
    const transaction = block.transactions[match.index];
    if (transaction === undefined) continue;
    const hooks = hooksOf(index, chain, match, transaction, bodies);
    const { signature } = transaction;
    for (const [form, wanting] of byForm(hooks)) {
      const json = bodies.element(transaction, form);
      events.push({ signature, index: match.index, form, hooks: wanting, json });
    }
  }
  return events;
}

function byForm(hooks: readonly Webhook[]): ReadonlyMap<BodyForm, readonly Webhook[]> {
  const groups = new Map<BodyForm, Webhook[]>();
  for (const hook of hooks) {
    const form = formOf(hook.type);
    const group = groups.get(form);
    if (group === undefined) groups.set(form, [hook]);
    else group.push(hook);
  }
  return groups;
}

function hooksOf(
  index: HookIndex,
  chain: ChainId,
  { byKey, byTokenOwner }: TransactionMatch,
  transaction: NormalTransaction,
  bodies: BlockBodies,
): readonly Webhook[] {
  const hooks: Webhook[] = [];
  const failed = transaction.error !== null;
  const consider = (number: number, onlyByOwner: boolean): void => {
    const hook = index.hook(number);
    if (hook === undefined || !takesEvents(hook) || chainOf(hook.type) !== chain || !wantsOutcome(hook, failed)) return;
    if (onlyByOwner && !hook.matchTokenOwners) return;
    if (wantsType(hook, () => bodies.typeOf(transaction))) hooks.push(hook);
  };
  for (const number of byKey) consider(number, false);
  for (const number of byTokenOwner) consider(number, true);
  return hooks;
}
