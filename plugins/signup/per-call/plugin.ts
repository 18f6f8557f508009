/** Adds calls that are paid one by one. The package and the chain are asked when the daemon starts. */

import { decode32 } from '../../../src/lib/base58.ts';
import { codeOf, EXIT, messageOf } from '../../../src/lib/coded-error.ts';
import type { HostContext } from '../../../src/plugin/host.ts';
import { CodedError } from '../../../src/plugin/plugin.ts';
import { type AccessAccounts, accessCharges } from '../../../src/ports/access.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import { readSecret } from '../checkout.ts';
import { SIGNUP_ERRORS, type SignupConfig } from '../config.ts';
import { createFacilitator, type Facilitator, loadSchemes } from './facilitator.ts';
import { createLedger } from './ledger.ts';
import { createOrders } from './orders.ts';
import { createPaywall } from './paywall.ts';
import { creditPrice } from './price.ts';
import { findSeller, mintOf, readTreasury, type Seller } from './seller.ts';

/** What the block processor has to know. */
export interface CallTerms {
  /** Null: the chain is not known yet. */
  place(): { readonly treasury: string; readonly treasuryKey: Uint8Array; readonly mint: string } | null;
  creditsOf(amount: bigint): number;
}

const GIVE_MS = 5_000;

export async function addPerCall(
  ctx: HostContext<SignupConfig>,
  accounts: AccessAccounts,
  outcomes: Counter,
): Promise<CallTerms> {
  const { config, store, clock, random, log, core, roles } = ctx;
  const { plan, minimum, waitMs } = config.perCall;
  const price = creditPrice(accounts, plan);
  const chain = ctx.chain('main');
  const charges = ctx.use(accessCharges);
  if (charges === undefined)
    throw new CodedError('SIGNUP_NO_ACCESS', SIGNUP_ERRORS.SIGNUP_NO_ACCESS, { exitCode: EXIT.config });
  const source = { config, dataDir: core.dataDir, clock, randomBytes: (count: number) => random.bytes(count) };
  let treasury: string | null = config.treasury;
  const terms: CallTerms = {
    place() {
      const mint = mintOf(config, chain?.status().genesisHash ?? null);
      const treasuryKey = treasury === null ? null : decode32(treasury);
      return mint === null || treasury === null || treasuryKey === null ? null : { treasury, treasuryKey, mint };
    },
    creditsOf: price.creditsOf,
  };
  ctx.onStart(async () => {
    if (chain !== null) treasury ??= await readTreasury({ chain, ...source });
  });
  if (!roles.has('api') || chain === null) return terms;

  let known: Promise<{ seller: Seller; facilitator: Facilitator }> | null = null;
  const seller = () => {
    known ??= Promise.all([findSeller({ chain, ...source }), loadSchemes([process.cwd(), core.dataDir])]).then(
      ([found, schemes]) => ({
        seller: found,
        facilitator: createFacilitator(schemes, found, chain),
      }),
    );
    known.catch(() => {
      known = null;
    });
    return known;
  };
  const ledger = createLedger({ store, clock, accounts, plan });
  const orders = createOrders(readSecret({ store, random }), { clock, random });
  ctx.host.paywall(
    createPaywall({ plan, minimum, waitMs, clock, log, chain, price, orders, ledger, charges, outcomes, seller }),
  );
  ctx.every(GIVE_MS, ledger.giveOpen);
  ctx.onStart(async () => {
    try {
      await seller();
    } catch (error) {
      // Settings stay wrong; a chain that cannot be asked now is asked at the next call.
      if (codeOf(error) === 'SIGNUP_PER_CALL') throw error;
      log.warn({ error: messageOf(error) }, 'payments of calls wait for the chain');
    }
  });
  return terms;
}
