import type { Admission, GateItem } from '../../../src/plugin/host.ts';
import type { Price } from '../../../src/plugin/plugin.ts';
import { type ProjectAccount, turnDay } from '../account.ts';
import { countCall } from '../write-batch.ts';

type Outcome = Parameters<Admission['charge']>[0][number];

const BYTE_PRODUCTS: ReadonlySet<string> = new Set(['laserstreamGrpc', 'laserstreamWebsocket']);

export interface Ticket {
  readonly account: ProjectAccount;
  readonly items: readonly GateItem[];
  readonly headers: Readonly<Record<string, string>>;
  /** Credits reserved for all items. */
  readonly reserved: number;
  /** Nothing is charged: the calls are admitted although the credits are used up. */
  readonly isWaived: boolean;
}

/** An admission; `changed` is called when the account has unwritten usage. */
export function createAdmission(
  ticket: Ticket,
  unixMs: () => number,
  changed: (account: ProjectAccount) => void,
): Admission {
  const { account, items, reserved } = ticket;
  account.reservedCredits += reserved;
  let isOpen = true;
  return {
    headers: ticket.headers,
    isWaived: ticket.isWaived,
    charge(outcomes) {
      if (!isOpen) return 0;
      isOpen = false;
      account.reservedCredits -= reserved;
      turnDay(account, unixMs());
      let counted = false;
      let credits = 0;
      for (let i = 0; i < outcomes.length; i += 1) {
        const price = items[i]?.price;
        const outcome = outcomes[i] as Outcome;
        if (price === undefined || !outcome.charged) continue;
        credits += charge(account, price, outcome, ticket.isWaived);
        counted = true;
      }
      if (counted || account.buckets.size > 0) changed(account);
      return credits;
    },
  };
}

/** Returns the credits. */
function charge(account: ProjectAccount, price: Price, { bytesOut, credits: own }: Outcome, isWaived: boolean): number {
  const ofBytes = BYTE_PRODUCTS.has(price.product);
  const credits = isWaived ? 0 : Math.min(price.credits, own ?? price.credits);
  countCall(account, price.product, {
    credits,
    bytes: ofBytes ? bytesOut : 0,
    isRequest: !ofBytes,
  });
  return credits;
}
