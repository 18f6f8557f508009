import { transactionTypes } from '../../../src/solana/transaction-types.ts';
import type { BodyForm } from '../bodies/form.ts';
import type { InputRules } from './fields.ts';

export function createInputRules(
  urlRefusal: (url: string) => string | null,
  hasDevnet: boolean,
  forms: ReadonlySet<BodyForm>,
): InputRules {
  return {
    urlRefusal,
    hasDevnet,
    forms,
    typeNames: new Map(transactionTypes().map((name) => [name.toLowerCase(), name])),
  };
}
