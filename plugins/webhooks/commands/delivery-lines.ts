import { timeText } from '../../../src/lib/table-lines.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { Delivery } from '../delivery/queue.ts';
import { readAttempts } from '../store/attempts.ts';
import type { Db } from '../store/tables.ts';

/** A delivery in a line. Times are unix milliseconds. */
export interface DeliveryLine {
  readonly id: number;
  readonly webhook: string;
  readonly status: string;
  readonly signature: string;
  readonly slot: number;
  readonly attempts: number;
  readonly lastStatus: number | null;
  readonly reason: string | null;
  readonly createdAt: number;
  readonly nextAttemptAt: number | null;
}

export const DELIVERY_HEAD = ['ID', 'STATUS', 'MADE (UTC)', 'SLOT', 'TRIED', 'HTTP', 'REASON', 'SIGNATURE'];

export async function deliveryLines(store: Store, deliveries: readonly Delivery[]): Promise<readonly DeliveryLine[]> {
  const attempts = await readAttempts(
    store.read as Db,
    deliveries.map(({ id }) => id),
  );
  return deliveries.map((one) => {
    const tried = attempts.get(one.id) ?? [];
    return {
      id: one.id,
      webhook: one.webhookId,
      status: one.status,
      signature: one.payload.signature,
      slot: one.payload.slot,
      attempts: tried.length,
      lastStatus: tried.at(-1)?.status ?? null,
      reason: one.error,
      createdAt: one.createdAt,
      nextAttemptAt: one.nextAttemptAt,
    };
  });
}

export const deliveryCells = (line: DeliveryLine): readonly (string | number)[] => [
  String(line.id),
  line.status,
  timeText(line.createdAt),
  String(line.slot),
  line.attempts,
  String(line.lastStatus ?? '-'),
  line.reason ?? '-',
  line.signature,
];
