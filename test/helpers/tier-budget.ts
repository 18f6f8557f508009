/**
 * What the short tier may cost. A second of CPU is no unit: virtual machines of one name differ by a factor of three, and one machine by two
 * with what its neighbours and its own other work do; a small work beside the tests changes by another factor than they do. So some of the
 * tests are the unit: they are of each kind, and run in the same minutes as the others.
 */

/** Ordinary files of every area. Who makes one of them cheaper or more expensive states `MAX_REFERENCES` anew. */
const REFERENCE: readonly string[] = [
  'packages/portable/portable.test.ts',
  'plugins/das/recorded.test.ts',
  'plugins/parsed/revisions.test.ts',
  'src/ledger/lookup.test.ts',
  'src/solana/idl/recorded.test.ts',
  'test/conformance/access/usage.test.ts',
  'test/conformance/accounts/answers.test.ts',
  'test/conformance/das/assets.test.ts',
  'test/conformance/fees/recorded.test.ts',
  'test/conformance/history/held-blocks.test.ts',
  'test/conformance/history/sources.test.ts',
  'test/conformance/localchain/process.test.ts',
  'test/conformance/parsed/transactions.test.ts',
  'test/conformance/proxy/readers.test.ts',
  'test/conformance/streams/parsed.test.ts',
  'test/conformance/wallet/history.test.ts',
  'test/conformance/webhooks/delivery.test.ts',
  'test/conformance/webhooks/outbox.test.ts',
  'test/contract/compression/invented-spends.test.ts',
  'test/contract/compression/snapshots.test.ts',
  'test/contract/jobs/crowd.test.ts',
  'test/contract/store/store.test.ts',
  'test/contract/wallet/forks.test.ts',
  'test/e2e/cli/loads-little.test.ts',
  'test/e2e/proxy/web3.test.ts',
  'test/e2e/webhooks/local-chain.test.ts',
  'test/simulation/follower/faulty-processors.test.ts',
  'test/simulation/follower/random-4.test.ts',
  'test/simulation/follower/silence.test.ts',
  'test/simulation/polling/polling.test.ts',
];
/** How many times the CPU of the reference the whole tier may take, its build included. It took 10 before it had this budget, then 6. */
export const MAX_REFERENCES = 8;

/** The CPU seconds of a whole run of the tier, and those of its files. Returns a sentence, and whether it is within the budget. */
export function judgeTier(
  cpu: number,
  costs: ReadonlyMap<string, number>,
): { readonly text: string; readonly isWithin: boolean } {
  const missing = REFERENCE.filter((file) => !costs.has(file));
  if (missing.length > 0)
    return { isWithin: false, text: `NOT MEASURED: test/helpers/tier-budget.ts names ${missing.join(', ')}` };
  const unit = REFERENCE.reduce((sum, file) => sum + (costs.get(file) as number), 0);
  const times = cpu / unit;
  const facts = `${times.toFixed(1)} times its reference of ${REFERENCE.length} files, of ${MAX_REFERENCES}`;
  return times <= MAX_REFERENCES
    ? { isWithin: true, text: `The short tier took ${facts}.` }
    : {
        isWithin: false,
        text: `TOO MUCH FOR THE SHORT TIER: it took ${facts}: make tests cheaper, or name a file *.long.test.ts`,
      };
}
