import { type Static, Type } from '@sinclair/typebox';
import type { Window } from './history.ts';
import { commitmentQuery } from './parts.ts';

export const MAX_LIMIT = 100;

const text = (description: string) => Type.Optional(Type.String({ description }));
const bound = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }));

export const addressQuery = Type.Object({
  before: text('signature; older ones than this'),
  until: text('signature; newer ones than this'),
  'before-signature': text('the same as before'),
  'after-signature': text('the same as until'),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_LIMIT, description: 'default 100' })),
  type: text('only transactions of this type'),
  source: text('only transactions of this source'),
  commitment: commitmentQuery,
  'gt-slot': bound('later than this slot'),
  'gte-slot': bound('not earlier than this slot'),
  'lt-slot': bound('earlier than this slot'),
  'lte-slot': bound('not later than this slot'),
  'gt-time': bound('later than this, unix seconds'),
  'gte-time': bound('not earlier than this, unix seconds'),
  'lt-time': bound('earlier than this, unix seconds'),
  'lte-time': bound('not later than this, unix seconds'),
  'sort-order': Type.Optional(
    Type.Union([Type.Literal('asc'), Type.Literal('desc')], { description: 'default desc: newest first' }),
  ),
});

type AddressQuery = Static<typeof addressQuery>;

/** Where two bounds of one kind are given, both hold. */
export function windowOf(query: AddressQuery): Window {
  return {
    fromSlot: highest(above(query['gt-slot']), query['gte-slot']),
    toSlot: lowest(below(query['lt-slot']), query['lte-slot']),
    fromTime: highest(above(query['gt-time']), query['gte-time']),
    toTime: lowest(below(query['lt-time']), query['lte-time']),
  };
}

const above = (value: number | undefined) => (value === undefined ? undefined : value + 1);
const below = (value: number | undefined) => (value === undefined ? undefined : value - 1);

function highest(...given: readonly (number | undefined)[]): number | null {
  const values = given.filter((value) => value !== undefined);
  return values.length === 0 ? null : Math.max(...values);
}

function lowest(...given: readonly (number | undefined)[]): number | null {
  const values = given.filter((value) => value !== undefined);
  return values.length === 0 ? null : Math.min(...values);
}
