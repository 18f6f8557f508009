import { Type } from '@sinclair/typebox';
import type { Price, Route } from '../../../src/kernel/plugin.ts';

/** Every wallet call costs the same, and a 404 is an answer too. */
const WALLET_PRICE: Price = { product: 'walletApi', credits: 100, groups: ['das'], chargedStatuses: [404] };

/** What all routes of this plugin share. */
export const WALLET_ROUTE = {
  tag: 'Wallet',
  auth: 'key',
  errors: 'wallet',
  price: WALLET_PRICE,
} as const satisfies Partial<Route>;

const refusal = Type.Object({ error: Type.String(), code: Type.Integer(), details: Type.Optional(Type.String()) });

export const WALLET_REFUSALS = { 400: refusal, 401: refusal, 403: refusal, 429: refusal, 503: refusal } as const;
export const NOT_FOUND = { 404: refusal } as const;

export const pagination = Type.Object({
  hasMore: Type.Boolean(),
  nextCursor: Type.Union([Type.String(), Type.Null()]),
});
