import { EXIT } from '../../kernel/errors.ts';
import { CodedError } from '../../lib/coded-error.ts';

/** `0.05` of something with 9 decimals as 50000000. Errors: SIGNUP_AMOUNT, exit 64. */
export function toRawUnits(text: string, decimals: number): bigint {
  const [, whole = '', fraction = ''] = /^(\d{1,20})(?:\.(\d{1,18}))?$/.exec(text) ?? [];
  if (whole === '' || fraction.length > decimals)
    throw new CodedError('SIGNUP_AMOUNT', `"${text}" is no amount with at most ${decimals} decimals`, {
      exitCode: EXIT.usage,
    });
  return BigInt(whole + fraction.padEnd(decimals, '0'));
}

/** The other way round. */
export function fromRawUnits(amount: bigint, decimals: number): string {
  const digits = amount.toString().padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '');
  return fraction === '' ? whole : `${whole}.${fraction}`;
}
