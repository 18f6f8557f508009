import type { FinalityStatus } from '../ports/chain.ts';

const ROUNDS = { fast: 'one round', slow: 'two rounds' } as const;
/** How long a certificate that does not hold is shown as a failed check. */
const ALARM_MS = 3_600_000;

export const isFinalityAlarm = ({ alarm }: FinalityStatus, nowMs: number): boolean =>
  alarm !== null && nowMs - alarm.at < ALARM_MS;

/** What certificates prove, in words: which slots, by how much stake, and what is wrong. */
export function finalityText(status: FinalityStatus, nowMs: number): string {
  const { state, reason, verified, alarm } = status;
  const parts = [
    ...(alarm !== null && isFinalityAlarm(status, nowMs)
      ? [`the certificate of slot ${alarm.slot} does not prove it final: ${alarm.reason}`]
      : []),
    verified === null
      ? 'no slot is verified'
      : `verified up to slot ${verified.slot}, by ${verified.stakePercent} % of the stake in ${ROUNDS[verified.rounds]}`,
    ...(reason === null ? [] : [`${state === 'off' ? 'off' : 'not checked now'}: ${reason}`]),
  ];
  return parts.join('; ');
}
