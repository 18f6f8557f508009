import type { TSchema } from '@sinclair/typebox';
import { JsonText, type RpcMethod, type Store } from '../../../src/plugin/plugin.ts';
import type { Proofs } from '../proofs/index.ts';
import { type Db, readAtOneSlot } from '../store/tables.ts';
import type { Fields } from './fields.ts';
import {
  enveloped,
  type MethodTexts,
  type ParamsForm,
  plainMethod,
  type Read,
  requireIndexed,
  requireSlot,
} from './method.ts';
import type { SlotWatch } from './slot-watch.ts';

export interface ProofParts {
  readonly store: Store;
  readonly slots: SlotWatch;
  readonly proofs: Proofs;
}

/** Reads at one slot; a damaged page is reported. Errors: -32002 while nothing is indexed; those of `work`. */
export async function provenAtOneSlot<T>(
  { store, slots, proofs }: ProofParts,
  minContextSlot: number | null,
  work: (db: Db) => Promise<T>,
): Promise<{ readonly slot: number; readonly value: T }> {
  const seen = await proofs.guarded(() =>
    readAtOneSlot(store, (db, slot) => {
      requireIndexed(slot);
      requireSlot(slot, minContextSlot);
      return work(db);
    }),
  );
  slots.saw(seen.slot);
  return seen;
}

export interface TextMethod<F extends Fields> extends MethodTexts, ParamsForm<F> {
  /** Of the list. */
  readonly result: TSchema;
  /** Texts of the items of `value`. */
  run(params: Read<F>, db: Db): Promise<readonly string[]>;
}

/** A method that answers a list of proofs as finished text. */
export function textMethod<F extends Fields>(parts: ProofParts, method: TextMethod<F>): RpcMethod {
  return plainMethod(parts.slots, {
    ...method,
    result: enveloped(method.result),
    run: async (params) => {
      const { slot, value } = await provenAtOneSlot(parts, params.minContextSlot, (db) => method.run(params, db));
      return new JsonText(`{"context":{"slot":${slot}},"value":[${value.join(',')}]}`);
    },
  });
}
