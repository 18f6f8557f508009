import type { Gate } from '../../../src/plugin/host.ts';
import { type Clock, GateRefusal, type Log, type Metrics, type Store } from '../../../src/plugin/plugin.ts';
import type { ApiPeers } from '../../../src/ports/processes.ts';
import type { AccessConfig } from '../config.ts';
import { type CreditLoan, lendCredits } from '../credits.ts';
import type { Directory } from '../directory.ts';
import type { Meter, ProjectMetrics } from '../meter.ts';
import type { Plans } from '../plans.ts';
import { borrowRates, createGuessBrake, type FindBuckets, lendRates } from '../rates.ts';
import { Admitter } from './admit.ts';
import { OpenConnections } from './open-connections.ts';
import { batchRefusal, itemRefusal } from './rules.ts';
import { GateSessions } from './sessions.ts';
import { createStrangers, type Strangers } from './strangers.ts';

export { createAdmission } from './admission.ts';

interface GateParts {
  readonly store: Store;
  readonly directory: Directory;
  readonly meter: Pick<Meter, 'note'>;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly perProject: Pick<ProjectMetrics, 'rateLimited'>;
  readonly log: Log;
  readonly config: AccessConfig;
  /** The other processes of the API; null: there are none. */
  readonly peers: ApiPeers | null;
  /** Where this process gets the credits of calls from; null: it knows what is left. */
  readonly creditLoan: CreditLoan | null;
  readonly plans: () => Pick<Plans, 'limitsOf'>;
}

interface AccessGate extends Gate {
  watch: NonNullable<Gate['watch']>;
  callerOf: NonNullable<Gate['callerOf']>;
  /** To be called when a project or one of its keys has changed. */
  changed(projectId: string): void;
  stop(): void;
}

/** Authenticates callers (`sessions.ts`), admits their calls (`admit.ts`), and ends open connections (`open-connections.ts`). */
export function createGate(parts: GateParts): AccessGate {
  const { directory, clock, config, store, log, metrics, meter, perProject, peers, creditLoan } = parts;
  const refusals = metrics.counter('refused_total', 'calls that the gate refused, by reason', ['reason']);
  const slowed = metrics.counter('guesses_slowed_total', 'delayed answers to wrong keys');
  const brake = createGuessBrake(
    clock,
    () => config.badKeysPerMinute,
    () => slowed.add(),
  );
  const strangers = createStrangers(config.anonymous, directory);
  const rateLoan = peers === null || peers.isMain ? null : borrowRates(peers, clock);
  const sessions = new GateSessions({ directory, clock, strangers, brake, refusals });
  const admitter = new Admitter({ sessions, clock, meter, perProject, peers, rateLoan, creditLoan });
  const open = new OpenConnections({ sessions, strangers, store, clock, log });
  if (peers?.isMain === true) lendTo(peers, { directory, clock, meter, strangers });
  return {
    authenticate: (credentials, address) => sessions.authenticate(credentials, address),
    admit: (caller, items) => admitter.admit(caller, items),
    spend: (caller, group, tokens) => admitter.spend(caller, group, tokens),
    debit: (caller, group, tokens) => admitter.debit(caller, group, tokens),
    watch: (caller, client, onRefused, onPlan) => open.watch(caller, client, onRefused, onPlan),
    callerOf: (projectId) => sessions.callerOf(projectId),
    planRefusal(plan, items) {
      const limits = parts.plans().limitsOf(plan, null);
      if (limits === null) return new GateRefusal('plan');
      if (items.length > 1) {
        const refused = batchRefusal(items, limits.batch);
        if (refused !== null) return refused;
      }
      return items.map((item, index) => itemRefusal(item, index, null, limits)).find((found) => found !== null) ?? null;
    },
    changed(projectId) {
      directory.forget(projectId);
      open.lookNow();
    },
    stop() {
      open.stop();
      rateLoan?.stop();
      creditLoan?.stop();
    },
  };
}

/** Lends rates and credits to the other processes of the API. */
function lendTo(
  peers: ApiPeers,
  {
    directory,
    clock,
    meter,
    strangers,
  }: Pick<GateParts, 'directory' | 'clock' | 'meter'> & { readonly strangers: Strangers },
): void {
  const findBuckets: FindBuckets = async ({ projectId, network }) => {
    const account = await directory.project(projectId);
    if (account === null) return null;
    if (network !== null) return { ...strangers.ratesOf(network), taken: () => undefined };
    return { buckets: account.buckets, limits: account.limits, taken: () => meter.note(account) };
  };
  lendRates(peers, clock, findBuckets);
  lendCredits(peers, clock, directory.project);
  peers.answer('admin-rate', async (projectId) => {
    const account = await directory.project(String(projectId));
    return account?.adminWindow.take(clock.monotonic()) ?? false;
  });
}
