import {
  ASSOCIATED_TOKEN_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../address/known-programs.ts';
import { discriminatorOf } from '../discriminator.ts';
import { JUPITER_V6, MEMO, MEMO_V1 } from '../program-ids.ts';
import type { ViewStep } from '../view.ts';

const HELPERS = [
  TOKEN_PROGRAM,
  TOKEN_2022_PROGRAM,
  SYSTEM_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  JUPITER_V6,
  MEMO,
  MEMO_V1,
];
const SELF_CALL = 'e445a52e51cb9a1d';

/** Whether a call goes to a market: it is followed by token transfers, and is no event that a program tells itself. */
export function isMarketCall(inside: readonly ViewStep[], step: ViewStep): boolean {
  if (HELPERS.includes(step.programId) || discriminatorOf(step.data) === SELF_CALL) return false;
  const next = inside[inside.indexOf(step) + 1];
  return next !== undefined && next.outer === step.outer;
}
