import { EXIT } from '../../kernel/errors.ts';
import { CodedError } from '../../lib/coded-error.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { CommandValues } from '../command.ts';

export type BackfillRequest = { readonly chain: ChainId | null; readonly json: boolean } & (
  | { readonly kind: 'list' }
  | { readonly kind: 'abandon'; readonly id: number }
  /** Fill what is open. */
  | { readonly kind: 'gaps' }
  /** Read a range, again if need be. */
  | {
      readonly kind: 'range';
      readonly fromSlot: number;
      /** Inclusive. */
      readonly toSlot: number;
      readonly processor: string | null;
      /** Only the transactions of the addresses that the processors watch, not whole blocks. */
      readonly byAddress: boolean;
    }
);

/** Errors: CONFIG_INVALID, exit 64. */
export function readRequest(values: CommandValues): BackfillRequest {
  const common = {
    chain: values['chain'] === 'main' || values['chain'] === 'devnet' ? values['chain'] : null,
    json: values['json'] === true,
  } as const;
  const isRange = values['from'] !== undefined || values['to'] !== undefined;
  const wishes = [isRange, values['gaps'] === true, values['list'] === true, values['abandon'] !== undefined];
  if (wishes.filter(Boolean).length !== 1) throw usage('give one of: --from S --to S, --gaps, --list, --abandon ID');
  for (const flag of ['processor', 'byAddress'])
    if (values[flag] !== undefined && !isRange) throw usage(`--${dashed(flag)} goes with --from and --to`);
  if (values['list'] === true) return { ...common, kind: 'list' };
  if (values['gaps'] === true) return { ...common, kind: 'gaps' };
  if (!isRange) return { ...common, kind: 'abandon', id: numberOf(values, 'abandon') };
  const fromSlot = numberOf(values, 'from');
  const toSlot = numberOf(values, 'to');
  if (toSlot < fromSlot) throw usage('--to lies below --from');
  const processor = values['processor'];
  return {
    ...{ ...common, kind: 'range', fromSlot, toSlot },
    processor: typeof processor === 'string' ? processor : null,
    byAddress: values['byAddress'] === true,
  };
}

function numberOf(values: CommandValues, name: string): number {
  const value = values[name];
  if (typeof value !== 'string' || !/^\d{1,15}$/.test(value)) throw usage(`--${name} wants a number`);
  return Number(value);
}

const dashed = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

const usage = (message: string) => new CodedError('CONFIG_INVALID', message, { exitCode: EXIT.usage });
