import { Type } from '@sinclair/typebox';

const named = {
  type: Type.String({ description: 'for example exchange or program' }),
  name: Type.String(),
  category: Type.String(),
  tags: Type.Array(Type.String()),
  website: Type.Optional(Type.String()),
};
const unknownType = Type.Literal('unknown');
const inputDomain = Type.String({ description: 'the name that was given' });

export const identityReply = Type.Object({
  address: Type.String(),
  ...named,
  domainNames: Type.Optional(Type.Array(Type.String(), { description: 'names it owns, its favourite first' })),
});

/** Only with `wallet.identity.unknownAs: '200'`. */
export const unknownReply = Type.Object({ address: Type.String(), type: unknownType });

export const batchEntry = Type.Union([
  Type.Object({ address: Type.String(), ...named, inputDomain: Type.Optional(inputDomain) }),
  Type.Object({ address: Type.String(), type: unknownType, inputDomain: Type.Optional(inputDomain) }),
  Type.Object({ address: Type.Null(), type: unknownType, inputDomain, unresolved: Type.Literal(true) }),
]);
