import { decode, decode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { defineRoute, json, RequestError, type Route, type Tag, Type } from '../../src/plugin/plugin.ts';
import {
  createHostedAccounts,
  type HostedAccountParts,
  type HostedAccounts,
  type HostedProject,
  PRICE_ID,
  parsedJson,
} from './hosted-accounts.ts';

/** What the wire calls the one plan that is sold here. */
const PLAN = 'agent_v4';
/** How far the clock of a client may be off, in milliseconds. */
const MESSAGE_MS = 120_000;
const CYCLE_MS = 30 * 86_400_000;
const BODY_BYTES = 8_192;

const anyObject = (description: string) => Type.Object({}, { additionalProperties: true, description });
const refusal = Type.Object({ error: Type.String(), code: Type.Integer() });
const idParams = Type.Object({ id: Type.String({ minLength: 1, maxLength: 64, description: 'Id' }) });

export interface HostedParts extends HostedAccountParts {
  readonly tag: Tag;
}

interface RouteParts {
  readonly parts: HostedParts;
  readonly accounts: HostedAccounts;
  readonly common: {
    readonly tag: Tag;
    readonly auth: 'none';
    readonly errors: 'plain';
    readonly bodyLimitBytes: number;
  };
}

const replies = { 200: anyObject('In the form of the hosted service'), 400: refusal, 401: refusal, 404: refusal };

/**
 * The sign-up as clients of the hosted service speak it (helius-sdk 3.2, `auth`): a signed message, a checkout that is paid in USDC with its id
 * as memo, a project, a key. The id of a checkout is what it says and a code of the server, so nothing is stored before a payment.
 */
export function hostedRoutes(parts: HostedParts): readonly Route[] {
  const common = { tag: parts.tag, auth: 'none', errors: 'plain', bodyLimitBytes: BODY_BYTES } as const;
  const route = { parts, common, accounts: createHostedAccounts(parts) };
  return [...signInRoutes(route), ...projectRoutes(route), ...checkoutRoutes(route)];
}

function signInRoutes({ parts, common, accounts: { tokenOf } }: RouteParts): readonly Route[] {
  const { clock } = parts;
  return [
    defineRoute({
      ...common,
      method: 'POST',
      path: '/v0/wallet-signup',
      summary: 'Sign in with a wallet, as clients of the hosted service do',
      body: Type.Object({
        message: Type.String({ maxLength: 1_024, description: 'JSON with the member timestamp, Unix milliseconds' }),
        signature: Type.String({ maxLength: 128, description: 'Signature of the message by the wallet, base58' }),
        userID: Type.String({ maxLength: 64, description: 'Address of the wallet' }),
      }),
      replies,
      async handler({ body: { message, signature, userID: wallet } }) {
        const [publicKey, bytes] = [decode32(wallet), decode(signature)];
        if (publicKey === null || bytes === null) throw new RequestError(400, 'userID or signature is not base58');
        const said: unknown = parsedJson(message);
        const timestamp = isPlainObject(said) ? Number(said['timestamp']) : Number.NaN;
        if (!(Math.abs(clock.now() - timestamp) <= MESSAGE_MS))
          throw new RequestError(401, 'The message is not of this moment: check the clock');
        if (!parts.verify(publicKey, Buffer.from(message), bytes))
          throw new RequestError(401, 'The message is not signed by this wallet');
        const newUser = (await parts.project(wallet)) === null;
        return json({ token: await tokenOf(wallet), refId: wallet, newUser });
      },
    }),
  ];
}

function projectRoutes({ parts, common, accounts }: RouteParts): readonly Route[] {
  const { clock } = parts;
  const { walletOf, projectOf, ownProject } = accounts;
  return [
    defineRoute({
      ...common,
      method: 'GET',
      path: '/v0/projects',
      summary: 'The project of the signed-in wallet, as a list',
      replies: { ...replies, 200: Type.Array(anyObject('A project')) },
      async handler({ headers }) {
        const wallet = await walletOf(headers);
        const project = await projectOf(wallet);
        return json(project === null ? [] : [projectShown(project, wallet)]);
      },
    }),
    defineRoute({
      ...common,
      method: 'GET',
      path: '/v0/projects/:id',
      summary: 'A project of the signed-in wallet; keys are not in it, because only their hashes are stored',
      params: idParams,
      replies,
      async handler({ headers, params }) {
        const project = await ownProject(headers, params.id);
        const period = periodOf(project, clock.now());
        return json({
          apiKeys: [],
          creditsUsage: {},
          billingCycle: { start: period.billingPeriodStart, end: period.billingPeriodEnd },
          subscriptionPlanDetails: { currentPlan: PLAN, upcomingPlan: PLAN, isUpgrading: false },
          prepaidCreditsLink: '',
        });
      },
    }),
    defineRoute({
      ...common,
      method: 'POST',
      path: '/v0/projects/:id/add-key',
      summary: 'Create a key; it is shown only here, as keyId',
      params: idParams,
      body: Type.Object({ userId: Type.String({ maxLength: 64, description: 'Address of the wallet' }) }),
      replies: { ...replies, 409: refusal },
      async handler({ headers, params, body }) {
        const project = await ownProject(headers, params.id);
        const keyId = await parts.addKey(project.id);
        return json({
          keyId,
          keyName: 'sign-up',
          walletId: body.userId,
          projectId: project.id,
          usagePlan: PLAN,
          createdAt: Math.floor(clock.now() / 1_000),
          prepaidCredits: 0,
        });
      },
    }),
  ];
}

function checkoutRoutes({ parts, common, accounts }: RouteParts): readonly Route[] {
  const { treasury, usdc } = parts;
  const { walletOf, newCheckout, shown, statusOf } = accounts;
  return [
    defineRoute({
      ...common,
      method: 'GET',
      path: '/v0/dev-portal/configs',
      summary: 'Ids of the prices: one plan is sold',
      query: Type.Object({
        agent: Type.Optional(Type.String({ maxLength: 16, description: 'cli: with the plan of agents' })),
      }),
      replies,
      async handler({ headers, query }) {
        await walletOf(headers);
        const agent = query.agent === undefined ? {} : { AgentPlan: PRICE_ID };
        return json({ stripe: { priceIds: { Monthly: {}, Yearly: {}, ...agent }, prepaidCreditsPlans: {} } });
      },
    }),
    defineRoute({
      ...common,
      method: 'GET',
      path: '/v0/checkout/preview',
      summary: 'What a checkout costs',
      query: Type.Object({
        priceId: Type.Optional(Type.String({ maxLength: 64, description: 'Id of the price' })),
        couponCode: Type.Optional(Type.String({ maxLength: 64, description: 'There are no coupons' })),
        qty: Type.Optional(Type.String({ maxLength: 8, description: '1' })),
      }),
      replies,
      async handler({ headers, query }) {
        await walletOf(headers);
        demandPrice(query.priceId, query.couponCode);
        return json({
          planName: 'Agent Plan',
          period: 'monthly',
          baseAmount: usdc.cents,
          subtotal: usdc.cents,
          appliedCredits: 0,
          proratedCredits: 0,
          discounts: 0,
          dueToday: usdc.cents,
          destinationWallet: treasury,
          note: '',
        });
      },
    }),
    defineRoute({
      ...common,
      method: 'POST',
      path: '/v0/checkout/initialize',
      summary: 'Begin a checkout: pay the amount in USDC with its id as memo. Names and mail addresses are not stored',
      body: Type.Object(
        {
          priceId: Type.String({ maxLength: 64, description: 'From /v0/dev-portal/configs', examples: [PRICE_ID] }),
          couponCode: Type.Optional(
            Type.Union([Type.String({ maxLength: 64 }), Type.Null()], { description: 'There are no coupons' }),
          ),
        },
        { additionalProperties: true },
      ),
      replies,
      async handler({ headers, body }) {
        const wallet = await walletOf(headers);
        demandPrice(body.priceId, body.couponCode ?? undefined);
        return json({ ...shown(await newCheckout(wallet), 'pending'), refId: wallet });
      },
    }),
    defineRoute({
      ...common,
      method: 'GET',
      path: '/v0/checkout/:id',
      summary: 'A checkout of the signed-in wallet',
      params: idParams,
      replies,
      async handler({ headers, params }) {
        const wallet = await walletOf(headers);
        const { checkout, status } = await statusOf(wallet, params.id);
        return json({ ...shown(checkout, status), refId: wallet });
      },
    }),
    defineRoute({
      ...common,
      method: 'GET',
      path: '/v0/checkout/:id/status',
      summary: 'Whether a checkout is paid, final, and its project exists',
      params: idParams,
      replies,
      async handler({ headers, params }) {
        const { checkout: _, ...status } = await statusOf(await walletOf(headers), params.id);
        return json(status);
      },
    }),
  ];
}

function demandPrice(priceId: string | undefined, coupon: string | undefined): void {
  if (priceId !== PRICE_ID) throw new RequestError(400, `priceId must be ${PRICE_ID}: there is one plan`);
  if (coupon !== undefined && coupon !== '') throw new RequestError(400, 'There are no coupons');
}

function periodOf({ createdAt }: HostedProject, now: number) {
  const start = createdAt + Math.floor((now - createdAt) / CYCLE_MS) * CYCLE_MS;
  return {
    billingPeriodStart: new Date(start).toISOString(),
    billingPeriodEnd: new Date(start + CYCLE_MS).toISOString(),
  };
}

function projectShown(project: HostedProject, wallet: string) {
  const createdAt = new Date(project.createdAt).toISOString();
  return {
    id: project.id,
    name: project.name,
    createdAt,
    verifiedEmail: null,
    subscription: {
      id: project.id,
      projectId: project.id,
      createdAt,
      plan: PLAN,
      ...periodOf(project, project.createdAt),
      cryptoSub: true,
      paymentServiceProvider: 'crypto',
    },
    users: [{ id: wallet, role: 'Owner' }],
    dnsRecords: [],
  };
}
