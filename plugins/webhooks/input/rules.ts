import { transactionTypes } from '../data/transaction-types.ts';
import type { InputRules } from './fields.ts';

export function createInputRules(urlRefusal: (url: string) => string | null, hasDevnet: boolean): InputRules {
  return {
    urlRefusal,
    hasDevnet,
    typeNames: new Map(transactionTypes().map((name) => [name.toLowerCase(), name])),
  };
}
