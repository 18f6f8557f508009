import { type TSchema, Type } from '@sinclair/typebox';
import type { RecordVersion } from './account.ts';

/** Documentation of the records. Functions, because nothing is made while modules are loaded. */
export const key = (description: string): TSchema => Type.String({ description: `${description}, base58` });
export const u64 = (description: string): TSchema =>
  Type.Integer({ minimum: 0, description: `${description}; up to 2^64 - 1, bare digits` });
export const orNull = (schema: TSchema): TSchema => Type.Union([schema, Type.Null()]);
const slot = (description: string): TSchema => Type.Integer({ minimum: 0, description });

export const treeContextSchema = () => ({
  treeType: Type.Integer({ description: '1 state V1, 2 address V1, 3 state V2, 4 address V2' }),
  tree: key('Merkle tree'),
  queue: key('its queue; 32 ones when unknown'),
  cpiContext: Type.Null(),
});

export function accountSchema(version: RecordVersion): TSchema {
  const data = Type.Object({
    discriminator: u64('first 8 bytes, little-endian'),
    data: Type.String({ description: 'base64' }),
    dataHash: key('hash of the data'),
  });
  const place = { leafIndex: Type.Integer({ minimum: 0 }), seq: orNull(Type.Integer()), slotCreated: slot('slot') };
  return Type.Object({
    hash: key('hash of the account: its leaf'),
    address: orNull(key('address that stays through changes')),
    data: orNull(data),
    owner: key('program or wallet'),
    lamports: u64('lamports'),
    ...(version === 1 ? { tree: key('Merkle tree') } : {}),
    ...place,
    ...(version === 1
      ? {}
      : {
          proveByIndex: Type.Boolean({ description: 'still waits in the output queue' }),
          merkleContext: Type.Object({
            ...treeContextSchema(),
            nextTreeContext: orNull(Type.Object(treeContextSchema())),
          }),
        }),
  });
}

export function tokenSchema(): TSchema {
  return Type.Object({
    mint: key('mint'),
    owner: key('owner of the tokens'),
    amount: u64('raw units'),
    delegate: orNull(key('delegate')),
    state: Type.Union([Type.Literal('initialized'), Type.Literal('frozen')]),
    tlv: orNull(Type.String({ description: 'extensions, base64' })),
  });
}

export const tokenAccountSchema = (version: RecordVersion): TSchema =>
  Type.Object({ account: accountSchema(version), tokenData: tokenSchema() });

export function signatureSchema(withError = false): TSchema {
  return Type.Object({
    signature: key('signature'),
    slot: slot('slot'),
    blockTime: Type.Integer({ description: 'Unix seconds; 0 when the chain gives none' }),
    ...(withError ? { error: orNull(Type.String({ description: 'JSON of the error' })) } : {}),
  });
}

/** A list, with the cursor of the page after it where there is one. */
export const pageSchema = (item: TSchema, items = 'items'): TSchema =>
  Type.Object({ [items]: Type.Array(item), cursor: orNull(Type.String()) });
