import { CodedError } from '../../lib/coded-error.ts';

/** CHAIN_BAD_TRANSACTION: the bytes of one transaction cannot be read. */
export function badTransaction(index: number, reason: string): CodedError {
  return new CodedError('CHAIN_BAD_TRANSACTION', `transaction ${index} cannot be decoded: ${reason}`, {
    facts: { index, reason },
  });
}

/** CHAIN_BAD_BLOCK: the answer contradicts itself or lacks what every block has. `index` names the transaction, if one. */
export function badBlock(slot: number, reason: string, index?: number): CodedError {
  const where = index === undefined ? '' : `, transaction ${index}`;
  return new CodedError('CHAIN_BAD_BLOCK', `block ${slot}${where}: ${reason}`, {
    facts: index === undefined ? { slot, reason } : { slot, index, reason },
  });
}
