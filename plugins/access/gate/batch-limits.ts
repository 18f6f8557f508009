import { type GateItem, GateRefusal } from '../../../src/kernel/plugin.ts';
import type { BatchLimits } from '../plans/limits.ts';

/** Why the plan does not take these calls together; null when it does. */
export function batchRefusal(items: readonly GateItem[], limits: BatchLimits): GateRefusal | null {
  const refuse = (details: string) => new GateRefusal('batch', { details });
  if (limits.maxItems !== null && items.length > limits.maxItems)
    return refuse(`a batch has at most ${limits.maxItems} items on this plan`);
  let historical = 0;
  let transactions = 0;
  for (const { name, price } of items) {
    if (limits.notBatchable.has(name)) return refuse(`${name} cannot be part of a batch on this plan`);
    if (name === 'getTransaction') transactions += 1;
    else if (price?.product === 'archival') historical += 1;
  }
  if (limits.historicalMax !== null && historical > limits.historicalMax)
    return refuse(`a batch has at most ${limits.historicalMax} historical calls on this plan`);
  if (limits.getTransactionMax !== null && transactions > limits.getTransactionMax)
    return refuse(`a batch has at most ${limits.getTransactionMax} getTransaction calls on this plan`);
  return null;
}
