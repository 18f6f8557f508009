import { Type } from '@sinclair/typebox';
import { invalid } from '../errors.ts';
import type { Field } from '../field.ts';
import { integer, objectOf, optional } from '../fields.ts';

/** Most elements of one queue in an answer. */
const MOST_ELEMENTS = 30_000;
const MOST_U16 = 65_535;

/** What is asked of one queue. */
export interface QueueWish {
  readonly limit: number;
  /** Where the first element is expected; null: wherever the queue begins. */
  readonly startIndex: number | null;
  readonly zkpBatchSize: number;
}

/** One queue of a tree. Errors: -32602 `Too many queue elements requested …`. */
export function queueWish(description: string, defaultBatch: number): Field<QueueWish | null> {
  const limit: Field<number> = {
    schema: Type.Integer({ minimum: 1, maximum: MOST_ELEMENTS, description: 'most elements' }),
    absent: null,
    read: (value, name) => {
      const wanted = integer({ least: 1, most: MOST_U16, description }).read(value, name);
      if (wanted > MOST_ELEMENTS)
        throw invalid(`Too many queue elements requested ${wanted}. Maximum allowed: ${MOST_ELEMENTS}`);
      return wanted;
    },
  };
  const wish = objectOf({
    limit,
    startIndex: optional(integer({ description: 'index of the first element' })),
    zkpBatchSize: optional(integer({ least: 1, most: MOST_U16, description: `default ${defaultBatch}` })),
  });
  return {
    schema: wish.schema,
    absent: { value: null },
    read: (value, name) => {
      const read = wish.read(value, name);
      return { ...read, zkpBatchSize: read.zkpBatchSize ?? defaultBatch };
    },
  };
}

/** Errors: -32602 when the elements before the first one are gone. */
export function requireStart({ startIndex }: QueueWish, first: number | undefined): void {
  if (startIndex !== null && first !== undefined && first > startIndex)
    throw invalid(`Requested start_index ${startIndex} but first_queue_index ${first} is later (possible pruning)`);
}

/** As many elements as make whole batches. */
export function wholeBatches<T>(elements: readonly T[], { zkpBatchSize }: QueueWish): readonly T[] {
  return elements.slice(0, elements.length - (elements.length % zkpBatchSize));
}
