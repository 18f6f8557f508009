/** Calls without a key that are paid one by one: a payment buys credits, and with them the right to one answer. */
import type { Gate, GateItem, Paywall } from '../plugin/host.ts';
import { GateRefusal, RequestError } from '../plugin/plugin.ts';
import { BodyAborted } from './body.ts';
import type { Exchange } from './exchange.ts';

interface PayParts {
  readonly gate: Gate | null;
  readonly paywall: Paywall | null;
}

/** Somebody else got the answer of this payment. */
class PaymentUsed extends RequestError {
  constructor() {
    super(402, 'Payment required', { details: 'An answer was given for this payment already' });
    this.name = 'PaymentUsed';
  }
}

/**
 * Lets who pays for the calls be the caller. False: they are not paid one by one, and `refused` stands: there is a key, or they cost nothing. Throws
 * RequestError 402 with the price, and GateRefusal for what the plan of those who pay does not include.
 */
export async function payForCalls(
  { gate, paywall }: PayParts,
  exchange: Exchange,
  refused: unknown,
  items: readonly GateItem[],
): Promise<boolean> {
  if (!(refused instanceof GateRefusal) || refused.reason !== 'no-key') return false;
  if (paywall === null || gate?.callerOf === undefined) return false;
  const credits = items.reduce((sum, { price }) => sum + (price?.credits ?? 0), 0);
  if (credits === 0) return false;
  const refusal = gate.planRefusal?.(paywall.plan, items) ?? null;
  if (refusal !== null) throw refusal;
  const { remoteAddress } = exchange;
  const payment = await paywall.take({
    path: exchange.target.path,
    credits,
    remoteAddress,
    header: (name) => exchange.requestHeader(name),
  });
  exchange.payment = payment;
  // The client has gone meanwhile; the payment stays as it is.
  if (exchange.over) {
    payment.end(false);
    throw new BodyAborted();
  }
  exchange.caller = await gate.callerOf(payment.projectId);
  return true;
}

/**
 * Before an answer is sent that is charged: uses up its payment and writes the charge. What breaks off before leaves the payment as it was, so that it
 * can be shown again; what breaks off afterwards leaves the credits with the project. Throws PaymentUsed.
 */
export async function usePayment(exchange: Exchange): Promise<void> {
  const { payment } = exchange;
  if (payment === null || exchange.over || !exchange.isDue()) return;
  if (!(await payment.use())) throw new PaymentUsed();
  exchange.chargeNow();
  await payment.charged();
}
