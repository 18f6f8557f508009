import { createHmac, timingSafeEqual } from 'node:crypto';
import { decode, decode32 } from '../../src/lib/base58.ts';
import { isPlainObject } from '../../src/lib/json.ts';
import { type Clock, defineRoute, json, RequestError, type Route, type Tag, Type } from '../../src/plugin/plugin.ts';

/**
 * The sign-up as clients of the hosted service speak it (helius-sdk 3.2, `auth`): a signed message, a checkout that is paid in USDC with its id
 * as memo, a project, a key. The id of a checkout is what it says and a code of the server, so nothing is stored before a payment.
 */
export interface HostedParts {
  readonly clock: Clock;
  readonly tag: Tag;
  readonly treasury: string;
  /** Mint of the currency, and the price. */
  readonly usdc: { readonly mint: string; readonly cents: number };
  /** Signs tokens and ids; the same in all processes and after a restart. */
  secret(): Promise<Buffer>;
  verify(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean;
  /** Gives the wallet what the payment with this memo has bought, once. `waiting`: the payment is not final yet. */
  settle(wallet: string, memo: string): Promise<'unpaid' | 'waiting' | 'given'>;
  /** Memos of payments of the wallet that bought nothing yet. */
  openMemos(wallet: string): Promise<readonly string[]>;
  project(wallet: string): Promise<HostedProject | null>;
  /** Installs a new key and returns it. Errors: RequestError. */
  addKey(projectId: string): Promise<string>;
}

export interface HostedProject {
  readonly id: string;
  readonly name: string;
  /** Unix milliseconds. */
  readonly createdAt: number;
}

/** What the wire calls the one plan that is sold here, and its price. */
const PLAN = 'agent_v4';
const PRICE_ID = 'agent';
/** How far the clock of a client may be off, in milliseconds. */
const MESSAGE_MS = 120_000;
const TOKEN_MS = 3_600_000;
const CHECKOUT_MS = 1_800_000;
const CYCLE_MS = 30 * 86_400_000;
const CENTS_PER_DOLLAR = 100;
const CODE_LENGTH = 16;
const BODY_BYTES = 8_192;

const anyObject = (description: string) => Type.Object({}, { additionalProperties: true, description });
const refusal = Type.Object({ error: Type.String(), code: Type.Integer() });
const idParams = Type.Object({ id: Type.String({ minLength: 1, maxLength: 64, description: 'Id' }) });

type Headers = Readonly<Record<string, string | string[] | undefined>>;

export function hostedRoutes(parts: HostedParts): readonly Route[] {
  const { clock, tag, treasury, usdc } = parts;
  const common = { tag, auth: 'none', errors: 'plain', bodyLimitBytes: BODY_BYTES } as const;
  const replies = { 200: anyObject('In the form of the hosted service'), 400: refusal, 401: refusal, 404: refusal };

  const sign = async (text: string): Promise<string> =>
    createHmac('sha256', await parts.secret())
      .update(text)
      .digest('base64url');

  async function walletOf(headers: Headers): Promise<string> {
    const [, head = '', body = '', code = ''] =
      /^Bearer ([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(String(headers['authorization'] ?? '')) ?? [];
    const claims: unknown = code !== '' && isSame(code, await sign(`${head}.${body}`)) ? parsed(body) : null;
    if (!isPlainObject(claims) || typeof claims['sub'] !== 'string' || Number(claims['exp']) * 1_000 <= clock.now())
      throw new RequestError(401, 'The token is missing, wrong or expired: sign in again');
    return claims['sub'];
  }

  const codeOf = async (wallet: string, says: string) =>
    (await sign(`checkout ${wallet} ${says}`)).slice(0, CODE_LENGTH);

  /** A checkout of the wallet by its id. Throws 404 for any other id. */
  async function checkoutOf(wallet: string, id: string) {
    const [, says = '', expires = '', cents = '', code = ''] = /^(ck-([0-9a-z]+)-([0-9a-z]+))-([\w-]+)$/.exec(id) ?? [];
    if (code === '' || !isSame(code, await codeOf(wallet, says)))
      throw new RequestError(404, 'There is no such checkout');
    return { id, expiresAt: Number.parseInt(expires, 36), cents: Number.parseInt(cents, 36) };
  }

  async function newCheckout(wallet: string) {
    const expiresAt = clock.now() + CHECKOUT_MS;
    const says = `ck-${expiresAt.toString(36)}-${usdc.cents.toString(36)}`;
    return { id: `${says}-${await codeOf(wallet, says)}`, expiresAt, cents: usdc.cents };
  }

  const shown = ({ id, expiresAt, cents }: Awaited<ReturnType<typeof newCheckout>>, status: string) => ({
    id,
    status,
    amount: cents,
    destinationWallet: treasury,
    solanaPayUrl: `solana:${treasury}?amount=${cents / CENTS_PER_DOLLAR}&spl-token=${usdc.mint}&memo=${id}`,
    expiresAt: new Date(expiresAt).toISOString(),
    createdAt: new Date(expiresAt - CHECKOUT_MS).toISOString(),
    priceId: PRICE_ID,
  });

  /** A payment counts whenever it arrives; an id without one ends. */
  async function statusOf(wallet: string, id: string) {
    const checkout = await checkoutOf(wallet, id);
    const payment = await parts.settle(wallet, id);
    if (payment === 'given') return { ...STATUS.complete, checkout };
    if (payment === 'waiting') return { ...STATUS.confirming, checkout };
    return { ...(checkout.expiresAt <= clock.now() ? STATUS.expired : STATUS.unpaid), checkout };
  }

  /** The project of a wallet, after what it has paid was given to it. */
  async function projectOf(wallet: string): Promise<HostedProject | null> {
    for (const memo of await parts.openMemos(wallet))
      if (await checkoutOf(wallet, memo).catch(() => null)) await parts.settle(wallet, memo);
    return await parts.project(wallet);
  }

  async function ownProject(headers: Headers, id: string): Promise<HostedProject> {
    const project = await projectOf(await walletOf(headers));
    if (project === null || project.id !== id) throw new RequestError(404, 'There is no such project');
    return project;
  }

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
        const said: unknown = parsedText(message);
        const timestamp = isPlainObject(said) ? Number(said['timestamp']) : Number.NaN;
        if (!(Math.abs(clock.now() - timestamp) <= MESSAGE_MS))
          throw new RequestError(401, 'The message is not of this moment: check the clock');
        if (!parts.verify(publicKey, Buffer.from(message), bytes))
          throw new RequestError(401, 'The message is not signed by this wallet');
        const seconds = Math.floor(clock.now() / 1_000);
        const claims = { sub: wallet, iat: seconds, exp: seconds + TOKEN_MS / 1_000 };
        const text = `${encoded({ alg: 'HS256', typ: 'JWT' })}.${encoded(claims)}`;
        const newUser = (await parts.project(wallet)) === null;
        return json({ token: `${text}.${await sign(text)}`, refId: wallet, newUser });
      },
    }),
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
          couponCode: Type.Optional(Type.Union([Type.String({ maxLength: 64 }), Type.Null()])),
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

const STATUS = {
  unpaid: {
    status: 'pending',
    phase: 'confirming',
    subscriptionActive: false,
    readyToRedirect: false,
    message: 'No payment with this memo has been seen',
  },
  confirming: {
    status: 'pending',
    phase: 'activating',
    subscriptionActive: false,
    readyToRedirect: false,
    message: 'The payment was seen and is not final yet',
  },
  complete: {
    status: 'completed',
    phase: 'complete',
    subscriptionActive: true,
    readyToRedirect: true,
    message: 'The payment is final and the project exists',
  },
  expired: {
    status: 'expired',
    phase: 'expired',
    subscriptionActive: false,
    readyToRedirect: false,
    message: 'The time to pay is over; a payment that arrives still counts',
  },
} as const;

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

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const parsed = (text: string): unknown => parsedText(Buffer.from(text, 'base64url').toString());

/** Null for a text that is not JSON. */
function parsedText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
