import type { Admission, GateItem, Price } from '../../../src/kernel/plugin.ts';
import { type Account, turnDay } from '../metering/account.ts';
import { countCall } from '../metering/batch.ts';

export type Outcome = Parameters<Admission['settle']>[0][number];

const BYTE_PRODUCTS: ReadonlySet<string> = new Set(['laserstreamGrpc', 'laserstreamWebsocket']);

export interface Ticket {
  readonly account: Account;
  readonly items: readonly GateItem[];
  readonly headers: Readonly<Record<string, string>>;
  /** Credits that were set aside for all items. */
  readonly reserved: number;
  /** Nothing is charged: the calls go although the credits are used up. */
  readonly isWaived: boolean;
}

/** The calls go; `settled` is told when the account has something to write. */
export function createAdmission(ticket: Ticket, unixMs: () => number, settled: (account: Account) => void): Admission {
  const { account, items, reserved } = ticket;
  account.reservedCredits += reserved;
  let isOpen = true;
  return {
    headers: ticket.headers,
    settle(outcomes) {
      if (!isOpen) return;
      isOpen = false;
      account.reservedCredits -= reserved;
      turnDay(account, unixMs());
      let counted = false;
      for (let i = 0; i < outcomes.length; i += 1) {
        const price = items[i]?.price;
        const outcome = outcomes[i] as Outcome;
        if (price === undefined || !outcome.charged) continue;
        charge(account, price, outcome, ticket.isWaived);
        counted = true;
      }
      if (counted || account.buckets.size > 0) settled(account);
    },
  };
}

function charge(account: Account, price: Price, { bytesOut }: Outcome, isWaived: boolean): void {
  const ofBytes = BYTE_PRODUCTS.has(price.product);
  const credits = price.creditsPerByte === undefined ? price.credits : price.credits + price.creditsPerByte * bytesOut;
  countCall(account, price.product, {
    credits: isWaived ? 0 : credits,
    bytes: ofBytes ? bytesOut : 0,
    isRequest: !ofBytes,
  });
}
