/** Calls without a key: what they cost, and the payment that a client shows for them (x402, scheme `exact` of Solana). */

import { messageOf } from '../../../src/lib/coded-error.ts';
import type { CallPayment, PaidCall, Paywall } from '../../../src/plugin/host.ts';
import { type ChainReader, type Clock, type Log, RequestError } from '../../../src/plugin/plugin.ts';
import { type AccessCharges, OWN_WORK } from '../../../src/ports/access.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import { networkOf } from '../../../src/runtime/network-address.ts';
import { createSemaphore, SemaphoreFull } from '../../../src/runtime/semaphore.ts';
import type { Completed, Facilitator } from './facilitator.ts';
import type { PaymentId, PaymentLedger } from './ledger.ts';
import type { Orders } from './orders.ts';
import type { CreditPrice } from './price.ts';
import type { Seller } from './seller.ts';
import { readShown, type ShownPayment } from './shown.ts';

interface PaywallParts {
  readonly plan: string;
  readonly minimum: number;
  readonly waitMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly chain: ChainReader;
  readonly price: CreditPrice;
  readonly orders: Orders;
  readonly ledger: PaymentLedger;
  readonly charges: Pick<AccessCharges, 'written'>;
  /** Taken and refused payments. */
  readonly outcomes: Counter;
  /** Throws while the chain cannot be asked. */
  seller(): Promise<{ readonly seller: Seller; readonly facilitator: Facilitator }>;
}

/** Why a payment does not count: one name for each way. */
type Refusal =
  | 'payment_required'
  /** Not made for an offer of this service, or by its form no payment of it. */
  | 'payment_invalid'
  | 'payment_short'
  | 'payment_foreign_mint'
  /** The offer has ended. */
  | 'payment_late'
  /** An answer was given for it. */
  | 'payment_replayed'
  /** Another request waits with it. */
  | 'payment_in_use'
  /** In a block, with an error. */
  | 'payment_failed'
  /** Not final in time: it counts when it is. */
  | 'payment_not_final';

interface Demand {
  readonly call: PaidCall;
  readonly amount: bigint;
  readonly seller: Seller;
}

const TIMEOUT_S = 90;
const DOLLAR = 1_000_000n;
const BLOCKHASH_MS = 2_000;
const LOOK_MS = 50;
const SEND_MS = 2_000;
/** Checks at once, and callers that wait for one; of a network, not more than a quarter. */
const LIMITS = { concurrency: 32, perGroup: 8, maxWaiting: 512 } as const;

export function createPaywall(parts: PaywallParts): Paywall {
  const { clock, chain, price, orders, ledger } = parts;
  const checks = createSemaphore(LIMITS);
  const inUse = new Set<string>();
  let blockhash: { readonly at: number; readonly value: Promise<Blockhash> } | undefined;

  function recentBlockhash(): Promise<Blockhash> {
    if (blockhash !== undefined && clock.monotonic() - blockhash.at < BLOCKHASH_MS) return blockhash.value;
    const value = chain
      .call<{ value: Blockhash }>('getLatestBlockhash', [{ commitment: 'confirmed' }], { tenant: OWN_WORK })
      .then((answer) => answer.value);
    blockhash = { at: clock.monotonic(), value };
    value.catch(() => {
      blockhash = undefined;
    });
    return value;
  }

  /** The answer 402: the price in both versions of the protocol, and why what was shown does not count. */
  async function refusal({ call, amount, seller }: Demand, why: Refusal, details: string): Promise<RequestError> {
    if (why !== 'payment_required') parts.outcomes.with(why).add();
    const [{ name, ticket }, recent] = await Promise.all([orders.make(), recentBlockhash()]);
    const url = `${call.header('x-forwarded-proto') === 'https' ? 'https' : 'http'}://${call.header('host') ?? 'localhost'}${call.path}`;
    const ofPlan = amount > DOLLAR ? `; clients that pay at most a dollar need spendControls of ${amount} units` : '';
    const description = `${call.credits} credits${ofPlan}`;
    const shared = { scheme: 'exact', payTo: seller.treasury, asset: seller.mint, maxTimeoutSeconds: TIMEOUT_S };
    const extra = { feePayer: seller.feePayer.address, memo: name };
    const text = `${why}: ${details}`;
    const offer = {
      x402Version: 2,
      error: text,
      resource: { url, description, mimeType: 'application/json' },
      accepts: [
        {
          ...shared,
          network: seller.network,
          amount: String(amount),
          extra: {
            ...extra,
            ticket,
            paymentFlow: 'upfront',
            recentBlockhash: recent.blockhash,
            lastValidBlockHeight: String(recent.lastValidBlockHeight),
          },
        },
      ],
    };
    const accepts = [
      {
        ...shared,
        network: seller.networkOfVersion1,
        maxAmountRequired: String(amount),
        resource: url,
        description,
        mimeType: 'application/json',
        extra,
      },
    ];
    return new RequestError(402, 'Payment required', {
      details: text,
      headers: { 'PAYMENT-REQUIRED': Buffer.from(JSON.stringify(offer)).toString('base64') },
      members: { x402Version: 1, accepts },
    });
  }

  /** Brings a payment that no block has onto the chain. */
  async function settle(demand: Demand, shown: ShownPayment, completed: Completed, facilitator: Facilitator) {
    const { call, amount, seller } = demand;
    const order = await orders.read(shown.memo);
    if (order === null) throw await refusal(demand, 'payment_invalid', 'its memo is no order of this service');
    if (order.expiresAt <= clock.now()) throw await refusal(demand, 'payment_late', 'its offer has ended');
    if (shown.mint !== seller.mint) throw await refusal(demand, 'payment_foreign_mint', `it is not in ${seller.mint}`);
    if (shown.amount !== amount)
      throw await refusal(demand, 'payment_short', `asked are exactly ${amount} units, given ${shown.amount}`);
    const problem = await checked(shown, amount, facilitator, networkOf(call.remoteAddress));
    if (problem === null) return await facilitator.send(completed);
    if (problem.includes('BlockhashNotFound'))
      throw await refusal(
        demand,
        'payment_late',
        'its blockhash has expired, and it is in no block that is known here',
      );
    // It was sent before, and its block is not read yet.
    if (!problem.includes('AlreadyProcessed')) throw await refusal(demand, 'payment_invalid', problem);
    if (!(await orders.fits(shown.memo, shown.extra['ticket'])))
      throw await refusal(demand, 'payment_replayed', 'it was taken; its credits are those of its wallet');
  }

  async function checked(shown: ShownPayment, amount: bigint, facilitator: Facilitator, group: string) {
    try {
      return await checks.run(() => facilitator.problemOf(shown, amount), { group });
    } catch (error) {
      if (error instanceof SemaphoreFull)
        throw new RequestError(503, 'Service unavailable', { details: 'Too many payments are being checked' });
      throw error;
    }
  }

  /** The project that has the credits of a payment, as soon as it is final. */
  async function projectOf(demand: Demand, id: PaymentId, completed: Completed, facilitator: Facilitator) {
    const endMs = clock.monotonic() + parts.waitMs;
    let sentMs = clock.monotonic();
    for (;;) {
      const projectId = await ledger.give(id);
      if (projectId !== null) return projectId;
      const nowMs = clock.monotonic();
      if (nowMs >= endMs)
        throw await refusal(demand, 'payment_not_final', 'it counts when its block is final: show it again');
      if (nowMs - sentMs >= SEND_MS) {
        sentMs = nowMs;
        // A block with it may have been taken back, so it is sent until it is final.
        if ((await tried(() => facilitator.fateOf(completed))) === 'failed')
          throw await refusal(demand, 'payment_failed', 'it failed on the chain, and paid nothing');
        await tried(() => facilitator.send(completed));
      }
      await clock.sleep(LOOK_MS);
    }
  }

  async function tried<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      parts.log.debug({ error: messageOf(error) }, 'a payment could not be followed');
      return null;
    }
  }

  async function taken(demand: Demand, shown: ShownPayment, completed: Completed, facilitator: Facilitator) {
    const id = { signature: completed.signature, wallet: shown.wallet };
    const row = await ledger.find(id);
    if (row === undefined) await settle(demand, shown, completed, facilitator);
    else if (row.used_at !== null) throw await refusal(demand, 'payment_replayed', 'an answer was given for it');
    // Everybody can read a payment on the chain, but not the ticket of its order.
    else if (!(await orders.fits(shown.memo, shown.extra['ticket'])))
      throw await refusal(demand, 'payment_replayed', 'it was taken; its credits are those of its wallet');
    const projectId = await projectOf(demand, id, completed, facilitator);
    // The gate learns of new credits when it reads them; while charges of the project are not written, it does not.
    await parts.charges.written();
    const credits = Number((await ledger.find(id))?.credits ?? 0);
    if (credits < demand.call.credits)
      throw await refusal(
        demand,
        'payment_short',
        `it bought ${credits} credits, and the calls cost ${demand.call.credits}`,
      );
    return { id, projectId };
  }

  return {
    plan: parts.plan,
    async take(call): Promise<CallPayment> {
      const { seller, facilitator } = await parts.seller();
      const asked = price.amountOf(call.credits);
      const amount = asked > BigInt(parts.minimum) ? asked : BigInt(parts.minimum);
      const demand = { call, amount, seller };
      const shown = readShown(call);
      if (shown === null) throw await refusal(demand, 'payment_required', 'a key, or a payment of this price');
      if (typeof shown === 'string') throw await refusal(demand, 'payment_invalid', shown);
      if (shown.feePayer !== seller.feePayer.address)
        throw await refusal(demand, 'payment_invalid', 'its fee payer is not the one of the offer');
      const completed = facilitator.complete(shown);
      const { signature } = completed;
      if (inUse.has(signature)) throw await refusal(demand, 'payment_in_use', 'another request waits with it');
      inUse.add(signature);
      try {
        const { id, projectId } = await taken(demand, shown, completed, facilitator);
        parts.outcomes.with('taken').add();
        const receipt = {
          success: true,
          transaction: signature,
          network: shown.version === 1 ? seller.networkOfVersion1 : seller.network,
          payer: shown.wallet,
        };
        const name = shown.version === 1 ? 'X-PAYMENT-RESPONSE' : 'PAYMENT-RESPONSE';
        return {
          projectId,
          headers: { [name]: Buffer.from(JSON.stringify(receipt)).toString('base64') },
          use: () => ledger.use(id),
          charged: () => parts.charges.written(),
          end(hasLeft) {
            if (!hasLeft) inUse.delete(signature);
            else void tried(() => ledger.use(id)).finally(() => inUse.delete(signature));
          },
        };
      } catch (error) {
        inUse.delete(signature);
        throw error;
      }
    },
  };
}

interface Blockhash {
  readonly blockhash: string;
  readonly lastValidBlockHeight: number;
}
