import { stringify } from '../../../src/lib/json.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { TransactionMatch } from '../../../src/solana/match-block.ts';
import { rawTransaction } from '../../../src/solana/raw-transaction.ts';
import { chainOf, type Webhook, wantsOutcome } from '../model/webhook.ts';
import type { HookIndex } from './hook-index.ts';

/** A transaction with the webhooks that want it. */
export interface MatchedEvent {
  readonly signature: string;
  readonly hooks: readonly Webhook[];
  /** The element of the request body. */
  readonly json: string;
}

export function matchedEvents(
  block: ChainBlock,
  chain: ChainId,
  index: HookIndex,
  found: readonly TransactionMatch[],
  options: { readonly extraKeys: boolean },
): readonly MatchedEvent[] {
  const events: MatchedEvent[] = [];
  for (const match of found) {
    const transaction = block.transactions[match.index];
    if (transaction === undefined) continue;
    const hooks = hooksOf(index, chain, match, transaction.error !== null);
    if (hooks.length === 0) continue;
    const json = stringify(rawTransaction(transaction, block, options));
    events.push({ signature: transaction.signature, hooks, json });
  }
  return events;
}

function hooksOf(
  index: HookIndex,
  chain: ChainId,
  { byKey, byTokenOwner }: TransactionMatch,
  failed: boolean,
): readonly Webhook[] {
  const hooks: Webhook[] = [];
  const consider = (number: number, onlyByOwner: boolean): void => {
    const hook = index.hook(number);
    if (hook === undefined || !hook.active || chainOf(hook.type) !== chain || !wantsOutcome(hook, failed)) return;
    if (!onlyByOwner || hook.matchTokenOwners) hooks.push(hook);
  };
  for (const number of byKey) consider(number, false);
  for (const number of byTokenOwner) consider(number, true);
  return hooks;
}
