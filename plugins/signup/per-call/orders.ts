import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Clock, Random } from '../../../src/plugin/plugin.ts';

/** Names of orders begin so, and are the memos of their payments. */
export const ORDER_PREFIX = 'x402-';
/** How long an order can be paid. A payment that lands later counts, but buys no answer. */
const ORDER_MS = 120_000;
const NONCE_BYTES = 6;
const CODE_LENGTH = 12;
const TICKET_LENGTH = 24;
const FORM = /^x402-([0-9a-z]{8,9})-[\w-]{8}-[\w-]{12}$/;

/** Offers are not stored: the name of one says until when it stands, and that it is ours. */
export interface Orders {
  /** At most 40 ASCII characters: longer memos do not fit into the compute units of the official clients. */
  make(): Promise<Order>;
  /** Null: the name is not of ours. */
  read(name: string): Promise<{ readonly expiresAt: number } | null>;
  /** Whether the ticket is that of the order. */
  fits(name: string, ticket: unknown): Promise<boolean>;
}

export interface Order {
  readonly name: string;
  /** Known to who asked for the order, and not to who reads its payment on the chain. */
  readonly ticket: string;
}

export function createOrders(
  secret: () => Promise<Buffer>,
  { clock, random }: { readonly clock: Clock; readonly random: Random },
): Orders {
  const sign = async (text: string, length: number) =>
    createHmac('sha256', await secret())
      .update(text)
      .digest('base64url')
      .slice(0, length);
  const codeOf = (says: string) => sign(`order ${says}`, CODE_LENGTH);
  const ticketOf = (name: string) => sign(`ticket ${name}`, TICKET_LENGTH);
  return {
    async make() {
      const nonce = Buffer.from(random.bytes(NONCE_BYTES)).toString('base64url');
      const says = `${ORDER_PREFIX}${(clock.now() + ORDER_MS).toString(36)}-${nonce}`;
      const name = `${says}-${await codeOf(says)}`;
      return { name, ticket: await ticketOf(name) };
    },
    async read(name) {
      const expires = FORM.exec(name)?.[1];
      if (expires === undefined) return null;
      const at = name.length - CODE_LENGTH;
      if (!isSame(name.slice(at), await codeOf(name.slice(0, at - 1)))) return null;
      return { expiresAt: Number.parseInt(expires, 36) };
    },
    fits: async (name, ticket) => typeof ticket === 'string' && isSame(ticket, await ticketOf(name)),
  };
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
