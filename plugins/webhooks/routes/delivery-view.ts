import type { Delivery } from '../delivery/queue.ts';
import { isoTime } from '../model/view.ts';
import type { Attempt } from '../store/attempts.ts';

/** A delivery as the API shows it. */
export function deliveryView(delivery: Delivery, attempts: readonly Attempt[]): Record<string, unknown> {
  return {
    deliveryId: String(delivery.id),
    webhookID: delivery.webhookId,
    status: delivery.status,
    signature: delivery.payload.signature,
    slot: delivery.payload.slot,
    createdAt: isoTime(delivery.createdAt),
    nextAttemptAt: delivery.nextAttemptAt === null ? null : isoTime(delivery.nextAttemptAt),
    reason: delivery.error,
    attempts: attempts.map((attempt) => ({
      attempt: attempt.n,
      at: isoTime(attempt.startedAt),
      durationMs: attempt.durationMs,
      statusCode: attempt.status,
      failure: attempt.failure,
      // Bytes that are no UTF-8 become replacement characters.
      responseBody: attempt.excerpt === null ? null : new TextDecoder().decode(attempt.excerpt),
    })),
  };
}
