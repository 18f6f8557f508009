import type { FinalityStatus } from '../ports/chain.ts';

const ROUNDS = { fast: 'one round', slow: 'two rounds' } as const;
/** How long a certificate that does not hold is shown as a failed check. */
const ALARM_MS = 3_600_000;

/** What is wrong with a recent certificate, in words; null: nothing. */
export const finalityAlarmText = (status: FinalityStatus | undefined, nowMs: number): string | null =>
  status?.alarm != null && nowMs - status.alarm.at < ALARM_MS
    ? `the certificate of slot ${status.alarm.slot} does not prove it final: ${status.alarm.reason}`
    : null;

/** What certificates prove, in words: which slots, by how much stake, and what is wrong. */
export function finalityText(status: FinalityStatus, nowMs: number): string {
  const { state, reason, verified } = status;
  const alarm = finalityAlarmText(status, nowMs);
  const parts = [
    ...(alarm === null ? [] : [alarm]),
    verified === null
      ? 'no slot is verified'
      : `verified up to slot ${verified.slot}, by ${verified.stakePercent} % of the stake in ${ROUNDS[verified.rounds]}`,
    ...(reason === null ? [] : [`${state === 'off' ? 'off' : 'not checked now'}: ${reason}`]),
  ];
  return parts.join('; ');
}
