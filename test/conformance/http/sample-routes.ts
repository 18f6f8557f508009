import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from '@sinclair/typebox';
import {
  CodedError,
  defineRoute,
  empty,
  json,
  type Price,
  RequestError,
  type Route,
  text,
} from '../../../src/plugin/plugin.ts';

const price = (credits: number): Price => ({ product: 'walletApi', credits, groups: ['das'], chargedStatuses: [404] });
const anything = { 200: Type.Unknown() };

/** One route of each kind that the wire contract has. */
export function sampleRoutes(): Route[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/ping',
      summary: 'Connection probe',
      tag: 'Sender',
      auth: 'none',
      errors: 'text',
      replies: { 200: Type.String() },
      handler: () => text('ok'),
    }),
    defineRoute({
      method: 'POST',
      path: '/v0/token-metadata',
      summary: 'Token metadata',
      tag: 'Tokens',
      auth: 'key',
      errors: 'plain',
      price: price(100),
      body: Type.Object({
        mintAccounts: Type.Array(Type.String(), { maxItems: 3 }),
        includeOffChain: Type.Optional(Type.Boolean({ default: false })),
      }),
      replies: anything,
      handler: (request) => json({ given: request.body, caller: request.caller?.projectId ?? null }),
    }),
    defineRoute({
      method: 'GET',
      path: '/v1/wallet/:wallet/balances',
      summary: 'Balances',
      tag: 'Wallet',
      auth: 'key',
      errors: 'wallet',
      price: price(100),
      query: Type.Object({
        page: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 1 }),
        limit: Type.Integer({ minimum: 1, maximum: 100, default: 100 }),
        showNative: Type.Boolean({ default: true }),
        order: Type.Optional(Type.Union([Type.Literal('asc'), Type.Literal('desc')])),
      }),
      replies: anything,
      handler: (request) => {
        if (request.params['wallet'] === 'nobody') throw new RequestError(404, 'No such wallet');
        return json({ wallet: request.params['wallet'], query: request.query, big: 18446744073709551615n });
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/v1/wallet/batch-identity',
      summary: 'Identities',
      tag: 'Wallet',
      auth: 'key',
      errors: 'wallet',
      price: price(100),
      body: Type.Unknown(),
      replies: anything,
      handler: (request) => json({ body: request.body }),
    }),
    defineRoute({
      method: 'DELETE',
      path: '/v0/webhooks/:webhookID',
      summary: 'Delete',
      tag: 'Webhooks',
      auth: 'key',
      errors: 'plain',
      price: price(100),
      replies: { 200: Type.Undefined() },
      handler: () => empty(),
    }),
    defineRoute({
      method: 'PATCH',
      path: '/v0/webhooks/:webhookID',
      summary: 'Toggle',
      tag: 'Webhooks',
      auth: 'key',
      errors: 'plain',
      price: price(100),
      bodyLimitBytes: 2_000_000,
      body: Type.Object({ active: Type.Boolean() }),
      replies: anything,
      handler: (request) => json({ webhookID: request.params['webhookID'], active: request.body.active }),
    }),
    defineRoute({
      method: 'GET',
      path: '/v0/admin/projects/:id/usage',
      summary: 'Usage',
      tag: 'Usage',
      auth: 'key',
      errors: 'admin',
      price: { product: 'other', credits: 0, groups: ['admin'] },
      replies: anything,
      handler: (request) => json({ id: request.params['id'] }),
    }),
    ...faultyRoutes(),
  ];
}

function faultyRoutes(): Route[] {
  const route = (path: string, handler: Route['handler'], errors: Route['errors'] = 'wallet'): Route => ({
    method: 'GET',
    path: `/v1/wallet/faulty/${path}`,
    summary: path,
    tag: 'Faulty',
    auth: 'key',
    errors,
    price: price(100),
    timeoutMs: 300,
    replies: anything,
    handler,
  });
  return [
    route('bug', () => {
      throw new Error('secret inside: postgres://user:pass@host');
    }),
    route('store', () => {
      throw new CodedError('STORE_UNREACHABLE', 'postgres://user:pass@host refused');
    }),
    route('chain', () => {
      throw new CodedError('CHAIN_UNREACHABLE', 'https://node/?token=abc refused');
    }),
    route('late', () => {
      throw new CodedError('CHAIN_TIMEOUT', 'late');
    }),
    route('hang', async (request) => {
      await new Promise((resolve) => request.signal.addEventListener('abort', resolve));
      return json({ never: 'sent' });
    }),
    route('slow', async (request) => {
      await sleep(150);
      return json({ aborted: request.signal.aborted });
    }),
  ];
}
