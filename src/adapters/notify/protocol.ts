import type { Notice } from '../../ports/notify.ts';

/** Longer texts are cut: a datagram that is too large would be lost as a whole. */
const MAX_STATUS_CHARS = 500;
const CONTROL = /\p{Cc}+/gu;

/** The assignments of one message. `monotonicUs` lets the manager tell this reload from an earlier one. */
export function noticeLines({ state, status }: Notice, monotonicUs: bigint): string[] {
  const lines: string[] = [];
  if (state === 'ready') lines.push('READY=1');
  if (state === 'reloading') lines.push('RELOADING=1', `MONOTONIC_USEC=${monotonicUs}`);
  if (state === 'stopping') lines.push('STOPPING=1');
  if (state === 'alive') lines.push('WATCHDOG=1');
  // A line break would begin an assignment of its own.
  if (status !== undefined)
    lines.push(`STATUS=${[...status.replace(CONTROL, ' ')].slice(0, MAX_STATUS_CHARS).join('')}`);
  return lines;
}
