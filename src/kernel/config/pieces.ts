import { Type } from '@sinclair/typebox';

/** Unknown keys are errors. */
export const closed = { additionalProperties: false } as const;
export const port = (value: number, description: string) =>
  Type.Integer({ minimum: 0, maximum: 65535, default: value, description });
export const count = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });

/** A key whose value never appears in logs, dumps or errors. */
export const secret = { secret: true } as const;
