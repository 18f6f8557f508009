import { encode32 } from '../../../../src/lib/base58.ts';
import type { TokenAccountRow } from '../../store/tables.ts';
import { u64Json } from './u64-json.ts';

/** What a token record needs. */
export type RecordedTokens = Pick<TokenAccountRow, 'mint' | 'owner' | 'amount' | 'delegate' | 'state' | 'tlv'>;

/** The tokens of an account. */
export function tokenRecord({ mint, owner, amount, delegate, state, tlv }: RecordedTokens): object {
  return {
    mint: encode32(mint),
    owner: encode32(owner),
    amount: u64Json(amount),
    delegate: delegate === null ? null : encode32(delegate),
    state: state === 1 ? 'frozen' : 'initialized',
    tlv: tlv === null ? null : Buffer.from(tlv).toString('base64'),
  };
}
