import { type TSchema, Type } from '@sinclair/typebox';

const bytes = (count: number) =>
  Type.Array(Type.Integer({ minimum: 0, maximum: 255 }), { description: `${count} bytes` });

export const compressedProofSchema = (): TSchema => Type.Object({ a: bytes(32), b: bytes(64), c: bytes(32) });
