import { stringify } from '../../../src/lib/json.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import { rawTransaction } from '../../../src/solana/raw-transaction.ts';
import type { BodyForm } from './form.ts';

/** The transactions of one block as elements of request bodies. Each is made once and only when somebody wants it. */
export interface BlockBodies {
  /** What `transactionTypes` of enhanced and discord webhooks are compared with. */
  typeOf(transaction: NormalTransaction): string;
  /** The JSON text of an element: of a raw or enhanced transaction, or one embed of a Discord message. */
  element(transaction: NormalTransaction, form: BodyForm): string;
}

/** Makes the elements of request bodies: pure, no look-ups that wait. */
export interface BodyBuilder {
  /** The forms that can be built; webhooks of the others are refused. */
  readonly forms: ReadonlySet<BodyForm>;
  ofBlock(block: ChainBlock, chain: ChainId): BlockBodies;
}

export interface BodyBuilderOptions {
  /** Keys of the node beyond the published ones, in raw elements. */
  readonly extraKeys: boolean;
}

export function createBodyBuilder({ extraKeys }: BodyBuilderOptions): BodyBuilder {
  return {
    forms: new Set(['raw']),
    ofBlock: (block) => ({
      typeOf: () => 'UNKNOWN',
      element: (transaction) => stringify(rawTransaction(transaction, block, { extraKeys })),
    }),
  };
}
