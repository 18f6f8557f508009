import { createHmac, timingSafeEqual } from 'node:crypto';
import { isPlainObject } from '../../src/lib/json.ts';
import { type Clock, RequestError } from '../../src/plugin/plugin.ts';

export interface HostedAccountParts {
  readonly clock: Clock;
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

/** The one price, as the wire calls it. */
export const PRICE_ID = 'agent';
const TOKEN_MS = 3_600_000;
const CHECKOUT_MS = 1_800_000;
const CENTS_PER_DOLLAR = 100;
const CODE_LENGTH = 16;

type Headers = Readonly<Record<string, string | string[] | undefined>>;

export type HostedAccounts = ReturnType<typeof createHostedAccounts>;

/** Tokens, checkouts and projects of wallets. Tokens and ids of checkouts are signed, so nothing is stored before a payment. */
export function createHostedAccounts(parts: HostedAccountParts) {
  const { clock, treasury, usdc } = parts;

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

  /** A token of this wallet. Only `walletOf` reads it. */
  async function tokenOf(wallet: string): Promise<string> {
    const seconds = Math.floor(clock.now() / 1_000);
    const claims = { sub: wallet, iat: seconds, exp: seconds + TOKEN_MS / 1_000 };
    const text = `${encoded({ alg: 'HS256', typ: 'JWT' })}.${encoded(claims)}`;
    return `${text}.${await sign(text)}`;
  }

  return { tokenOf, walletOf, newCheckout, shown, statusOf, projectOf, ownProject };
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

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const parsed = (text: string): unknown => parsedJson(Buffer.from(text, 'base64url').toString());

/** Null for a text that is not JSON. */
export function parsedJson(text: string): unknown {
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
