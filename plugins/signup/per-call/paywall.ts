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

/**
 * Takes the payment of a call without a key. A payment is in `inUse` before it is looked at, until its call has ended: no two calls get an
 * answer for it. The store marks it as used only when an answer left; until then it can be shown again.
 */
class CallPaywall implements Paywall {
  private readonly parts: PaywallParts;
  private readonly checks = createSemaphore(LIMITS);
  private readonly inUse = new Set<string>();
  private blockhash: { readonly at: number; readonly value: Promise<Blockhash> } | undefined;
  readonly plan: Paywall['plan'];

  constructor(parts: PaywallParts) {
    this.parts = parts;
    this.plan = parts.plan;
  }

  private recentBlockhash(): Promise<Blockhash> {
    if (this.blockhash !== undefined && this.parts.clock.monotonic() - this.blockhash.at < BLOCKHASH_MS)
      return this.blockhash.value;
    const value = this.parts.chain
      .call<{ value: Blockhash }>('getLatestBlockhash', [{ commitment: 'confirmed' }], { tenant: OWN_WORK })
      .then((answer) => answer.value);
    this.blockhash = { at: this.parts.clock.monotonic(), value };
    value.catch(() => {
      this.blockhash = undefined;
    });
    return value;
  }

  /** The answer 402: the price in both versions of the protocol, and why what was shown does not count. */
  private async refusal({ call, amount, seller }: Demand, why: Refusal, details: string): Promise<RequestError> {
    if (why !== 'payment_required') this.parts.outcomes.with(why).add();
    const [{ name, ticket }, recent] = await Promise.all([this.parts.orders.make(), this.recentBlockhash()]);
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
  private async settle(demand: Demand, shown: ShownPayment, completed: Completed, facilitator: Facilitator) {
    const { call, amount, seller } = demand;
    const order = await this.parts.orders.read(shown.memo);
    if (order === null) throw await this.refusal(demand, 'payment_invalid', 'its memo is no order of this service');
    if (order.expiresAt <= this.parts.clock.now())
      throw await this.refusal(demand, 'payment_late', 'its offer has ended');
    if (shown.mint !== seller.mint)
      throw await this.refusal(demand, 'payment_foreign_mint', `it is not in ${seller.mint}`);
    if (shown.amount !== amount)
      throw await this.refusal(demand, 'payment_short', `asked are exactly ${amount} units, given ${shown.amount}`);
    const problem = await this.checked(shown, amount, facilitator, networkOf(call.remoteAddress));
    if (problem === null) return await facilitator.send(completed);
    if (problem.includes('BlockhashNotFound'))
      throw await this.refusal(
        demand,
        'payment_late',
        'its blockhash has expired, and it is in no block that is known here',
      );
    // It was sent before, and its block is not read yet.
    if (!problem.includes('AlreadyProcessed')) throw await this.refusal(demand, 'payment_invalid', problem);
    if (!(await this.parts.orders.fits(shown.memo, shown.extra['ticket'])))
      throw await this.refusal(demand, 'payment_replayed', 'it was taken; its credits are those of its wallet');
  }

  private async checked(shown: ShownPayment, amount: bigint, facilitator: Facilitator, group: string) {
    try {
      return await this.checks.run(() => facilitator.problemOf(shown, amount), { group });
    } catch (error) {
      if (error instanceof SemaphoreFull)
        throw new RequestError(503, 'Service unavailable', { details: 'Too many payments are being checked' });
      throw error;
    }
  }

  /** The project that has the credits of a payment, as soon as it is final. */
  private async projectOf(demand: Demand, id: PaymentId, completed: Completed, facilitator: Facilitator) {
    const endMs = this.parts.clock.monotonic() + this.parts.waitMs;
    let sentMs = this.parts.clock.monotonic();
    for (;;) {
      const projectId = await this.parts.ledger.give(id);
      if (projectId !== null) return projectId;
      const nowMs = this.parts.clock.monotonic();
      if (nowMs >= endMs)
        throw await this.refusal(demand, 'payment_not_final', 'it counts when its block is final: show it again');
      if (nowMs - sentMs >= SEND_MS) {
        sentMs = nowMs;
        // A block with it may have been taken back, so it is sent until it is final.
        if ((await this.tried(() => facilitator.fateOf(completed))) === 'failed')
          throw await this.refusal(demand, 'payment_failed', 'it failed on the chain, and paid nothing');
        await this.tried(() => facilitator.send(completed));
      }
      await this.parts.clock.sleep(LOOK_MS);
    }
  }

  private async tried<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work();
    } catch (error) {
      this.parts.log.debug({ error: messageOf(error) }, 'a payment could not be followed');
      return null;
    }
  }

  private async taken(demand: Demand, shown: ShownPayment, completed: Completed, facilitator: Facilitator) {
    const id = { signature: completed.signature, wallet: shown.wallet };
    const row = await this.parts.ledger.find(id);
    if (row === undefined) await this.settle(demand, shown, completed, facilitator);
    else if (row.used_at !== null) throw await this.refusal(demand, 'payment_replayed', 'an answer was given for it');
    // Everybody can read a payment on the chain, but not the ticket of its order.
    else if (!(await this.parts.orders.fits(shown.memo, shown.extra['ticket'])))
      throw await this.refusal(demand, 'payment_replayed', 'it was taken; its credits are those of its wallet');
    const projectId = await this.projectOf(demand, id, completed, facilitator);
    // The gate learns of new credits when it reads them; while charges of the project are not written, it does not.
    await this.parts.charges.written();
    const credits = Number((await this.parts.ledger.find(id))?.credits ?? 0);
    if (credits < demand.call.credits)
      throw await this.refusal(
        demand,
        'payment_short',
        `it bought ${credits} credits, and the calls cost ${demand.call.credits}`,
      );
    return { id, projectId };
  }

  readonly take: Paywall['take'] = async (call): Promise<CallPayment> => {
    const { seller, facilitator } = await this.parts.seller();
    const asked = this.parts.price.amountOf(call.credits);
    const amount = asked > BigInt(this.parts.minimum) ? asked : BigInt(this.parts.minimum);
    const demand = { call, amount, seller };
    const shown = readShown(call);
    if (shown === null) throw await this.refusal(demand, 'payment_required', 'a key, or a payment of this price');
    if (typeof shown === 'string') throw await this.refusal(demand, 'payment_invalid', shown);
    if (shown.feePayer !== seller.feePayer.address)
      throw await this.refusal(demand, 'payment_invalid', 'its fee payer is not the one of the offer');
    const completed = facilitator.complete(shown);
    const { signature } = completed;
    if (this.inUse.has(signature)) throw await this.refusal(demand, 'payment_in_use', 'another request waits with it');
    this.inUse.add(signature);
    try {
      const { id, projectId } = await this.taken(demand, shown, completed, facilitator);
      this.parts.outcomes.with('taken').add();
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
        use: () => this.parts.ledger.use(id),
        charged: () => this.parts.charges.written(),
        end: (hasLeft) => {
          if (!hasLeft) this.inUse.delete(signature);
          else void this.tried(() => this.parts.ledger.use(id)).finally(() => this.inUse.delete(signature));
        },
      };
    } catch (error) {
      this.inUse.delete(signature);
      throw error;
    }
  };
}

export const createPaywall = (parts: PaywallParts): Paywall => new CallPaywall(parts);

interface Blockhash {
  readonly blockhash: string;
  readonly lastValidBlockHeight: number;
}
