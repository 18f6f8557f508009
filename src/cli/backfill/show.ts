import { filledTo, type GapRecord } from '../../kernel/follower/backfill/gap-record.ts';

/** A gap in a line for people. */
export function gapLine(gap: GapRecord): string {
  const names = gap.fills.map(({ name }) => name).join(', ');
  const to = gap.status === 'filling' || gap.status === 'open' ? filledTo(gap) : null;
  return [
    `#${gap.id}  ${gap.chain}  ${gap.fromSlot}-${gap.toSlot}  ${gap.reason}  ${gap.status}`,
    ...(to === null ? [] : [`filled to ${to}`]),
    ...(names === '' ? [] : [`for ${names}`]),
    ...(gap.addresses === null ? [] : [`by ${gap.addresses.length} addresses`]),
    new Date(gap.detectedAt).toISOString(),
    ...(gap.trouble === null ? [] : [`- ${gap.trouble}`]),
  ].join('  ');
}
