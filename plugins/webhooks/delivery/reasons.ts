/** Why a delivery is held, discarded or failed without an answer: shown in its `reason`. */
export const REASONS = {
  /** Its webhook had too many that wait. */
  queueFull: 'queue_full',
  disabled: 'webhook disabled',
  deleted: 'webhook deleted',
  /** Kept until the webhook is switched on. */
  inactive: 'webhook inactive',
  /** Kept until the project has credits again. */
  credits: 'credits',
  /** Kept too long, or pushed out by newer ones. */
  heldTooLong: 'held too long',
  tooManyHeld: 'too many held',
  /** Travels in the request of another delivery. */
  batch: 'batch',
} as const;

/** Why a delivery can be held for itself, so that it may be dropped for itself. */
export const HELD_ALONE = [REASONS.inactive, REASONS.credits] as const;
