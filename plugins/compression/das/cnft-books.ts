import type { StoreTx } from '../../../src/kernel/plugin.ts';
import type { RowBook } from '../store/row-book.ts';
import type { Tables } from '../store/tables.ts';
import type { StepBooks } from './apply-steps.ts';

/** The books of a block, as far as concurrent trees go. */
export interface CnftBooks extends StepBooks {
  readonly tx: StoreTx;
  readonly pending: RowBook<Tables['compression_pending']>;
}
