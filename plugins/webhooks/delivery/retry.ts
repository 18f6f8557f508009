import type { Random } from '../../../src/ports/clock.ts';
import type { WebhooksConfig } from '../config.ts';
import type { RetryPreset } from '../model/webhook.ts';

/** Delay after a time-out or a 429 under the durable preset, at least. */
const CALM_MS = 60_000;

export interface RetryHints {
  /** From `Retry-After`, or null. */
  readonly retryAfterMs: number | null;
  /** The receiver was too slow or asked for less: time-out or 429. */
  readonly overloaded: boolean;
}

/** Milliseconds until the next attempt, or null when `finishedAttempts` (this one included) used the preset up. */
export function retryDelayMs(
  config: WebhooksConfig['retry'],
  preset: RetryPreset,
  finishedAttempts: number,
  hints: RetryHints,
  random: Random,
): number | null {
  const seconds = config[preset].steps[finishedAttempts - 1];
  if (seconds === undefined) return null;
  let stepMs = seconds * 1_000;
  if (preset === 'durable') {
    stepMs *= 1 + config.durable.jitter * (2 * random.float() - 1);
    if (hints.overloaded) stepMs = Math.max(stepMs, CALM_MS);
  }
  if (hints.retryAfterMs === null) return Math.round(stepMs);
  return Math.round(Math.min(Math.max(hints.retryAfterMs, stepMs), 2 * stepMs));
}

/** No attempt of any preset is planned further ahead. */
export function longestDelayMs({ durable, compat }: WebhooksConfig['retry']): number {
  const longestStepMs = 1_000 * Math.max(0, ...compat.steps, ...durable.steps);
  return 2 * (1 + durable.jitter) * longestStepMs + CALM_MS;
}

/** `Retry-After` in either of its forms, as milliseconds from now; null when absent or nonsense. */
export function parseRetryAfter(value: string | undefined, now: number): number | null {
  if (value === undefined) return null;
  const text = value.trim();
  if (/^\d{1,15}(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  // Only HTTP dates: the date parser alone would take almost any text with a number in it.
  if (!/^[A-Za-z]{3,9},? /.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}
